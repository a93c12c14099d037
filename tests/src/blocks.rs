//! Random valid blocks of each weight format, with mean zero and a given deviation.
//!
//! No floats are quantized: block bytes are random and only scales are set, so gigabytes take seconds. Block layouts:
//! ggml's `ggml-common.h`. Dequantization is in core.

use crate::random::Random;
use doorbell_core::quant::Type;
use half::{bf16, f16};

/// Deviation of a uniform integer over `levels` neighboring values.
fn spread(levels: f32) -> f32 {
    ((levels * levels - 1.0) / 12.0).sqrt()
}

/// Root mean square of the 16 values of IQ4_NL's table.
const IQ4_RMS: f32 = 69.2;
/// Root mean square of MXFP4's (doubled) E2M1 values.
const MXFP4_RMS: f32 = 5.85;
/// Root mean square of a signed 6-bit scale whose bits are random.
const SCALE6_RMS: f32 = 18.48;
/// Root mean square of a scale in 32..64.
const SCALE32_RMS: f32 = 48.4;
/// Root mean square of a scale in 8..16.
const SCALE8_RMS: f32 = 11.7;

/// The formats that [`fill`] supports, in the order of their ids.
pub const TYPES: [Type; 16] = [
    Type::F32,
    Type::F16,
    Type::Q4_0,
    Type::Q4_1,
    Type::Q5_0,
    Type::Q5_1,
    Type::Q8_0,
    Type::Q2_K,
    Type::Q3_K,
    Type::Q4_K,
    Type::Q5_K,
    Type::Q6_K,
    Type::IQ4_NL,
    Type::IQ4_XS,
    Type::BF16,
    Type::MXFP4,
];

/// Fills `out` (whole blocks of `ty`) with random weights of mean 0 and deviation `std`.
///
/// # Panics
/// If `ty` is not among [`TYPES`].
pub fn fill(ty: Type, std: f32, random: &mut Random, out: &mut [u8]) {
    match ty {
        Type::F32 => out
            .as_chunks_mut::<4>()
            .0
            .iter_mut()
            .for_each(|word| *word = (random.normal() * std).to_le_bytes()),
        Type::F16 => each_half(out, || f16::from_f32(random.normal() * std).to_le_bytes()),
        Type::BF16 => each_half(out, || bf16::from_f32(random.normal() * std).to_le_bytes()),
        _ => {
            random.fill(out);
            let patch = patch(ty, std);
            out.chunks_exact_mut(ty.block_bytes()).for_each(|block| patch.apply(block));
        }
    }
}

fn each_half(out: &mut [u8], mut next: impl FnMut() -> [u8; 2]) {
    out.as_chunks_mut::<2>().0.iter_mut().for_each(|word| *word = next());
}

/// Values for the scales of a random block.
struct Patch {
    /// Offset of the block's f16 scale, and its value.
    scale: Option<(usize, f32)>,
    /// Offset of the block's f16 minimum, and its value. Without one the sign of the scale is random.
    min: Option<(usize, f32)>,
    fields: Fields,
}

/// The scale fields of sub-blocks.
enum Fields {
    /// None, or any bits are valid.
    Any,
    /// Q2_K: 16 nibble pairs; the same in both halves, so that `scale * q - min` has mean zero.
    Nibbles,
    /// Q4_K and Q5_K: 8 scales and 8 minima of 6 bits in 12 bytes, pairwise equal and at least 32.
    Packed6,
    /// Q6_K: 16 signed bytes, 48..112 in size.
    Bytes,
    /// MXFP4: the block is scaled by this exponent byte alone.
    Exponent(u8),
}

