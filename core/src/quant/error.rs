//! Errors of calls into [`super`]: the type, or the length of a buffer.

use super::tensor_type::Type;
use core::fmt;

/// The argument with the wrong length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Buffer {
    /// Quantized weights, in bytes.
    Weights,
    /// Quantized activations, in bytes.
    Activations,
    /// f32 values, in elements.
    Values,
    /// Integer sums, in blocks.
    Partials,
}

/// A block operation that could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum QuantError {
    /// There is no arithmetic for this type (integers, run-time types, types that ggml has removed).
    NotComputable {
        /// The type.
        ty: Type,
    },
    /// The products of this type are not integers, so it has no integer sums.
    NoPartials {
        /// The type.
        ty: Type,
    },
    /// A number of elements that is no multiple of the block of the format.
    Ragged {
        /// Elements in a block.
        block_len: usize,
        /// Elements found.
        found: usize,
    },
    /// A buffer that does not fit the number of elements.
    Length {
        /// The buffer.
        buffer: Buffer,
        /// The length that the other arguments imply (saturated on overflow).
        expected: usize,
        /// The length found.
        found: usize,
    },
}

impl QuantError {
    pub(super) fn check(buffer: Buffer, expected: Option<usize>, found: usize) -> Result<(), Self> {
        match expected {
            Some(expected) if expected == found => Ok(()),
            _ => Err(Self::Length { buffer, expected: expected.unwrap_or(usize::MAX), found }),
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Weights => "weights (bytes)",
            Self::Activations => "activations (bytes)",
            Self::Values => "values",
            Self::Partials => "integer sums",
        })
    }
}

impl fmt::Display for QuantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotComputable { ty } => write!(f, "no arithmetic for tensor type {ty}"),
            Self::NoPartials { ty } => write!(f, "type {ty} has no integer dot product"),
            Self::Ragged { block_len, found } => {
                write!(f, "{found} elements are no whole number of blocks of {block_len}")
            }
            Self::Length { buffer, expected, found } => {
                write!(f, "{buffer}: expected {expected}, found {found}")
            }
        }
    }
}

impl core::error::Error for QuantError {}
