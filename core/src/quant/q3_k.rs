//! Q3_K: 256 three-bit codes around zero in sixteen sub-blocks of 16, each with a six-bit scale.

use super::block::{IntegerDot, Partials};
use super::codes::{scaled, write_runs};
use super::scalar::Half;
use super::{Type, q2_k, q8_k};
use bytemuck::{Pod, Zeroable};

/// 110 bytes: value = d · (scale − 32) · (q − 4).
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Bit r of byte i: the third bit of element 32 · r + i.
    pub hmask: [u8; 32],
    /// The low two bits, as in Q2_K.
    pub qs: [u8; 64],
    /// Sixteen six-bit scales; see [`Block::unpack_scales`].
    pub scales: [u8; 12],
    /// Scale of the scales.
    pub d: Half,
}

impl Block {
    /// The signed scales of the sub-blocks.
    ///
    /// Bytes 0..8 hold the low four bits of scales 0..8 in their low nibbles and of 8..16 in their high ones;
    /// bits 2k and 2k + 1 of byte 8 + i are the high two bits of scale 4k + i.
    pub fn unpack_scales(&self) -> [i32; 16] {
        core::array::from_fn(|i| {
            let byte = self.scales[i % 8];
            let low = if i < 8 { byte & 15 } else { byte >> 4 };
            let high = self.scales[8 + i % 4] >> (2 * (i / 4)) & 3;
            i32::from(low | high << 4) - 32
        })
    }

    /// The signed codes in order, −4..=3.
    pub fn codes(&self) -> [i8; 256] {
        let low = q2_k::two_bits(&self.qs);
        core::array::from_fn(|i| {
            let high = self.hmask[i % 32] >> (i / 32) & 1;
            low[i] - if high == 0 { 4 } else { 0 }
        })
    }
}

impl super::Block for Block {
    const TYPE: Type = Type::Q3_K;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        write_runs(self.d.get(), &self.unpack_scales(), &self.codes(), out);
    }
}

impl IntegerDot for Block {
    type Activation = q8_k::Block;

    fn partials(&self, activation: &q8_k::Block) -> Partials {
        activation.partials(&self.unpack_scales(), &self.codes())
    }

    fn combine(&self, activation: &q8_k::Block, sums: Partials) -> f64 {
        scaled(self.d.get(), activation.scale(), sums.products)
    }
}
