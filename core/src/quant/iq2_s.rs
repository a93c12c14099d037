//! IQ2_S: groups of 8 magnitudes from a lattice of 1024 points, with signs; a four-bit scale per 16.

use super::lattice::{iq2_point, nibble, signed};
use super::scalar::Half;
use super::{Type, grids};
use bytemuck::{Pod, Zeroable};

/// 82 bytes: value = d · (scale + ½) / 4 · ± magnitude.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale of the scales.
    pub d: Half,
    /// The low eight bits of the points.
    pub qs: [u8; 32],
    /// The signs, one byte per point.
    pub signs: [u8; 32],
    /// The high two bits of the points, four to a byte.
    pub qh: [u8; 8],
    /// Scales, low nibbles first.
    pub scales: [u8; 8],
}

impl super::Block for Block {
    const TYPE: Type = Type::IQ2_S;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        for (i, out) in out.chunks_exact_mut(8).enumerate() {
            let high = usize::from(self.qh[i / 4] >> (2 * (i % 4)) & 3);
            let point = iq2_point(grids::IQ2_S[usize::from(self.qs[i]) | high << 8]);
            let scale = self.d.get() * (0.5 + nibble(&self.scales, i / 2)) * 0.25;
            signed(out, scale, &point, self.signs[i]);
        }
    }
}
