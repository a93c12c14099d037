//! NVFP4: 64 four-bit floats, with an eight-bit float as scale per 16.

use super::codes::nibble_halves;
use super::{Type, mxfp4};
use bytemuck::{Pod, Zeroable};

/// 36 bytes: value = scale · TABLE\[q\] of MXFP4.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// E4M3 scales without sign; see [`scale`].
    pub d: [u8; 4],
    /// Per 16 elements: the first eight in the low nibbles, the others in the high ones.
    pub qs: [[u8; 8]; 4],
}

/// Half the E4M3 number, since codes are stored doubled. Its sign is ignored; NaN, 0x7f, is 0 as in ggml, but
/// 0xff is not.
pub fn scale(bits: u8) -> f32 {
    let (exponent, mantissa) = (u32::from(bits >> 3 & 15), f32::from(bits & 7));
    match (bits, exponent) {
        (0x7f, _) => 0.0,
        (_, 0) => mantissa / 1024.0,
        _ => (1.0 + mantissa / 8.0) * f32::from_bits((exponent + 127 - 8) << 23),
    }
}

impl super::Block for Block {
    const TYPE: Type = Type::NVFP4;
    const LEN: usize = 64;

    fn dequantize(&self, out: &mut [f32]) {
        for (out, (d, packed)) in out.chunks_exact_mut(16).zip(self.d.iter().zip(&self.qs)) {
            let d = scale(*d);
            for (out, code) in out.iter_mut().zip(nibble_halves(packed)) {
                *out = d * f32::from(mxfp4::TABLE[usize::from(code)]);
            }
        }
    }
}
