//! Q4_K: 256 four-bit codes in eight sub-blocks of 32, each with a six-bit scale and minimum.

use super::Type;
use super::block::{IntegerDot, Partials};
use super::q8_k;
use super::scalar::Half;
use bytemuck::{Pod, Zeroable};

/// 144 bytes: value = d · scale · q − dmin · minimum.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
    /// Eight six-bit scales and eight six-bit minima; see [`unpack_scales`].
    pub scales: [u8; 12],
    /// 32 bytes per pair of sub-blocks: low nibbles the even one, high nibbles the odd one.
    pub qs: [u8; 128],
}

/// The scales and minima of eight sub-blocks, 0..=63 each.
///
/// Sub-blocks 0..4 keep theirs whole in bytes 0..4 and 4..8; the later ones have the low four bits in bytes
/// 8..12 and the high two in the free top bits of the earlier bytes.
pub fn unpack_scales(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut minima) = ([0; 8], [0; 8]);
    for j in 0..4 {
        scales[j] = packed[j] & 63;
        minima[j] = packed[j + 4] & 63;
        scales[j + 4] = (packed[j + 8] & 15) | (packed[j] >> 6) << 4;
        minima[j + 4] = (packed[j + 8] >> 4) | (packed[j + 4] >> 6) << 4;
    }
    (scales, minima)
}

impl Block {
    /// The codes of sub-block `index` (0..8), 0..=15 each.
    fn codes(&self, index: usize) -> [i32; 32] {
        let chunk = &self.qs.as_chunks::<32>().0[index / 2];
        chunk.map(|byte| i32::from(if index.is_multiple_of(2) { byte & 15 } else { byte >> 4 }))
    }
}

impl super::Block for Block {
    const TYPE: Type = Type::Q4_K;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        let (scales, minima) = unpack_scales(&self.scales);
        for (index, out) in out.chunks_exact_mut(32).enumerate() {
            let d = self.d.get() * f32::from(scales[index]);
            let m = self.dmin.get() * f32::from(minima[index]);
            for (out, code) in out.iter_mut().zip(self.codes(index)) {
                *out = d * code as f32 - m;
            }
        }
    }
}

impl IntegerDot for Block {
    type Activation = q8_k::Block;

    fn partials(&self, activation: &q8_k::Block) -> Partials {
        let (scales, minima) = unpack_scales(&self.scales);
        let sums = activation.sums();
        let mut partials = Partials::default();
        for (index, input) in activation.qs.as_chunks::<32>().0.iter().enumerate() {
            let dot = super::q8_0::dot_codes(self.codes(index), input);
            partials.products += i32::from(scales[index]) * dot;
            partials.minima += i32::from(minima[index]) * (sums[2 * index] + sums[2 * index + 1]);
        }
        partials
    }

    fn combine(&self, activation: &q8_k::Block, sums: Partials) -> f64 {
        let products = f64::from(self.d.get()) * f64::from(sums.products);
        let minima = f64::from(self.dmin.get()) * f64::from(sums.minima);
        f64::from(activation.scale()) * (products - minima)
    }
}
