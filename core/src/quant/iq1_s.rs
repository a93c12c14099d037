//! IQ1_S: groups of 8 values −1, 0 or 1 from a lattice of 2048 points; a three-bit scale and a shift per 32.

use super::lattice::iq1_point;
use super::scalar::Half;
use super::{Type, grids};
use bytemuck::{Pod, Zeroable};

/// What all values of a group are shifted by, up or down.
pub(super) const SHIFT: f32 = 0.125;

/// 50 bytes: value = d · (2 · scale + 1) · (point ± ⅛).
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale of the scales.
    pub d: Half,
    /// The low eight bits of the points.
    pub qs: [[u8; 4]; 8],
    /// Per 32 elements, little endian: four times the high three bits of a point, the scale, and the sign of
    /// the shift.
    pub qh: [[u8; 2]; 8],
}

impl super::Block for Block {
    const TYPE: Type = Type::IQ1_S;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        for (out, (points, high)) in out.chunks_exact_mut(32).zip(self.qs.iter().zip(self.qh)) {
            let high = u16::from_le_bytes(high);
            let scale = self.d.get() * f32::from(2 * (high >> 12 & 7) + 1);
            let shift = if high >> 15 == 0 { SHIFT } else { -SHIFT };
            for (i, (out, low)) in out.chunks_exact_mut(8).zip(points).enumerate() {
                let index = usize::from(u16::from(*low) | (high >> (3 * i) & 7) << 8);
                for (out, value) in out.iter_mut().zip(iq1_point(grids::IQ1[index])) {
                    *out = scale * (value + shift);
                }
            }
        }
    }
}
