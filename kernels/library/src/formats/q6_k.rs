//! Q6_K: blocks of 256 in sixteen sub-blocks, each with a scale of eight bits.

use crate::builder_ext::{BuilderExt, at};
use crate::formats::codes::nibbles;
use crate::formats::lane_format::Run;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width};

/// A lane's place in such a block.
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
        let low = k.left(part, 4);
        // Lane bits: half n of 128, run b, half h of 16.
        let (n, bits, h) = (k.right(part, 2), k.mask(part, 2), k.mask(part, 1));
        let (n32, h16) = (k.left(n, 5), k.left(h, 4));
        let high = k.add(n32, h16);
        let n8 = k.left(n, 3);
        let scale = k.add(n8, bits);
        let scale = k.add(scale, h);
        Self { low, high, bits, scale }
    }

    /// Low nibbles, upper bits, both scales, the block's factor.
    pub(crate) fn load(&self, k: &mut Builder, base: Value, offset: Value) -> Vec<Value> {
        let from = k.add(offset, self.low);
        let low = k.load(k.global(base, from), Width::Dwords(4), Elem::Int);
        let from = k.add(offset, self.high);
        let high = k.load(at(k.global(base, from), 128), Width::Dwords(4), Elem::Int);
        let from = k.add(offset, self.scale);
        let scales = [192, 196].map(|place| k.load(at(k.global(base, from), place), Width::I8, Elem::Int));
        let d = k.load(at(k.global(base, offset), 208), Width::U16, Elem::Int);
        alloc::vec![low, high, scales[0], scales[1], d]
    }

    pub(crate) fn runs(&self, k: &mut Builder, loaded: &[Value]) -> [Run; 2] {
        let d = k.bits(loaded[4], Elem::HalfPair);
        let d = k.cvt_f_h(d);
        let (low, high) = (k.elements(loaded[0], 4), k.elements(loaded[1], 4));
        let mut half = 0u8;
        [loaded[2], loaded[3]].map(|scale| {
            let scale = k.cvt_f_i(scale);
            let scale = k.fmul(scale, d);
            let codes = core::array::from_fn(|index| {
                let low = nibbles(k, low[index], half);
                // Bits 2r and 2r + 1, r = b or b + 2; `bits` is 2b.
                let moved = k.shr(high[index], self.bits);
                let moved = k.right(moved, 4 * u32::from(half));
                let bits = k.mask(moved, 0x0303_0303);
                let bits = k.left(bits, 4);
                k.or(low, bits)
            });
            half += 1;
            let minimum = k.scaled(scale, -32.0);
            Run { codes, scale, minimum: Some(minimum) }
        })
    }
}
