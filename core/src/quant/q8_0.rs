//! Q8_0: 32 signed bytes under one half-precision scale; a weight format and an activation format.

use super::activation::{Activation, ActivationBlock};
use super::codes::{max_magnitude, round_to_code};
use super::scalar::Half;
use bytemuck::{Pod, Zeroable};

/// 34 bytes: value = d · q.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale.
    pub d: Half,
    /// Codes in order. Ours are within ±127; files may hold −128.
    pub qs: [i8; 32],
}

impl Block {
    /// Quantizes as ggml's x86 code does: codes from 127/amax before the scale is rounded, ties to even.
    /// (ggml's portable reference rounds ties away from zero and takes the reciprocal of the scale.)
    pub fn quantize(values: &[f32; 32]) -> Self {
        let (d, qs) = quantize_32(values);
        Self { d: Half::new(d), qs }
    }
}

/// The exact scale and the codes of 32 values.
pub(super) fn quantize_32(values: &[f32; 32]) -> (f32, [i8; 32]) {
    let max = max_magnitude(values);
    let inverse = if max == 0.0 { 0.0 } else { 127.0 / max };
    (max / 127.0, values.map(|value| round_to_code(value * inverse)))
}

impl ActivationBlock for Block {
    const FORMAT: Activation = Activation::Q8_0;
}
