//! IQ1_M: IQ1_S's lattice with a shift per 8 and a three-bit scale per 16; the block's scale lies in four pieces.

use super::iq1_s::SHIFT;
use super::lattice::iq1_point;
use super::scalar::Half;
use super::{Type, grids};
use bytemuck::{Pod, Zeroable};

/// 56 bytes: value = d · (2 · scale + 1) · (point ± ⅛).
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// The low eight bits of the points.
    pub qs: [u8; 32],
    /// A nibble per point, low ones first: its high three bits, and the sign of its shift.
    pub qh: [u8; 16],
    /// Per 64 elements, little endian: four three-bit scales, and four bits of the block's scale, lowest first.
    pub scales: [[u8; 2]; 4],
}

impl Block {
    /// The block's scale.
    pub fn d(&self) -> Half {
        let pieces = self.scales.map(|bytes| u16::from_le_bytes(bytes) >> 12);
        Half((pieces[0] | pieces[1] << 4 | pieces[2] << 8 | pieces[3] << 12).to_le_bytes())
    }
}

impl super::Block for Block {
    const TYPE: Type = Type::IQ1_M;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        let d = self.d().get();
        for (i, out) in out.chunks_exact_mut(8).enumerate() {
            let high = self.qh[i / 2] >> (4 * (i % 2));
            let bits = u16::from_le_bytes(self.scales[i / 8]) >> (3 * (i / 2 % 4)) & 7;
            let scale = d * f32::from(2 * bits + 1);
            let shift = if high & 8 == 0 { SHIFT } else { -SHIFT };
            let index = usize::from(self.qs[i]) | usize::from(high & 7) << 8;
            for (out, value) in out.iter_mut().zip(iq1_point(grids::IQ1[index])) {
                *out = scale * (value + shift);
            }
        }
    }
}
