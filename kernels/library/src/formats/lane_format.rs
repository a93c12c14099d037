//! Block formats in registers: what a lane loads of a row, and the codes, scales and minima that it becomes.
//!
//! A lane takes a unit of 32 weights as two runs of 16 codes; value = scale * code + minimum. Layouts are ggml's, as
//! in `doorbell_core::quant`. Types of plain floats are read by `product` itself.

use crate::builder_ext::BuilderExt;
use crate::formats::block32;
use crate::formats::iq4_xs::Iq4Xs;
use crate::formats::q4_k_q5_k::Q4K;
use crate::formats::q6_k::Q6K;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Value};
use doorbell_core::quant::Type;

/// 16 weights of a lane.
pub(crate) struct Run {
    /// Four codes each.
    pub(crate) codes: [Value; 4],
    /// MatrixSpec, f32.
    pub(crate) scale: Value,
    /// Added, f32.
    pub(crate) minimum: Option<Value>,
}

/// How elements of a row are spread over the lanes of a wave.
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
        let half = k.mask(lane, 1);
        let half = k.left(half, 4);
        let (high, middle) = match self {
            Self::Consecutive => return k.left(lane, 5),
            Self::Interleaved32 => {
                // Lanes 2c and 2c + 1 take elements 64c to 64c + 63.
                let pair = k.right(lane, 1);
                (k.left(pair, 6), None)
            }
            Self::Interleaved64 => {
                // Lane bits: block, half of 128, run of 32, half of 16.
                let upper = k.right(lane, 2);
                let run = k.mask(lane, 2);
                (k.left(upper, 7), Some(k.left(run, 4)))
            }
        };
        let sum = k.add(high, half);
        middle.map_or(sum, |middle| k.add(sum, middle))
    }
}

/// Whether weights of a type are read as codes; `None` where no kernel reads them.
pub(crate) fn is_coded(ty: Type) -> Option<bool> {
    match ty {
        Type::F32 | Type::F16 | Type::BF16 => Some(false),
        Type::Q4_0 | Type::Q4_1 | Type::Q5_0 | Type::Q5_1 | Type::Q8_0 | Type::IQ4_NL | Type::MXFP4 => {
            Some(true)
        }
        Type::Q4_K | Type::Q5_K | Type::Q6_K | Type::IQ4_XS => Some(true),
        _ => None,
    }
}

/// The middle of codes that are unsigned.
pub(crate) fn center(ty: Type) -> u32 {
    match ty {
        Type::Q4_0 | Type::Q4_1 | Type::Q4_K => 8,
        Type::Q5_0 | Type::Q5_1 | Type::Q5_K => 16,
        Type::Q6_K => 32,
        _ => 0,
    }
}

/// Values that [`LaneFormat::load`] loads of a unit.
pub(crate) fn values(ty: Type) -> usize {
    match ty {
        Type::Q6_K => 5,
        Type::Q8_0 | Type::Q5_K | Type::Q5_0 | Type::Q5_1 => 3,
        _ => 2,
    }
}

/// One format and a lane's place in it.
pub(crate) struct LaneFormat {
    /// Whether codes are signed bytes.
    pub(crate) signed: bool,
    /// Where elements are.
    pub(crate) spread: Spread,
    /// Bytes from one trip of a wave (1024 elements) to the next.
    pub(crate) advance: u32,
    ty: Type,
    place: BlockLane,
}

/// A lane's place in a block.
enum BlockLane {
    /// It has blocks of 32 as a whole.
    Whole,
    Q4K(Q4K),
    Q6K(Q6K),
    Iq4Xs(Iq4Xs),
}

impl LaneFormat {
    /// A lane's place in rows of coded weights.
    pub(crate) fn new(k: &mut Builder, ty: Type, lane: Value) -> Self {
        let block = ty.block_bytes() as u32;
        let signed = matches!(ty, Type::Q8_0 | Type::IQ4_NL | Type::IQ4_XS | Type::MXFP4);
        if ty.block_len() == 32 {
            let (spread, place) = (Spread::Consecutive, BlockLane::Whole);
            return Self { signed, spread, advance: 32 * block, ty, place };
        }
        let part = k.mask(lane, 7);
        let (spread, place) = match ty {
            Type::Q4_K | Type::Q5_K => (Spread::Interleaved32, BlockLane::Q4K(Q4K::new(k, ty, part))),
            Type::Q6_K => (Spread::Interleaved64, BlockLane::Q6K(Q6K::new(k, part))),
            _ => (Spread::Consecutive, BlockLane::Iq4Xs(Iq4Xs::new(k, part))),
        };
        Self { signed, spread, advance: 4 * block, ty, place }
    }

    /// Byte offset of the lane's block in the first trip.
    pub(crate) fn start(&self, k: &mut Builder, lane: Value) -> Value {
        let number = if self.ty.block_len() == 256 { k.right(lane, 3) } else { lane };
        let size = k.int(self.ty.block_bytes() as u32);
        k.mul24(number, size)
    }

    /// Byte offset of the last block of a row.
    pub(crate) fn last(&self, cols: u32) -> u32 {
        (cols / self.ty.block_len() as u32 - 1) * self.ty.block_bytes() as u32
    }

    /// The two runs of the lane's unit, whose block starts at `offset`.
    pub(crate) fn unit(&self, k: &mut Builder, base: Value, offset: Value) -> [Run; 2] {
        let loaded = self.load(k, base, offset);
        self.runs(k, &loaded)
    }

    /// What the lane's unit is made of, as it lies in memory: for [`LaneFormat::runs`].
    pub(crate) fn load(&self, k: &mut Builder, base: Value, offset: Value) -> Vec<Value> {
        match &self.place {
            BlockLane::Whole => block32::load(k, self.ty, k.global(base, offset)),
            BlockLane::Q4K(place) => place.load(k, base, offset),
            BlockLane::Q6K(place) => place.load(k, base, offset),
            BlockLane::Iq4Xs(place) => place.load(k, base, offset),
        }
    }

    /// The two runs of what [`LaneFormat::load`] loaded.
    pub(crate) fn runs(&self, k: &mut Builder, loaded: &[Value]) -> [Run; 2] {
        match &self.place {
            BlockLane::Whole => block32::runs(k, self.ty, loaded),
            BlockLane::Q4K(place) => place.runs(k, loaded),
            BlockLane::Q6K(place) => place.runs(k, loaded),
            BlockLane::Iq4Xs(place) => place.runs(k, loaded),
        }
    }
}
