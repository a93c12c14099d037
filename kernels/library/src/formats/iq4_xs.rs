//! IQ4_XS: blocks of 256 in eight sub-blocks of codes for the entries of a table, each with a scale of six bits.

use crate::builder_ext::{BuilderExt, at};
use crate::formats::codes::{IQ4_NL_VALUES, from_table};
use crate::formats::lane_format::Run;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width};

/// A lane's place in such a block.
pub(crate) struct Iq4Xs {
    /// Byte of the lane's nibbles among all.
    quants: Value,
    /// Number of the first of the scale's lower four bits.
    low: Value,
    /// Number of the first of its upper two.
    high: Value,
}

impl Iq4Xs {
    /// `part` is the lane's number in the block.
    pub(crate) fn new(k: &mut Builder, part: Value) -> Self {
        Self { quants: k.left(part, 4), low: k.left(part, 2), high: k.left(part, 1) }
    }

    /// Header, nibbles.
    pub(crate) fn load(&self, k: &mut Builder, base: Value, offset: Value) -> Vec<Value> {
        let header = k.load(k.global(base, offset), Width::Dwords(2), Elem::Int);
        let own = k.add(offset, self.quants);
        alloc::vec![header, k.load(at(k.global(base, own), 8), Width::Dwords(4), Elem::Int)]
    }

    pub(crate) fn runs(&self, k: &mut Builder, loaded: &[Value]) -> [Run; 2] {
        let (header, quants) = (loaded[0], loaded[1]);
        let (first, low) = (k.extract(header, 0), k.extract(header, 1));
        let halves = k.bits(first, Elem::HalfPair);
        let d = k.cvt_f_h(halves);
        let low = k.shr(low, self.low);
        let low = k.mask(low, 15);
        let high = k.right(first, 16);
        let high = k.shr(high, self.high);
        let high = k.mask(high, 3);
        let high = k.left(high, 4);
        let scale = k.or(low, high);
        let bias = k.int(32);
        let scale = k.sub(scale, bias);
        let scale = k.cvt_f_i(scale);
        let scale = k.fmul(scale, d);
        let quants = k.elements(quants, 4);
        [0, 1].map(|half| from_table(k, &quants, half, IQ4_NL_VALUES, scale))
    }
}
