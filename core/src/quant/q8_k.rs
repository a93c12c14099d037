//! Q8_K: the activation format of the 256-element weights. No weight file carries it.

use super::activation::{Activation, ActivationBlock};
use super::block::Partials;
use super::codes::{max_magnitude, round_to_code, scaled_products};
use bytemuck::{Pod, Zeroable};

/// 292 bytes: value = d · q.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Scale, f32 little endian; negative when the element of largest magnitude is positive.
    pub d: [u8; 4],
    /// Codes in order, within ±127.
    pub qs: [i8; 256],
    /// Sums of 16 codes each, i16 little endian.
    pub bsums: [[u8; 2]; 16],
}

impl Block {
    /// Quantizes as ggml's `quantize_row_q8_K_ref`: the first element of largest magnitude becomes −127, ties
    /// round to even. A block of zeros gets zero sums here (ggml leaves them unwritten).
    pub fn quantize(values: &[f32; 256]) -> Self {
        let magnitude = max_magnitude(values);
        let extreme = values.iter().copied().find(|value| value.abs() == magnitude).unwrap_or(magnitude);
        let inverse = if extreme == 0.0 { 0.0 } else { -127.0 / extreme };
        let d = if extreme == 0.0 { 0.0 } else { 1.0 / inverse };
        let qs = values.map(|value| round_to_code(inverse * value));
        let mut bsums = [[0; 2]; 16];
        for (sum, codes) in bsums.iter_mut().zip(qs.as_chunks::<16>().0) {
            *sum = codes.iter().map(|code| i16::from(*code)).sum::<i16>().to_le_bytes();
        }
        Self { d: d.to_le_bytes(), qs, bsums }
    }

    /// The integer sums against codes under runs' scales.
    pub(super) fn partials(&self, scales: &[i32], codes: &[i8; 256]) -> Partials {
        Partials { products: scaled_products(scales, codes, &self.qs), minima: 0 }
    }

    /// The scale.
    pub fn scale(&self) -> f32 {
        f32::from_le_bytes(self.d)
    }

    /// The sums of 16 codes.
    pub fn sums(&self) -> [i32; 16] {
        self.bsums.map(|bytes| i32::from(i16::from_le_bytes(bytes)))
    }
}

impl ActivationBlock for Block {
    const FORMAT: Activation = Activation::Q8_K;
}
