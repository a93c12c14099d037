//! IQ3_S: groups of 4 magnitudes from a lattice of 512 points, with signs; a four-bit scale per 32.

use super::Type;
use super::expand::{Expand, Expanded, dequantize};
use super::lattice::{self, odd_nibble, pair, signed};
use super::scalar::Half;
use bytemuck::{Pod, Zeroable};

/// 110 bytes: value = d · (2 · scale + 1) · ± magnitude.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale of the scales.
    pub d: Half,
    /// The low eight bits of the points.
    pub qs: [u8; 64],
    /// The ninth bits of the points.
    pub qh: [u8; 8],
    /// The signs, one byte per two points.
    pub signs: [u8; 32],
    /// Scales, low nibbles first.
    pub scales: [u8; 4],
}

impl super::Block for Block {
    const TYPE: Type = Type::IQ3_S;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        dequantize(self, out);
    }
}

impl Expand for Block {
    fn expand(&self, out: &mut Expanded) {
        out.factor = self.d.get();
        out.scales_of_32(|i| odd_nibble(&self.scales, i));
        for (i, codes) in out.eights() {
            let point = |at: usize| {
                let high = usize::from(self.qh[at / 8] >> (at % 8) & 1);
                lattice::IQ3_S[usize::from(self.qs[at]) | high << 8]
            };
            *codes = signed(pair(point(2 * i), point(2 * i + 1)), self.signs[i]);
        }
    }
}
