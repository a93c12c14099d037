//! IQ1_M: IQ1_S's lattice with a shift per 8 and a three-bit scale per 16; the block's scale lies in four pieces.

use super::Type;
use super::expand::{Expand, Expanded, dequantize};
use super::lattice::{self, shifted};
use super::scalar::Half;
use bytemuck::{Pod, Zeroable};

/// 56 bytes: value = d · (2 · scale + 1) · (point ± ⅛).
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// The low eight bits of the points.
    pub qs: [u8; 32],
    /// A nibble per point, low ones first: its high three bits, and the sign of its shift.
    pub qh: [u8; 16],
    /// Per 64 elements, little endian: four three-bit scales, and four bits of the block's scale, lowest first.
    pub scales: [[u8; 2]; 4],
}

impl Block {
    /// The block's scale.
    pub fn d(&self) -> Half {
        let pieces = self.scales.map(|bytes| u16::from_le_bytes(bytes) >> 12);
        Half((pieces[0] | pieces[1] << 4 | pieces[2] << 8 | pieces[3] << 12).to_le_bytes())
    }
}

impl super::Block for Block {
    const TYPE: Type = Type::IQ1_M;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        dequantize(self, out);
    }
}

impl Expand for Block {
    fn expand(&self, out: &mut Expanded) {
        out.factor = self.d().get() / 8.0;
        let words = self.scales.map(u16::from_le_bytes);
        out.scales = core::array::from_fn(|i| 2 * (words[i / 4] >> (3 * (i % 4)) & 7) as i8 + 1);
        for (i, codes) in out.eights() {
            let high = self.qh[i / 2] >> (4 * (i % 2));
            let index = usize::from(self.qs[i]) | usize::from(high & 7) << 8;
            *codes = shifted(lattice::IQ1[index], high & 8 != 0);
        }
    }
}
