//! TQ2_0: 256 two-bit codes, meant to be ternary, under one scale.

use super::Type;
use super::expand::{Expand, Expanded, dequantize};
use super::scalar::Half;
use bytemuck::{Pod, Zeroable};

/// 66 bytes: value = d · (q − 1).
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Codes in the order of Q2_K.
    pub qs: [u8; 64],
    /// Scale.
    pub d: Half,
}

impl super::Block for Block {
    const TYPE: Type = Type::TQ2_0;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        dequantize(self, out);
    }
}

impl Expand for Block {
    fn expand(&self, out: &mut Expanded) {
        out.factor = self.d.get();
        out.scales = [1; 16];
        for (half, codes) in out.codes.chunks_exact_mut(128).enumerate() {
            let packed = &self.qs[32 * half..32 * half + 32];
            for (run, codes) in codes.chunks_exact_mut(32).enumerate() {
                for (code, byte) in codes.iter_mut().zip(packed) {
                    *code = (byte >> (2 * run) & 3) + Expanded::BIAS - 1;
                }
            }
        }
    }
}
