//! TQ2_0: 256 two-bit codes, meant to be ternary, under one scale.

use super::expand::{Expand, Expanded};
use super::scalar::Half;
use super::{Type, q2_k};
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
        self.expand().write(out);
    }
}

impl Expand for Block {
    fn expand(&self) -> Expanded {
        let mut expanded = Expanded::new(self.d, 1.0);
        expanded.scales = [1; 16];
        for (out, code) in expanded.codes.iter_mut().zip(q2_k::two_bits(&self.qs)) {
            *out = code - 1;
        }
        expanded
    }
}
