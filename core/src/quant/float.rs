//! F32, F16 and BF16: one little-endian number per block.

use super::{Block, Half, Type};
use bytemuck::{Pod, Zeroable};

/// An f32.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct F32(pub [u8; 4]);

/// An IEEE half-precision number.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct F16(pub Half);

/// The upper half of an f32.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct BF16(pub [u8; 2]);

impl Block for F32 {
    const TYPE: Type = Type::F32;
    const LEN: usize = 1;

    fn dequantize(&self, out: &mut [f32]) {
        out[0] = f32::from_le_bytes(self.0);
    }
}

impl Block for F16 {
    const TYPE: Type = Type::F16;
    const LEN: usize = 1;

    fn dequantize(&self, out: &mut [f32]) {
        out[0] = self.0.get();
    }
}

impl Block for BF16 {
    const TYPE: Type = Type::BF16;
    const LEN: usize = 1;

    fn dequantize(&self, out: &mut [f32]) {
        out[0] = f32::from_le_bytes([0, 0, self.0[0], self.0[1]]);
    }
}
