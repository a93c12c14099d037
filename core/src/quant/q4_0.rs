//! Q4_0: 32 four-bit codes around zero under one scale.

use super::Type;
use super::block::Scaled;
use super::codes::{nibbles, signed};
use super::scalar::Half;
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

impl Scaled for Block {
    const KIND: Type = Type::Q4_0;

    fn scale(&self) -> f32 {
        self.d.get()
    }

    fn codes(&self) -> [i8; 32] {
        signed(nibbles(&self.qs), 8)
    }
}
