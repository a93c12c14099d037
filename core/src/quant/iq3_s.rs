//! IQ3_S: groups of 4 magnitudes from a lattice of 512 points, with signs; a four-bit scale per 32.

use super::lattice::{iq3_point, nibble, signed};
use super::scalar::Half;
use super::{Type, grids};
use bytemuck::{Pod, Zeroable};

/// What the indices of a point stand for.
const MAGNITUDES: [u8; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

/// 110 bytes: value = d · (2 · scale + 1) · ± magnitude.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale of the scales.
    pub d: Half,
    /// The low eight bits of the points.
    pub qs: [u8; 64],
    /// The ninth bits of the points.
    pub qh: [u8; 8],
    /// The signs, one byte per two points.
    pub signs: [u8; 32],
    /// Scales, low nibbles first.
    pub scales: [u8; 4],
}

impl super::Block for Block {
    const TYPE: Type = Type::IQ3_S;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        for (i, out) in out.chunks_exact_mut(4).enumerate() {
            let high = usize::from(self.qh[i / 8] >> (i % 8) & 1);
            let point = iq3_point(grids::IQ3_S[usize::from(self.qs[i]) | high << 8], &MAGNITUDES);
            let scale = self.d.get() * (1.0 + 2.0 * nibble(&self.scales, i / 8));
            signed(out, scale, &point, self.signs[i / 2] >> (4 * (i % 2)));
        }
    }
}
