//! Q4_K and Q5_K: blocks of 256 in eight sub-blocks, each with a scale and a minimum of six bits.

use super::codes::nibbles;
use super::run::Run;
use super::spec::Codes;
use crate::builder_ext::BuilderExt;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width, global};

/// A lane's part of such a block.
pub(crate) struct Q4KQ5K {
    /// True for Q5_K.
    five: bool,
    /// Byte of the lane's nibbles among all.
    quants: Value,
    /// Bits to the lane's pair of scales in a dword of four.
    pair: Value,
    /// Byte of the lane's fifth bits among all.
    high: Value,
    /// Number of the lane's bit in those.
    bit: Value,
    /// True if the lane has one of the first four sub-blocks.
    early: Value,
}

impl Q4KQ5K {
    /// `part` is the lane's number in the block.
    pub(crate) fn new(k: &mut Builder, codes: Codes, part: Value) -> Self {
        let quants = k.eval(part << 4);
        let chunk = k.eval(part >> 1);
        let odd = k.eval(chunk & 1);
        let half = k.eval(part & 1);
        let pair = k.eval(odd << 4);
        let high = k.eval(half << 4);
        let bit = k.eval(chunk << 1);
        let early = k.lt_u(chunk, 2);
        Self { five: codes == Codes::Bits(5), quants, pair, high, bit, early }
    }

    /// Header, nibbles, fifth bits where there are any.
    pub(crate) fn load(&self, k: &mut Builder, base: Value, offset: Value) -> Vec<Value> {
        let header = k.load(global(base, offset), Width::Dwords(4), Elem::Int);
        let quants = global(base, offset + self.quants).plus(if self.five { 48 } else { 16 });
        let mut loaded = alloc::vec![header, k.load(quants, Width::Dwords(4), Elem::Int)];
        if self.five {
            loaded.push(k.load(global(base, offset + self.high).plus(16), Width::Dwords(4), Elem::Int));
        }
        loaded
    }

    pub(crate) fn runs(&self, k: &mut Builder, loaded: &[Value]) -> [Run; 2] {
        let parts = k.elements(loaded[0], 4);
        let [d, dmin] = k.halves(parts[0]);
        let [scales, minima] = self.sub_scales(k, [parts[1], parts[2], parts[3]]);
        let quants = k.elements(loaded[1], 4);
        let high = loaded.get(2).map(|high| k.elements(*high, 4));
        [0u8, 1].map(|half| {
            let sub_scale = k.byte_to_float(scales, half);
            let scale = k.eval(sub_scale * d);
            let sub_minimum = k.byte_to_float(minima, half);
            let minimum = k.eval(sub_minimum * dmin * -1.0);
            let codes = core::array::from_fn(|index| {
                let low = nibbles(k, quants[index], half);
                let Some(high) = &high else { return low };
                // The lane's bit of each byte: sub-block 2c or 2c + 1.
                let bits = ((high[index] >> self.bit) >> u32::from(half)) & 0x0101_0101;
                let fifth = k.eval(bits << 4);
                k.eval(low | fifth)
            });
            Run { codes, scale, minimum: Some(minimum) }
        })
    }

    /// Six-bit scales and minima of the lane's two sub-blocks, in the low two bytes.
    fn sub_scales(&self, k: &mut Builder, dwords: [Value; 3]) -> [Value; 2] {
        let [scales, minima, rest] = dwords.map(|dword| k.shr(dword, self.pair));
        let late_scale = k.eval(rest & 0x0f0f);
        let late_minimum = k.eval((rest >> 4) & 0x0f0f);
        let mut merge = |own: Value, late: Value| {
            let low = k.eval(own & 0x3f3f);
            let upper = k.eval((own >> 2) & 0x3030);
            k.select(self.early, low, late | upper)
        };
        [merge(scales, late_scale), merge(minima, late_minimum)]
    }
}
