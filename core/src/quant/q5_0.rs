//! Q5_0: 32 five-bit codes around zero under one scale.

use super::Type;
use super::block::Scaled;
use super::codes::{five_bits, signed};
use super::scalar::Half;
use bytemuck::{Pod, Zeroable};

/// 22 bytes: value = d · (q − 16).
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale.
    pub d: Half,
    /// Bit i, little endian: the fifth bit of element i.
    pub qh: [u8; 4],
    /// Byte i: element i in the low nibble, element i + 16 in the high one.
    pub qs: [u8; 16],
}

impl Scaled for Block {
    const KIND: Type = Type::Q5_0;

    fn scale(&self) -> f32 {
        self.d.get()
    }

    fn codes(&self) -> [i8; 32] {
        signed(five_bits(&self.qs, self.qh), 16)
    }
}
