//! IQ2_XS: groups of 8 magnitudes from a lattice of 512 points, with signs; a four-bit scale per 16.

use super::Type;
use super::expand::{Expand, Expanded, dequantize};
use super::lattice::{self, even_signs, odd_nibble, signed};
use super::scalar::Half;
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
        dequantize(self, out);
    }
}

impl Expand for Block {
    fn expand(&self, out: &mut Expanded) {
        out.factor = self.d.get() / 8.0;
        out.scales = core::array::from_fn(|i| odd_nibble(&self.scales, i));
        for (i, codes) in out.eights() {
            let bits = u16::from_le_bytes(self.qs[i]);
            *codes = signed(lattice::IQ2_XS[usize::from(bits & 511)], even_signs(u32::from(bits >> 9)));
        }
    }
}
