//! Q2_0: 64 two-bit codes under one scale.
//!
//! A fork uses the same type id for 128 codes in 34 bytes; [`crate::gguf`] refuses those files.

use super::Type;
use super::scalar::Half;
use bytemuck::{Pod, Zeroable};

/// 18 bytes: value = d · (q − 1).
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale.
    pub d: Half,
    /// Bits 2 · (i % 4) and the one above of byte i / 4 are element i.
    pub qs: [u8; 16],
}

impl super::Block for Block {
    const TYPE: Type = Type::Q2_0;
    const LEN: usize = 64;

    fn dequantize(&self, out: &mut [f32]) {
        let d = self.d.get();
        for (i, out) in out.iter_mut().enumerate() {
            let code = self.qs[i / 4] >> (2 * (i % 4)) & 3;
            *out = d * (f32::from(code) - 1.0);
        }
    }
}
