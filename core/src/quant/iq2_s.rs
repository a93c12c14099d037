//! IQ2_S: groups of 8 magnitudes from a lattice of 1024 points, with signs; a four-bit scale per 16.

use super::Type;
use super::expand::{Expand, Expanded, dequantize};
use super::lattice::{self, odd_nibble, signed};
use super::scalar::Half;
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
        dequantize(self, out);
    }
}

impl Expand for Block {
    fn expand(&self, out: &mut Expanded) {
        out.factor = self.d.get() / 8.0;
        out.scales = core::array::from_fn(|i| odd_nibble(&self.scales, i));
        for (i, codes) in out.eights() {
            let high = usize::from(self.qh[i / 4] >> (2 * (i % 4)) & 3);
            *codes = signed(lattice::IQ2_S[usize::from(self.qs[i]) | high << 8], self.signs[i]);
        }
    }
}
