//! Q4_0: 32 four-bit codes around zero under one scale.

use super::block::{IntegerDot, Partials};
use super::codes::{nibbles, products, scaled, signed};
use super::scalar::Half;
use super::{Type, q8_0};
use bytemuck::{Pod, Zeroable};

/// 18 bytes: value = d · (q − 8).
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale.
    pub d: Half,
    /// Byte i: element i in the low nibble, element i + 16 in the high one.
    pub qs: [u8; 16],
}

impl Block {
    /// The signed codes in order.
    pub fn codes(&self) -> [i8; 32] {
        signed(nibbles(&self.qs), 8)
    }
}

impl super::Block for Block {
    const TYPE: Type = Type::Q4_0;
    const LEN: usize = 32;

    fn dequantize(&self, out: &mut [f32]) {
        let d = self.d.get();
        for (out, code) in out.iter_mut().zip(self.codes()) {
            *out = d * f32::from(code);
        }
    }
}

impl IntegerDot for Block {
    type Activation = q8_0::Block;

    fn partials(&self, activation: &q8_0::Block) -> Partials {
        Partials { products: products(&self.codes(), &activation.qs), minima: 0 }
    }

    fn combine(&self, activation: &q8_0::Block, sums: Partials) -> f64 {
        scaled(self.d.get(), activation.d.get(), sums.products)
    }
}
