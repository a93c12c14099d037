//! Q5_1: 32 five-bit codes with a scale and a minimum.

use super::block::{IntegerDot, Partials};
use super::codes::five_bits;
use super::scalar::Half;
use super::{Type, q8_1};
use bytemuck::{Pod, Zeroable};

/// 24 bytes: value = d · q + m.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale.
    pub d: Half,
    /// The smallest value.
    pub m: Half,
    /// Bit i, little endian: the fifth bit of element i.
    pub qh: [u8; 4],
    /// Byte i: element i in the low nibble, element i + 16 in the high one.
    pub qs: [u8; 16],
}

impl Block {
    /// The unsigned codes in order.
    pub fn codes(&self) -> [u8; 32] {
        five_bits(&self.qs, self.qh)
    }
}

impl super::Block for Block {
    const TYPE: Type = Type::Q5_1;
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
        activation.partials(self.codes())
    }

    fn combine(&self, activation: &q8_1::Block, sums: Partials) -> f64 {
        activation.combine([self.d, self.m], sums)
    }
}
