//! IQ1_S: groups of 8 values −1, 0 or 1 from a lattice of 2048 points; a three-bit scale and a shift per 32.

use super::Type;
use super::expand::{Expand, Expanded, dequantize};
use super::lattice::{self, shifted};
use super::scalar::Half;
use bytemuck::{Pod, Zeroable};

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
        dequantize(self, out);
    }
}

impl Expand for Block {
    fn expand(&self, out: &mut Expanded) {
        out.factor = self.d.get() / 8.0;
        let words = self.qh.map(u16::from_le_bytes);
        out.scales_of_32(|i| 2 * (words[i] >> 12 & 7) as i8 + 1);
        for (i, codes) in out.eights() {
            let high = words[i / 4];
            let index = usize::from(u16::from(self.qs[i / 4][i % 4]) | (high >> (3 * (i % 4)) & 7) << 8);
            *codes = shifted(lattice::IQ1[index], high >> 15 == 1);
        }
    }
}
