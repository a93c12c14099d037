//! The quantizer of activations, for all formats.

use super::activation::{Activation, ActivationBlock};
use super::error::{Buffer, QuantError};
use super::{q8_0, q8_1, q8_k};

impl Activation {
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

/// Quantizes block by block.
fn rows<B: ActivationBlock, const LEN: usize>(
    values: &[f32],
    out: &mut [u8],
    quantize: fn(&[f32; LEN]) -> B,
) {
    for (values, out) in values.as_chunks().0.iter().zip(out.chunks_exact_mut(size_of::<B>())) {
        out.copy_from_slice(bytemuck::bytes_of(&quantize(values)));
    }
}
