//! Q6_K: 256 six-bit codes around zero in sixteen sub-blocks of 16, each with an eight-bit scale.

use super::block::{IntegerDot, Partials};
use super::codes::{scaled, write_runs};
use super::scalar::Half;
use super::{Type, q8_k};
use bytemuck::{Pod, Zeroable};

/// 210 bytes: value = d · scale · (q − 32).
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// The low four bits: per half of 128 elements 64 bytes, low nibbles elements 0..64, high nibbles 64..128.
    pub ql: [u8; 128],
    /// The high two bits: per half 32 bytes, bits 2r and 2r + 1 of byte i belong to element 32 · r + i.
    pub qh: [u8; 64],
    /// Signed scales of the sub-blocks.
    pub scales: [i8; 16],
    /// Scale of the scales.
    pub d: Half,
}

impl Block {
    /// The signed codes in order, −32..=31.
    pub fn codes(&self) -> [i8; 256] {
        core::array::from_fn(|i| {
            let (half, run, index) = (i / 128, i / 32 % 4, i % 32);
            let byte = self.ql[64 * half + i % 64];
            let low = if run < 2 { byte & 15 } else { byte >> 4 };
            let high = self.qh[32 * half + index] >> (2 * run) & 3;
            (low | high << 4).cast_signed() - 32
        })
    }
}

impl super::Block for Block {
    const TYPE: Type = Type::Q6_K;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        write_runs(self.d.get(), &self.scales.map(i32::from), &self.codes(), out);
    }
}

impl IntegerDot for Block {
    type Activation = q8_k::Block;

    fn partials(&self, activation: &q8_k::Block) -> Partials {
        activation.partials(&self.scales.map(i32::from), &self.codes())
    }

    fn combine(&self, activation: &q8_k::Block, sums: Partials) -> f64 {
        scaled(self.d.get(), activation.scale(), sums.products)
    }
}
