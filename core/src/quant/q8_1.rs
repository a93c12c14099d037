//! Q8_1: the activation format of weights with a minimum. No weight file carries it.

use super::activation::{Activation, ActivationBlock};
use super::block::Partials;
use super::codes::products;
use super::q8_0::quantize_32;
use super::scalar::Half;
use bytemuck::{Pod, Zeroable};

/// 36 bytes: value = d · q.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale.
    pub d: Half,
    /// d · Σq. Infinite where the product is beyond 65504 (32 values of one sign with a magnitude over 2047),
    /// so the dot products here sum the codes instead of using it.
    pub s: Half,
    /// Codes in order, within ±127.
    pub qs: [i8; 32],
}

impl Block {
    /// Quantizes by the rule of [`super::q8_0::Block::quantize`].
    pub fn quantize(values: &[f32; 32]) -> Self {
        let (d, qs) = quantize_32(values);
        let mut block = Self { d: Half::new(d), s: Half::default(), qs };
        block.s = Half::new(d * block.sum() as f32);
        block
    }

    /// The integer sums against unsigned codes.
    pub(super) fn partials(&self, codes: [u8; 32]) -> Partials {
        Partials { products: products(&codes.map(u8::cast_signed), &self.qs), minima: self.sum() }
    }

    /// The sums under our scale, and those of the weights' codes and of their minimum.
    pub(super) fn combine(&self, [scale, minimum]: [Half; 2], sums: Partials) -> f64 {
        let products = f64::from(scale.get()) * f64::from(sums.products);
        let minima = f64::from(minimum.get()) * f64::from(sums.minima);
        f64::from(self.d.get()) * (products + minima)
    }

    /// Σq.
    pub fn sum(&self) -> i32 {
        self.qs.iter().map(|code| i32::from(*code)).sum()
    }
}

impl ActivationBlock for Block {
    const FORMAT: Activation = Activation::Q8_1;
}
