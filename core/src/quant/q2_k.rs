//! Q2_K: 256 two-bit codes in sixteen sub-blocks of 16, each with a four-bit scale and minimum.

use super::block::{IntegerDot, Partials};
use super::codes::scaled_products;
use super::scalar::Half;
use super::{Type, q4_k, q8_k};
use bytemuck::{Pod, Zeroable};

/// 84 bytes: value = d · scale · q − dmin · minimum.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Per sub-block: the scale in the low nibble, the minimum in the high one.
    pub scales: [u8; 16],
    /// Two halves of 128 elements in 32 bytes each; see [`two_bits`].
    pub qs: [u8; 64],
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
}

/// The 256 codes: in either half, bits 0 and 1 of the 32 bytes are elements 0..32, bits 2 and 3 the next 32, ...
pub fn two_bits(packed: &[u8; 64]) -> [i8; 256] {
    core::array::from_fn(|i| {
        let (half, run, index) = (i / 128, i / 32 % 4, i % 32);
        (packed[32 * half + index] >> (2 * run) & 3).cast_signed()
    })
}

impl super::Block for Block {
    const TYPE: Type = Type::Q2_K;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        let codes = two_bits(&self.qs);
        let runs = out.chunks_exact_mut(16).zip(codes.chunks_exact(16));
        for (scale, (out, codes)) in self.scales.iter().zip(runs) {
            let d = self.d.get() * f32::from(scale & 15);
            let m = self.dmin.get() * f32::from(scale >> 4);
            for (out, code) in out.iter_mut().zip(codes) {
                *out = d * f32::from(*code) - m;
            }
        }
    }
}

impl IntegerDot for Block {
    type Activation = q8_k::Block;

    fn partials(&self, activation: &q8_k::Block) -> Partials {
        let scales = self.scales.map(|scale| i32::from(scale & 15));
        let minima = self.scales.iter().zip(activation.sums());
        Partials {
            products: scaled_products(&scales, &two_bits(&self.qs), &activation.qs),
            minima: minima.map(|(scale, sum)| i32::from(scale >> 4) * sum).sum(),
        }
    }

    fn combine(&self, activation: &q8_k::Block, sums: Partials) -> f64 {
        q4_k::combine(self.d, self.dmin, activation, sums)
    }
}
