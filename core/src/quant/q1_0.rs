//! Q1_0: 128 signs under one scale.

use super::Type;
use super::scalar::Half;
use bytemuck::{Pod, Zeroable};

/// 18 bytes: value = d where the bit is set, −d where it is not.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale.
    pub d: Half,
    /// Bit i % 8 of byte i / 8 is element i.
    pub qs: [u8; 16],
}

impl super::Block for Block {
    const TYPE: Type = Type::Q1_0;
    const LEN: usize = 128;

    fn dequantize(&self, out: &mut [f32]) {
        let d = self.d.get();
        for (i, out) in out.iter_mut().enumerate() {
            *out = if self.qs[i / 8] >> (i % 8) & 1 == 0 { -d } else { d };
        }
    }
}
