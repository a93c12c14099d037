//! IQ4_XS: blocks of 256 in eight sub-blocks of codes for the entries of a table, each with a scale of six bits.

use super::codes::{IQ4_NL_VALUES, from_table};
use super::run::Run;
use crate::builder_ext::BuilderExt;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width, global};

/// A lane's part of such a block.
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
        Self { quants: k.eval(part << 4), low: k.eval(part << 2), high: k.eval(part << 1) }
    }

    /// Header, nibbles.
    pub(crate) fn load(&self, k: &mut Builder, base: Value, offset: Value) -> Vec<Value> {
        let header = k.load(global(base, offset), Width::Dwords(2), Elem::Int);
        let quants = k.load(global(base, offset + self.quants).plus(8), Width::Dwords(4), Elem::Int);
        alloc::vec![header, quants]
    }

    pub(crate) fn runs(&self, k: &mut Builder, loaded: &[Value]) -> [Run; 2] {
        let (header, quants) = (loaded[0], loaded[1]);
        let (first, second) = (k.extract(header, 0), k.extract(header, 1));
        let d = k.eval(first.as_halves().f16_to_f32());
        let low = k.eval((second >> self.low) & 15);
        let high = k.eval((((first >> 16) >> self.high) & 3) << 4);
        let scale = k.eval(((low | high) - 32).i32_to_f32() * d);
        let quants = k.elements(quants, 4);
        [0, 1].map(|half| from_table(k, &quants, half, IQ4_NL_VALUES, scale))
    }
}
