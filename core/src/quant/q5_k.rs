//! Q5_K: 256 five-bit codes in eight sub-blocks of 32, each with a six-bit scale and minimum.

use super::block::{IntegerDot, Partials};
use super::scalar::Half;
use super::{Type, q4_k, q8_k};
use bytemuck::{Pod, Zeroable};

/// 176 bytes: value = d · scale · q − dmin · minimum.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
    /// Scales and minima as in Q4_K.
    pub scales: [u8; 12],
    /// Bit s of byte i: the fifth bit of element i of sub-block s.
    pub qh: [u8; 32],
    /// The low four bits as in Q4_K.
    pub qs: [u8; 128],
}

impl Block {
    /// The unsigned codes in order.
    pub fn codes(&self) -> [i8; 256] {
        let low = q4_k::four_bits(&self.qs);
        core::array::from_fn(|i| low[i] | ((self.qh[i % 32] >> (i / 32) & 1) << 4).cast_signed())
    }
}

impl super::Block for Block {
    const TYPE: Type = Type::Q5_K;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        q4_k::dequantize(self.d, self.dmin, &self.scales, &self.codes(), out);
    }
}

impl IntegerDot for Block {
    type Activation = q8_k::Block;

    fn partials(&self, activation: &q8_k::Block) -> Partials {
        q4_k::sums(&self.scales, &self.codes(), activation)
    }

    fn combine(&self, activation: &q8_k::Block, sums: Partials) -> f64 {
        q4_k::combine(self.d, self.dmin, activation, sums)
    }
}
