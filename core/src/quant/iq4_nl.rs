//! IQ4_NL: 32 four-bit codes for the entries of an uneven table, under one scale.

use super::block::{IntegerDot, Partials};
use super::codes::{look_up, products, scaled};
use super::scalar::Half;
use super::{Type, q8_0};
use bytemuck::{Pod, Zeroable};

/// What the codes stand for (`kvalues_iq4nl` in ggml).
pub const TABLE: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// 18 bytes: value = d · TABLE\[q\].
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
        look_up(&self.qs, &TABLE)
    }
}

impl super::Block for Block {
    const TYPE: Type = Type::IQ4_NL;
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
