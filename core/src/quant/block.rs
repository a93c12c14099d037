//! The interface of every block format, and rows built from blocks.

use super::activation::ActivationBlock;
use super::codes::{products, scaled};
use super::q8_0;
use super::tensor_type::Type;
use bytemuck::Pod;

/// One block of a tensor type, exactly as in a file: byte arrays only, so that any alignment is valid.
pub trait Block: Pod {
    /// The tensor type; block length and size come from its table.
    const TYPE: Type;
    /// Elements in the block.
    const LEN: usize;

    /// Writes the block's values; `out` has `LEN` elements.
    fn dequantize(&self, out: &mut [f32]);
}

/// The exact integers of one block's dot product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partials {
    /// Σ sub-block scale · weight code · activation code, with the signed value of the weight code.
    pub products: i32,
    /// Σ sub-block minimum · activation code; 0 for formats without minimum.
    pub minima: i32,
}

/// A block with integer codes and scales, whose dot product is an integer sum that is scaled once.
pub trait IntegerDot: Block {
    /// The activation block of the same length.
    type Activation: ActivationBlock;

    /// The integer sums against an activation block of the same elements.
    fn partials(&self, activation: &Self::Activation) -> Partials;

    /// The block's share of the dot product.
    fn combine(&self, activation: &Self::Activation, sums: Partials) -> f64;
}

/// 32 signed codes under one scale: value = scale · code. The activation is Q8_0.
pub trait Scaled: Pod {
    /// The tensor type.
    const KIND: Type;

    /// The scale.
    fn scale(&self) -> f32;

    /// The codes in order.
    fn codes(&self) -> [i8; 32];
}

/// Here and not in the file of the format, because Q8_0 is also the activation format of all these.
impl Scaled for q8_0::Block {
    const KIND: Type = Type::Q8_0;

    fn scale(&self) -> f32 {
        self.d.get()
    }

    fn codes(&self) -> [i8; 32] {
        self.qs
    }
}

impl<B: Scaled> Block for B {
    const TYPE: Type = Self::KIND;
    const LEN: usize = 32;

    fn dequantize(&self, out: &mut [f32]) {
        let scale = self.scale();
        for (out, code) in out.iter_mut().zip(self.codes()) {
            *out = scale * f32::from(code);
        }
    }
}

impl<B: Scaled> IntegerDot for B {
    type Activation = q8_0::Block;

    fn partials(&self, activation: &q8_0::Block) -> Partials {
        Partials { products: products(&self.codes(), &activation.qs), minima: 0 }
    }

    fn combine(&self, activation: &q8_0::Block, sums: Partials) -> f64 {
        scaled(self.scale(), activation.d.get(), sums.products)
    }
}

/// The blocks in `bytes`, whose length the caller has checked.
pub(super) fn blocks<B: Pod>(bytes: &[u8]) -> &[B] {
    bytemuck::try_cast_slice(bytes).unwrap_or(&[])
}

/// Dequantizes whole blocks.
pub(super) fn dequantize_row<B: Block>(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in blocks::<B>(bytes).iter().zip(out.chunks_exact_mut(B::LEN)) {
        block.dequantize(out);
    }
}

/// The dot product by integer sums.
pub(super) fn integer_dot_row<B: IntegerDot>(weights: &[u8], activation: &[u8]) -> f32 {
    let pairs = blocks::<B>(weights).iter().zip(blocks::<B::Activation>(activation));
    pairs.map(|(weight, input)| weight.combine(input, weight.partials(input))).sum::<f64>() as f32
}

/// The integer sums block by block.
pub(super) fn partials_row<B: IntegerDot>(weights: &[u8], activation: &[u8], out: &mut [Partials]) {
    let pairs = blocks::<B>(weights).iter().zip(blocks::<B::Activation>(activation));
    for ((weight, input), out) in pairs.zip(out) {
        *out = weight.partials(input);
    }
}

/// The dot product by dequantizing, against f32 activations.
pub(super) fn float_dot_row<B: Block>(weights: &[u8], activation: &[u8]) -> f32 {
    let mut values = [0.0; 256];
    let values = &mut values[..B::LEN];
    let mut sum = 0.0;
    for (weight, input) in blocks::<B>(weights).iter().zip(activation.chunks_exact(4 * B::LEN)) {
        weight.dequantize(values);
        for (value, bytes) in values.iter().zip(input.as_chunks::<4>().0) {
            sum += f64::from(*value) * f64::from(f32::from_le_bytes(*bytes));
        }
    }
    sum as f32
}
