//! IQ3_XXS: groups of 4 magnitudes from a lattice of 256 points, with signs; a four-bit scale per 32.

use super::lattice::{even_signs, iq3_point, signed};
use super::scalar::Half;
use super::{Type, grids};
use bytemuck::{Pod, Zeroable};

/// What the indices of a point stand for.
const MAGNITUDES: [u8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];

/// 98 bytes: value = d · (scale + ½) / 2 · ± magnitude.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale of the scales.
    pub d: Half,
    /// The points.
    pub qs: [[u8; 8]; 8],
    /// Per 32 elements, little endian: four times seven signs and the scale.
    pub scales_and_signs: [[u8; 4]; 8],
}

impl super::Block for Block {
    const TYPE: Type = Type::IQ3_XXS;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        let rows = self.qs.iter().zip(self.scales_and_signs);
        for (out, (points, bits)) in out.chunks_exact_mut(32).zip(rows) {
            let bits = u32::from_le_bytes(bits);
            let scale = self.d.get() * (0.5 + (bits >> 28) as f32) * 0.5;
            for (i, (out, point)) in out.chunks_exact_mut(4).zip(points).enumerate() {
                let point = iq3_point(grids::IQ3_XXS[usize::from(*point)], &MAGNITUDES);
                signed(out, scale, &point, even_signs(bits >> (7 * (i / 2))) >> (4 * (i % 2)));
            }
        }
    }
}
