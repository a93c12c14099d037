//! Q4_K and Q5_K: blocks of 256 in eight sub-blocks, each with a scale and a minimum of six bits.

use crate::builder_ext::{BuilderExt, at};
use crate::formats::codes::nibbles;
use crate::formats::lane_format::Run;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width};
use doorbell_core::quant::Type;

/// A lane's place in such a block.
pub(crate) struct Q4K {
    /// Q5_K.
    five: bool,
    /// Byte of the lane's nibbles among all.
    quants: Value,
    /// Bits to the lane's pair of scales in a dword of four.
    pair: Value,
    /// Byte of the lane's fifth bits among all.
    high: Value,
    /// Number of the lane's bit in those.
    bit: Value,
    /// Whether the lane has one of the first four sub-blocks.
    early: Value,
}

impl Q4K {
    /// `part` is the lane's number in the block.
    pub(crate) fn new(k: &mut Builder, ty: Type, part: Value) -> Self {
        let quants = k.left(part, 4);
        let chunk = k.right(part, 1);
        let odd = k.mask(chunk, 1);
        let half = k.mask(part, 1);
        let pair = k.left(odd, 4);
        let high = k.left(half, 4);
        let bit = k.left(chunk, 1);
        let two = k.int(2);
        let early = k.lt_u(chunk, two);
        Self { five: ty == Type::Q5_K, quants, pair, high, bit, early }
    }

    /// Header, nibbles, fifth bits where there are any.
    pub(crate) fn load(&self, k: &mut Builder, base: Value, offset: Value) -> Vec<Value> {
        let header = k.load(k.global(base, offset), Width::Dwords(4), Elem::Int);
        let own = k.add(offset, self.quants);
        let quants = at(k.global(base, own), if self.five { 48 } else { 16 });
        let mut loaded = alloc::vec![header, k.load(quants, Width::Dwords(4), Elem::Int)];
        if self.five {
            let from = k.add(offset, self.high);
            loaded.push(k.load(at(k.global(base, from), 16), Width::Dwords(4), Elem::Int));
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
            let scale = k.byte_to_float(scales, half);
            let scale = k.fmul(scale, d);
            let minimum = k.byte_to_float(minima, half);
            let minimum = k.fmul(minimum, dmin);
            let negative = k.scaled(minimum, -1.0);
            let codes = core::array::from_fn(|index| {
                let low = nibbles(k, quants[index], half);
                let Some(high) = &high else { return low };
                // The lane's bit of each byte: sub-block 2c or 2c + 1.
                let moved = k.shr(high[index], self.bit);
                let moved = k.right(moved, u32::from(half));
                let bits = k.mask(moved, 0x0101_0101);
                let bits = k.left(bits, 4);
                k.or(low, bits)
            });
            Run { codes, scale, minimum: Some(negative) }
        })
    }

    /// Six-bit scales and minima of the lane's two sub-blocks, in the low two bytes.
    fn sub_scales(&self, k: &mut Builder, dwords: [Value; 3]) -> [Value; 2] {
        let [scales, minima, rest] = dwords.map(|dword| k.shr(dword, self.pair));
        let late = k.mask(rest, 0x0f0f);
        let rest = k.right(rest, 4);
        let late_minimum = k.mask(rest, 0x0f0f);
        let mut merge = |own: Value, late: Value| {
            let low = k.mask(own, 0x3f3f);
            let high = k.right(own, 2);
            let high = k.mask(high, 0x3030);
            let high = k.or(late, high);
            k.select(self.early, low, high)
        };
        [merge(scales, late), merge(minima, late_minimum)]
    }
}
