//! IQ2_XXS: groups of 8 magnitudes from a lattice of 256 points, with signs; a four-bit scale per 32.

use super::lattice::{even_signs, iq2_point, signed};
use super::scalar::Half;
use super::{Type, grids};
use bytemuck::{Pod, Zeroable};

/// 66 bytes: value = d · (scale + ½) / 4 · ± magnitude.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale of the scales.
    pub d: Half,
    /// Per 32 elements: four points, then 32 bits, little endian: four times seven signs and the scale.
    pub qs: [[u8; 8]; 8],
}

impl super::Block for Block {
    const TYPE: Type = Type::IQ2_XXS;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        for (out, [points @ .., a, b, c, d]) in out.chunks_exact_mut(32).zip(&self.qs) {
            let bits = u32::from_le_bytes([*a, *b, *c, *d]);
            let scale = self.d.get() * (0.5 + (bits >> 28) as f32) * 0.25;
            for (i, (out, point)) in out.chunks_exact_mut(8).zip(points).enumerate() {
                let point = iq2_point(grids::IQ2_XXS[usize::from(*point)]);
                signed(out, scale, &point, even_signs(bits >> (7 * i)));
            }
        }
    }
}
