//! MXFP4: 32 four-bit floats under one shared exponent (OCP microscaling).

use super::Type;
use super::block::Scaled;
use super::codes::look_up;
use super::scalar::exponent_half;
use bytemuck::{Pod, Zeroable};

/// The values of the codes, doubled: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives in FP4 E2M1.
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

impl Scaled for Block {
    const KIND: Type = Type::MXFP4;

    fn scale(&self) -> f32 {
        exponent_half(self.e)
    }

    fn codes(&self) -> [i8; 32] {
        look_up(&self.qs, &TABLE)
    }
}
