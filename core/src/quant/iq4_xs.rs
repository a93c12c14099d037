//! IQ4_XS: 256 codes for IQ4_NL's table in eight sub-blocks of 32, each with a six-bit scale.

use super::block::{IntegerDot, Partials};
use super::codes::{look_up, scaled, write_runs};
use super::scalar::Half;
use super::{Type, iq4_nl, q8_k};
use bytemuck::{Pod, Zeroable};

/// 136 bytes: value = d · (scale − 32) · TABLE\[q\].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale of the scales.
    pub d: Half,
    /// Bits 2s and 2s + 1, little endian: the high two bits of the scale of sub-block s.
    pub scales_h: [u8; 2],
    /// The low four bits of the scales, even sub-blocks in the low nibbles.
    pub scales_l: [u8; 4],
    /// Sixteen bytes per sub-block, in the nibble order of IQ4_NL.
    pub qs: [[u8; 16]; 8],
}

impl Block {
    /// The signed scales of the sub-blocks.
    pub fn unpack_scales(&self) -> [i32; 8] {
        let high = u16::from_le_bytes(self.scales_h);
        core::array::from_fn(|s| {
            let low = self.scales_l[s / 2] >> (4 * (s % 2)) & 15;
            i32::from(u16::from(low) | (high >> (2 * s) & 3) << 4) - 32
        })
    }

    /// The values of the codes, in order.
    pub fn codes(&self) -> [i8; 256] {
        let mut codes = [0; 256];
        for (codes, packed) in codes.as_chunks_mut().0.iter_mut().zip(&self.qs) {
            *codes = look_up(packed, &iq4_nl::TABLE);
        }
        codes
    }
}

impl super::Block for Block {
    const TYPE: Type = Type::IQ4_XS;
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
