//! Q8_0: 32 signed bytes under one half-precision scale; a weight format and an activation format.

use super::activation::max_magnitude;
use super::block::{ActivationBlock, IntegerDot, Partials};
use super::codes::{products, round_to_code, scaled};
use super::scalar::Half;
use super::{Activation, Type};
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
    /// Quantises as ggml's x86 code does: codes from 127/amax before the scale is rounded, ties to even.
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

impl super::Block for Block {
    const TYPE: Type = Type::Q8_0;
    const LEN: usize = 32;

    fn dequantize(&self, out: &mut [f32]) {
        let d = self.d.get();
        for (out, code) in out.iter_mut().zip(self.qs) {
            *out = d * f32::from(code);
        }
    }
}

impl ActivationBlock for Block {
    const FORMAT: Activation = Activation::Q8_0;
}

impl IntegerDot for Block {
    type Activation = Self;

    fn partials(&self, activation: &Self) -> Partials {
        Partials { products: products(&self.qs, &activation.qs), minima: 0 }
    }

    fn combine(&self, activation: &Self, sums: Partials) -> f64 {
        scaled(self.d.get(), activation.d.get(), sums.products)
    }
}
