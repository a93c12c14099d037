//! TQ1_0: 256 ternary values, five to a byte, under one scale.

use super::Type;
use super::expand::{Expand, Expanded, dequantize};
use super::scalar::Half;
use bytemuck::{Pod, Zeroable};

/// 54 bytes: value = d · (digit − 1).
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Five digits to a byte: bytes 0..32 hold elements 0..160, digit by digit, and bytes 32..48 the next 80.
    pub qs: [u8; 48],
    /// Four digits to a byte: the last 16 elements.
    pub qh: [u8; 4],
    /// Scale.
    pub d: Half,
}

/// Digit `index` of a byte, most significant first. The byte is a fraction of 256: multiplying by three moves
/// the next digit above it.
fn digit(byte: u8, index: u32) -> u8 {
    let shifted = byte.wrapping_mul(3u8.pow(index));
    ((u16::from(shifted) * 3) >> 8) as u8
}

impl super::Block for Block {
    const TYPE: Type = Type::TQ1_0;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        dequantize(self, out);
    }
}

impl Expand for Block {
    fn expand(&self, out: &mut Expanded) {
        out.factor = self.d.get();
        out.scales = [1; 16];
        let (first, second) = self.qs.split_at(32);
        let mut codes = out.codes.as_mut_slice();
        for (bytes, count) in [(first, 5), (second, 5), (self.qh.as_slice(), 4)] {
            for index in 0..count {
                let (run, rest) = codes.split_at_mut(bytes.len());
                codes = rest;
                for (code, byte) in run.iter_mut().zip(bytes) {
                    *code = digit(*byte, index) + Expanded::BIAS - 1;
                }
            }
        }
    }
}
