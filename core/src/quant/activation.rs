//! The formats that activations are brought into before an integer dot product.

use super::block::ActivationBlock;
use super::error::{Buffer, QuantError};
use super::{Type, q8_0, q8_1, q8_k};

/// How the other factor of a dot product is represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(non_camel_case_types, reason = "the field's own names")]
pub enum Activation {
    /// Unquantized, little endian.
    F32,
    /// 32 codes under one half-precision scale.
    Q8_0,
    /// Q8_0 with the scaled sum of the codes.
    Q8_1,
    /// 256 codes under one f32 scale, with the sums of 16.
    Q8_K,
}

impl Activation {
    /// The tensor type of the same layout.
    pub const fn ty(self) -> Type {
        match self {
            Self::F32 => Type::F32,
            Self::Q8_0 => Type::Q8_0,
            Self::Q8_1 => Type::Q8_1,
            Self::Q8_K => Type::Q8_K,
        }
    }

    /// Elements in one block.
    pub fn block_len(self) -> usize {
        self.ty().block_len()
    }

    /// Bytes of one block.
    pub fn block_bytes(self) -> usize {
        self.ty().block_bytes()
    }

    /// Bytes of `len` elements; `None` when `len` is no multiple of the block or on overflow.
    pub fn row_bytes(self, len: usize) -> Option<usize> {
        self.ty().row_bytes(len)
    }

    /// Quantizes `values` into `out`, which has [`Self::row_bytes`] bytes.
    ///
    /// A block that holds a NaN gets a NaN scale and zero codes, one that holds an infinity an infinite
    /// scale and zero codes: either way every dot product with it is NaN, and a fault is not hidden.
    pub fn quantize(self, values: &[f32], out: &mut [u8]) -> Result<(), QuantError> {
        if !values.len().is_multiple_of(self.block_len()) {
            return Err(QuantError::Ragged { block_len: self.block_len(), found: values.len() });
        }
        QuantError::check(Buffer::Activations, self.row_bytes(values.len()), out.len())?;
        match self {
            Self::F32 => {
                for (value, out) in values.iter().zip(out.as_chunks_mut::<4>().0) {
                    *out = value.to_le_bytes();
                }
            }
            Self::Q8_0 => rows(values, out, q8_0::Block::quantize),
            Self::Q8_1 => rows(values, out, q8_1::Block::quantize),
            Self::Q8_K => rows(values, out, q8_k::Block::quantize),
        }
        Ok(())
    }
}

fn rows<B: ActivationBlock, const LEN: usize>(
    values: &[f32],
    out: &mut [u8],
    quantize: fn(&[f32; LEN]) -> B,
) {
    for (values, out) in values.as_chunks().0.iter().zip(out.chunks_exact_mut(size_of::<B>())) {
        out.copy_from_slice(bytemuck::bytes_of(&quantize(values)));
    }
}

/// The largest magnitude; NaN when there is a NaN.
pub(super) fn max_magnitude(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |max: f32, value| {
        let magnitude = value.abs();
        if magnitude > max || magnitude.is_nan() { magnitude } else { max }
    })
}
