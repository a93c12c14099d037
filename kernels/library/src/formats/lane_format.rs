//! Block formats in registers: the loads of a lane in a row, and the codes, scales and minima that they become.
//!
//! A lane takes a unit of 32 weights as two runs of 16 codes. Layouts are ggml's, as in `doorbell_core::quant`.
//! Not here: weights that are floats (`floats`).

use super::block32;
use super::iq4_xs::Iq4Xs;
use super::q4_k_q5_k::Q4KQ5K;
use super::q6_k::Q6K;
use super::run::{Run, Spread};
use super::spec::{BlockFormat, FormatSpec};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Value, global};
use doorbell_core::quant::Type;

/// A format and a lane's part of its blocks.
pub(crate) struct LaneFormat {
    /// The format.
    pub(crate) spec: &'static FormatSpec,
    /// The lane's elements.
    pub(crate) spread: Spread,
    /// Bytes from one trip of a wave (1024 elements) to the next.
    pub(crate) advance: u32,
    lane: BlockLane,
}

/// A lane's part of a block.
enum BlockLane {
    /// The whole block of 32.
    Whole,
    Q4KQ5K(Q4KQ5K),
    Q6K(Q6K),
    Iq4Xs(Iq4Xs),
}

impl LaneFormat {
    /// A lane's part of rows of coded weights.
    pub(crate) fn new(k: &mut Builder, ty: Type, lane: Value) -> Self {
        let spec = FormatSpec::of(ty);
        let block = ty.block_bytes() as u32;
        if ty.block_len() == 32 {
            return Self { spec, spread: Spread::Consecutive, advance: 32 * block, lane: BlockLane::Whole };
        }
        let part = k.eval(lane & 7);
        let (spread, lane) = match spec.layout {
            BlockFormat::Q4KQ5K => {
                (Spread::Interleaved32, BlockLane::Q4KQ5K(Q4KQ5K::new(k, spec.codes, part)))
            }
            BlockFormat::Q6K => (Spread::Interleaved64, BlockLane::Q6K(Q6K::new(k, part))),
            _ => (Spread::Consecutive, BlockLane::Iq4Xs(Iq4Xs::new(k, part))),
        };
        Self { spec, spread, advance: 4 * block, lane }
    }

    /// Byte offset of the lane's block in the first trip.
    pub(crate) fn start(&self, k: &mut Builder, lane: Value) -> Value {
        let ty = self.spec.ty;
        let number = if ty.block_len() == 256 { k.eval(lane >> 3) } else { lane };
        k.mul24(number, ty.block_bytes() as u32)
    }

    /// Byte offset of the last block of a row.
    pub(crate) fn last(&self, cols: u32) -> u32 {
        let ty = self.spec.ty;
        (cols / ty.block_len() as u32 - 1) * ty.block_bytes() as u32
    }

    /// The two runs of the lane's unit, whose block starts at `offset`.
    pub(crate) fn unit(&self, k: &mut Builder, base: Value, offset: Value) -> [Run; 2] {
        let loaded = self.load(k, base, offset);
        self.runs(k, &loaded)
    }

    /// Loads the lane's unit as it lies in memory, for [`LaneFormat::runs`].
    pub(crate) fn load(&self, k: &mut Builder, base: Value, offset: Value) -> Vec<Value> {
        match &self.lane {
            BlockLane::Whole => block32::load(k, self.spec, &global(base, offset)),
            BlockLane::Q4KQ5K(lane) => lane.load(k, base, offset),
            BlockLane::Q6K(lane) => lane.load(k, base, offset),
            BlockLane::Iq4Xs(lane) => lane.load(k, base, offset),
        }
    }

    /// The two runs of a unit that [`LaneFormat::load`] loaded.
    pub(crate) fn runs(&self, k: &mut Builder, loaded: &[Value]) -> [Run; 2] {
        match &self.lane {
            BlockLane::Whole => block32::runs(k, self.spec, loaded),
            BlockLane::Q4KQ5K(lane) => lane.runs(k, loaded),
            BlockLane::Q6K(lane) => lane.runs(k, loaded),
            BlockLane::Iq4Xs(lane) => lane.runs(k, loaded),
        }
    }
}
