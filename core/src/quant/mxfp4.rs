//! MXFP4: 32 four-bit floats under one shared exponent (OCP microscaling).

use super::block::{IntegerDot, Partials};
use super::codes::{look_up, products, scaled};
use super::scalar::exponent_half;
use super::{Type, q8_0};
use bytemuck::{Pod, Zeroable};

/// What the codes stand for, doubled: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives in FP4 E2M1.
pub const TABLE: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// 17 bytes: value = 2^(e − 128) · TABLE\[q\].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Exponent; see [`exponent_half`].
    pub e: u8,
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
    const TYPE: Type = Type::MXFP4;
    const LEN: usize = 32;

    fn dequantize(&self, out: &mut [f32]) {
        let d = exponent_half(self.e);
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
        scaled(exponent_half(self.e), activation.d.get(), sums.products)
    }
}
