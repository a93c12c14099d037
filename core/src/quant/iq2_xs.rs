//! IQ2_XS: groups of 8 magnitudes from a lattice of 512 points, with signs; a four-bit scale per 16.

use super::lattice::{even_signs, iq2_point, nibble, signed};
use super::scalar::Half;
use super::{Type, grids};
use bytemuck::{Pod, Zeroable};

/// 74 bytes: value = d · (scale + ½) / 4 · ± magnitude.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale of the scales.
    pub d: Half,
    /// Per 8 elements, little endian: nine bits of point and seven of signs.
    pub qs: [[u8; 2]; 32],
    /// Scales, low nibbles first.
    pub scales: [u8; 8],
}

impl super::Block for Block {
    const TYPE: Type = Type::IQ2_XS;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        for (i, (out, bytes)) in out.chunks_exact_mut(8).zip(self.qs).enumerate() {
            let bits = u16::from_le_bytes(bytes);
            let scale = self.d.get() * (0.5 + nibble(&self.scales, i / 2)) * 0.25;
            let point = iq2_point(grids::IQ2_XS[usize::from(bits & 511)]);
            signed(out, scale, &point, even_signs(u32::from(bits >> 9)));
        }
    }
}
