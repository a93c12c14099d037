//! Runs of weights in registers, and the spread of a row's elements over the lanes of a wave.

use doorbell_compiler::ir::{Builder, Value};

/// 16 weights of a lane: `scale * code + minimum`.
pub(crate) struct Run {
    /// Four codes each.
    pub(crate) codes: [Value; 4],
    /// Factor, f32.
    pub(crate) scale: Value,
    /// Addend, f32.
    pub(crate) minimum: Option<Value>,
}

/// The spread of a row's elements over the lanes of a wave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spread {
    /// 32 consecutive elements a lane.
    Consecutive,
    /// Blocks of 256 over eight lanes; the second run is 32 elements after the first.
    Interleaved32,
    /// As `Interleaved32`, but 64 elements after the first.
    Interleaved64,
}

impl Spread {
    /// Elements from the first to the second run.
    pub(crate) fn distance(self) -> u32 {
        match self {
            Self::Consecutive => 16,
            Self::Interleaved32 => 32,
            Self::Interleaved64 => 64,
        }
    }

    /// First element of the lane's first run in 1024 elements.
    pub(crate) fn first(self, k: &mut Builder, lane: Value) -> Value {
        let half = k.eval((lane & 1) << 4);
        match self {
            Self::Consecutive => k.eval(lane << 5),
            // Lanes 2c and 2c + 1 take elements 64c to 64c + 63.
            Self::Interleaved32 => k.eval(((lane >> 1) << 6) + half),
            Self::Interleaved64 => {
                // Lane bits: block, half of 128, run of 32, half of 16.
                let upper = k.eval(lane >> 2);
                let run = k.eval(lane & 2);
                let block = k.eval(upper << 7);
                let within = k.eval(run << 4);
                k.eval(block + half + within)
            }
        }
    }
}
