//! Q4_1: 32 four-bit codes with a scale and a minimum.

use super::block::{IntegerDot, Partials};
use super::codes::{nibbles, products};
use super::scalar::Half;
use super::{Type, q8_1};
use bytemuck::{Pod, Zeroable};

/// 20 bytes: value = d · q + m.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale.
    pub d: Half,
    /// The smallest value.
    pub m: Half,
    /// Byte i: element i in the low nibble, element i + 16 in the high one.
    pub qs: [u8; 16],
}

impl Block {
    /// The unsigned codes in order.
    pub fn codes(&self) -> [u8; 32] {
        nibbles(&self.qs)
    }
}

impl super::Block for Block {
    const TYPE: Type = Type::Q4_1;
    const LEN: usize = 32;

    fn dequantize(&self, out: &mut [f32]) {
        let (d, m) = (self.d.get(), self.m.get());
        for (out, code) in out.iter_mut().zip(self.codes()) {
            *out = d * f32::from(code) + m;
        }
    }
}

impl IntegerDot for Block {
    type Activation = q8_1::Block;

    fn partials(&self, activation: &q8_1::Block) -> Partials {
        let codes = self.codes().map(u8::cast_signed);
        Partials { products: products(&codes, &activation.qs), minima: activation.sum() }
    }

    fn combine(&self, activation: &q8_1::Block, sums: Partials) -> f64 {
        let products = f64::from(self.d.get()) * f64::from(sums.products);
        let minima = f64::from(self.m.get()) * f64::from(sums.minima);
        f64::from(activation.d.get()) * (products + minima)
    }
}
