//! Q4_K: 256 four-bit codes in eight sub-blocks of 32, each with a six-bit scale and minimum.

use super::block::{IntegerDot, Partials};
use super::codes::scaled_products;
use super::scalar::Half;
use super::{Type, q8_k};
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
pub fn unpack_scales(packed: &[u8; 12]) -> ([i32; 8], [i32; 8]) {
    let (mut scales, mut minima) = ([0; 8], [0; 8]);
    for j in 0..4 {
        let [scale, minimum, low] = [packed[j], packed[j + 4], packed[j + 8]].map(i32::from);
        (scales[j], minima[j]) = (scale & 63, minimum & 63);
        scales[j + 4] = (low & 15) | (scale >> 6) << 4;
        minima[j + 4] = (low >> 4) | (minimum >> 6) << 4;
    }
    (scales, minima)
}

/// The 256 codes without fifth bits.
pub(super) fn four_bits(packed: &[u8; 128]) -> [i8; 256] {
    core::array::from_fn(|i| {
        let byte = packed[32 * (i / 64) + i % 32];
        (if i / 32 % 2 == 0 { byte & 15 } else { byte >> 4 }).cast_signed()
    })
}

impl Block {
    /// The unsigned codes in order.
    pub fn codes(&self) -> [i8; 256] {
        four_bits(&self.qs)
    }
}

/// Dequantizes sub-blocks of 32 with minima.
pub(super) fn dequantize(d: Half, dmin: Half, packed: &[u8; 12], codes: &[i8; 256], out: &mut [f32]) {
    let (scales, minima) = unpack_scales(packed);
    let runs = out.chunks_exact_mut(32).zip(codes.chunks_exact(32));
    for ((scale, minimum), (out, codes)) in scales.iter().zip(minima).zip(runs) {
        let d = d.get() * *scale as f32;
        let m = dmin.get() * minimum as f32;
        for (out, code) in out.iter_mut().zip(codes) {
            *out = d * f32::from(*code) - m;
        }
    }
}

/// The integer sums of sub-blocks of 32 with minima.
pub(super) fn sums(packed: &[u8; 12], codes: &[i8; 256], activation: &q8_k::Block) -> Partials {
    let (scales, minima) = unpack_scales(packed);
    let pairs = activation.sums();
    let pairs = pairs.as_chunks::<2>().0.iter().map(|[first, second]| first + second);
    Partials {
        products: scaled_products(&scales, codes, &activation.qs),
        minima: minima.iter().zip(pairs).map(|(minimum, sum)| minimum * sum).sum(),
    }
}

/// The block's share of the dot product, with minima.
pub(super) fn combine(d: Half, dmin: Half, activation: &q8_k::Block, sums: Partials) -> f64 {
    let products = f64::from(d.get()) * f64::from(sums.products);
    let minima = f64::from(dmin.get()) * f64::from(sums.minima);
    f64::from(activation.scale()) * (products - minima)
}

impl super::Block for Block {
    const TYPE: Type = Type::Q4_K;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        dequantize(self.d, self.dmin, &self.scales, &self.codes(), out);
    }
}

impl IntegerDot for Block {
    type Activation = q8_k::Block;

    fn partials(&self, activation: &q8_k::Block) -> Partials {
        sums(&self.scales, &self.codes(), activation)
    }

    fn combine(&self, activation: &q8_k::Block, sums: Partials) -> f64 {
        combine(self.d, self.dmin, activation, sums)
    }
}
