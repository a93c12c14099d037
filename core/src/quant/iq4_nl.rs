//! IQ4_NL: 32 four-bit codes for the entries of an uneven table, under one scale.

use super::Type;
use super::block::Scaled;
use super::codes::look_up;
use super::scalar::Half;
use bytemuck::{Pod, Zeroable};

/// The values of the codes (`kvalues_iq4nl` in ggml).
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

impl Scaled for Block {
    const KIND: Type = Type::IQ4_NL;

    fn scale(&self) -> f32 {
        self.d.get()
    }

    fn codes(&self) -> [i8; 32] {
        look_up(&self.qs, &TABLE)
    }
}
