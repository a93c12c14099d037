//! IQ2_XXS: groups of 8 magnitudes from a lattice of 256 points, with signs; a four-bit scale per 32.

use super::Type;
use super::expand::{Expand, Expanded, dequantize};
use super::lattice::{self, even_signs, signed};
use super::scalar::Half;
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
        dequantize(self, out);
    }
}

impl Expand for Block {
    fn expand(&self, out: &mut Expanded) {
        out.factor = self.d.get() / 8.0;
        let words = self.qs.map(|[.., a, b, c, d]| u32::from_le_bytes([a, b, c, d]));
        out.scales_of_32(|i| 2 * (words[i] >> 28) as i8 + 1);
        for (i, codes) in out.eights() {
            let point = lattice::IQ2_XXS[usize::from(self.qs[i / 4][i % 4])];
            *codes = signed(point, even_signs(words[i / 4] >> (7 * (i % 4))));
        }
    }
}
