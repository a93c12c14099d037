//! The random numbers of a request: counted draws, or the two streams that llama.cpp's sampler uses.

use super::mt19937::Mt19937;
use super::params::{Generator, SamplerParams};
use super::random::{Purpose, RequestKey, draw};
use crate::heap::{Heap, OutOfMemory};

/// The random numbers of one request.
pub(super) enum Source<'a> {
    /// Each number is computed from its key.
    Counted(RequestKey),
    /// Each stage of llama.cpp's sampler has a generator of its own, all with the same seed.
    Streams { token: Mt19937<'a>, xtc: Mt19937<'a> },
}

impl<'a> Source<'a> {
    pub(super) fn new(params: &SamplerParams, request: u64, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        let seed = params.seed as u32;
        Ok(match params.generator {
            Generator::Counter => Self::Counted(RequestKey { seed: params.seed, request }),
            Generator::Mt19937 => {
                Self::Streams { token: Mt19937::new(seed, heap)?, xtc: Mt19937::new(seed, heap)? }
            }
        })
    }

    /// Bytes of heap that it takes.
    pub(super) fn bytes(generator: Generator) -> usize {
        match generator {
            Generator::Counter => 0,
            Generator::Mt19937 => 2 * Mt19937::BYTES,
        }
    }

    /// The number in `[0, 1)` that picks the token at `position`.
    pub(super) fn token(&mut self, position: u32) -> f64 {
        match self {
            Self::Counted(key) => draw(*key, position, Purpose::Token),
            Self::Streams { token, .. } => token.double(),
        }
    }

    /// The number in `[0, 1)` that decides on XTC at `position`.
    pub(super) fn xtc(&mut self, position: u32) -> f64 {
        match self {
            Self::Counted(key) => draw(*key, position, Purpose::Xtc),
            Self::Streams { xtc, .. } => xtc.float().into(),
        }
    }
}