fn patch(ty: Type, std: f32) -> Patch {
    let plain = |at, scale| Patch { scale: Some((at, scale)), min: None, fields: Fields::Any };
    let with_min = |at, scale, middle: f32, fields| Patch {
        scale: Some((at, scale)),
        min: Some((at + 2, scale * middle)),
        fields,
    };
    match ty {
        Type::Q4_0 => plain(0, std / spread(16.0)),
        Type::Q5_0 => plain(0, std / spread(32.0)),
        Type::Q8_0 => plain(0, std / spread(256.0)),
        Type::IQ4_NL => plain(0, std / IQ4_RMS),
        Type::IQ4_XS => plain(0, std / (IQ4_RMS * SCALE6_RMS)),
        Type::Q3_K => plain(108, std / (spread(8.0) * SCALE6_RMS)),
        Type::Q4_1 => with_min(0, std / spread(16.0), -7.5, Fields::Any),
        Type::Q5_1 => with_min(0, std / spread(32.0), -15.5, Fields::Any),
        Type::Q2_K => with_min(80, std / (spread(4.0) * SCALE8_RMS), 1.5, Fields::Nibbles),
        Type::Q4_K => with_min(0, std / (spread(16.0) * SCALE32_RMS), 7.5, Fields::Packed6),
        Type::Q5_K => with_min(0, std / (spread(32.0) * SCALE32_RMS), 15.5, Fields::Packed6),
        Type::Q6_K => {
            Patch { scale: Some((208, std / (spread(64.0) * 81.5))), min: None, fields: Fields::Bytes }
        }
        Type::MXFP4 => {
            let exponent = (std / MXFP4_RMS).log2().round() + 128.0;
            Patch { scale: None, min: None, fields: Fields::Exponent(exponent.clamp(2.0, 254.0) as u8) }
        }
        other => panic!("no random blocks of type {other}"),
    }
}

impl Patch {
    fn apply(&self, block: &mut [u8]) {
        if let Some((at, value)) = self.scale {
            let flip = self.min.is_none() && block[at] & 1 == 1;
            block[at..at + 2]
                .copy_from_slice(&f16::from_f32(if flip { -value } else { value }).to_le_bytes());
        }
        if let Some((at, value)) = self.min {
            block[at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
        }
        match self.fields {
            Fields::Any => {}
            Fields::Nibbles => {
                for byte in &mut block[..16] {
                    let nibble = (*byte & 7) + 8;
                    *byte = nibble | (nibble << 4);
                }
            }
            Fields::Packed6 => pack6(&mut block[4..16]),
            Fields::Bytes => {
                for byte in &mut block[192..208] {
                    let size = (*byte & 63) + 48;
                    *byte = if *byte & 64 == 0 { size } else { size.wrapping_neg() };
                }
            }
            Fields::Exponent(exponent) => block[0] = exponent,
        }
    }
}

/// Turns 12 random bytes into 8 scales of 32..64 and equal minima, in the packing of Q4_K.
fn pack6(bytes: &mut [u8]) {
    let value = |byte: u8| (byte & 31) + 32;
    for i in 0..4 {
        let (low, high) = (value(bytes[i]), value(bytes[i + 4]));
        bytes[i] = low | ((high >> 4) << 6);
        bytes[i + 4] = bytes[i];
        bytes[i + 8] = (high & 15) | ((high & 15) << 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float_blocks_have_the_given_deviation() {
        let mut out = vec![0; 4 * 8192];
        fill(Type::F32, 0.5, &mut Random::new(1), &mut out);
        let sum: f32 = out.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b).powi(2)).sum();
        assert!(((sum / 8192.0).sqrt() - 0.5).abs() < 0.02);
    }

    #[test]
    fn scales_are_set_at_their_offsets() {
        for ty in TYPES {
            let mut out = vec![0; ty.row_bytes(4096).unwrap()];
            fill(ty, 0.1, &mut Random::new(2), &mut out);
            if ty.block_len() == 1 || ty == Type::MXFP4 {
                continue;
            }
            let (at, want) = patch(ty, 0.1).scale.unwrap();
            for block in out.chunks_exact(ty.block_bytes()) {
                let scale = f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
                assert!((scale.abs() - want).abs() < want / 500.0, "{ty} {scale}");
            }
        }
    }
}
