//! TQ1_0: 256 ternary values, five to a byte, under one scale.

use super::Type;
use super::expand::{Expand, Expanded};
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

/// Digit `place` of a byte, most significant first. The byte is a fraction of 256: multiplying by three moves
/// the next digit above it.
fn digit(byte: u8, place: u32) -> i8 {
    let shifted = byte.wrapping_mul(3u8.pow(place));
    ((u16::from(shifted) * 3) >> 8) as i8
}

impl super::Block for Block {
    const TYPE: Type = Type::TQ1_0;
    const LEN: usize = 256;

    fn dequantize(&self, out: &mut [f32]) {
        self.expand().write(out);
    }
}

impl Expand for Block {
    fn expand(&self) -> Expanded {
        let mut expanded = Expanded::new(self.d, 1.0);
        expanded.scales = [1; 16];
        let (first, second) = self.qs.split_at(32);
        let digits =
            [(first, 5), (second, 5), (self.qh.as_slice(), 4)].into_iter().flat_map(|(bytes, count)| {
                (0..count).flat_map(move |place| bytes.iter().map(move |byte| digit(*byte, place)))
            });
        for (out, digit) in expanded.codes.iter_mut().zip(digits) {
            *out = digit - 1;
        }
        expanded
    }
}
