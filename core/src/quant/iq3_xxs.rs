//! IQ3_XXS: groups of 4 magnitudes from a lattice of 256 points, with signs; a four-bit scale per 32.

use super::Type;
use super::expand::{Expand, Expanded, dequantize};
use super::lattice::{self, even_signs, pair, signed};
use super::scalar::Half;
use bytemuck::{Pod, Zeroable};

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
        dequantize(self, out);
    }
}

impl Expand for Block {
    fn expand(&self, out: &mut Expanded) {
        out.factor = self.d.get() / 4.0;
        let words = self.scales_and_signs.map(u32::from_le_bytes);
        out.scales_of_32(|i| 2 * (words[i] >> 28) as i8 + 1);
        for (i, codes) in out.eights() {
            let point = |low: usize| lattice::IQ3_XXS[usize::from(self.qs[i / 4][2 * (i % 4) + low])];
            *codes = signed(pair(point(0), point(1)), even_signs(words[i / 4] >> (7 * (i % 4))));
        }
    }
}
