//! Q6_K: blocks of 256 in sixteen sub-blocks, each with a scale of eight bits.

use super::codes::nibbles;
use super::run::Run;
use crate::builder_ext::BuilderExt;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width, global};

/// A lane's part of such a block.
pub(crate) struct Q6K {
    /// Byte of the lane's low nibbles: 64 bytes per half of the block, 32 per run, 16 per lane.
    low: Value,
    /// Byte of the lane's upper bits among all.
    high: Value,
    /// Number of the lane's two bits in those of its first run.
    bits: Value,
    /// Byte of the scale of the lane's first run among all.
    scale: Value,
}

impl Q6K {
    /// `part` is the lane's number in the block.
    pub(crate) fn new(k: &mut Builder, part: Value) -> Self {
        let low = k.eval(part << 4);
        // Lane bits: half n of 128, run b, half h of 16.
        let (n, bits, h) = (k.eval(part >> 2), k.eval(part & 2), k.eval(part & 1));
        let high = k.eval((n << 5) + (h << 4));
        let scale = k.eval((n << 3) + bits + h);
        Self { low, high, bits, scale }
    }

    /// Low nibbles, upper bits, both scales, the block's factor.
    pub(crate) fn load(&self, k: &mut Builder, base: Value, offset: Value) -> Vec<Value> {
        let low = k.load(global(base, offset + self.low), Width::Dwords(4), Elem::Int);
        let high = k.load(global(base, offset + self.high).plus(128), Width::Dwords(4), Elem::Int);
        let from = k.eval(offset + self.scale);
        let scales = [192, 196].map(|byte| k.load(global(base, from).plus(byte), Width::I8, Elem::Int));
        let d = k.load(global(base, offset).plus(208), Width::U16, Elem::Int);
        alloc::vec![low, high, scales[0], scales[1], d]
    }

    pub(crate) fn runs(&self, k: &mut Builder, loaded: &[Value]) -> [Run; 2] {
        let d = k.eval(loaded[4].as_halves().f16_to_f32());
        let (low, high) = (k.elements(loaded[0], 4), k.elements(loaded[1], 4));
        [(loaded[2], 0u8), (loaded[3], 1)].map(|(sub_scale, half)| {
            let scale = k.eval(sub_scale.i32_to_f32() * d);
            let codes = core::array::from_fn(|index| {
                let low = nibbles(k, low[index], half);
                // Bits 2r and 2r + 1, r = b or b + 2; `bits` is 2b.
                let upper = ((high[index] >> self.bits) >> (4 * u32::from(half))) & 0x0303_0303;
                let upper = k.eval(upper << 4);
                k.eval(low | upper)
            });
            Run { codes, scale, minimum: Some(k.eval(scale * -32.0)) }
        })
    }
}
