//! A matrix in the file's bytes, and its strips of sixteen rows. The meaning of the bytes is in [`crate::formats`].

use crate::simd::STRIP;
use core::fmt;
use doorbell_core::quant::{Activation, Type};

/// Rows of a matrix, as the file holds them.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    ty: Type,
    activation: Activation,
    cols: usize,
    row_bytes: usize,
    data: &'a [u8],
}

/// Why bytes are not the rows of a matrix of these kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WeightsError {
    /// The type has no arithmetic.
    Type(Type),
    /// The columns are not a whole number of blocks.
    Columns {
        /// The type.
        ty: Type,
        /// Elements of a row.
        cols: usize,
    },
    /// The bytes are not a whole number of rows.
    Bytes {
        /// Bytes of a row.
        row_bytes: usize,
        /// Bytes given.
        found: usize,
    },
}

impl fmt::Display for WeightsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(ty) => write!(f, "no arithmetic for weights of type {}", ty.name()),
            Self::Columns { ty, cols } => {
                let block = ty.block_len();
                write!(f, "{cols} columns of {} are no whole number of blocks of {block}", ty.name())
            }
            Self::Bytes { row_bytes, found } => {
                write!(f, "{found} bytes are no whole number of rows of {row_bytes}")
            }
        }
    }
}

impl core::error::Error for WeightsError {}

impl<'a> Weights<'a> {
    /// Rows of `cols` elements of `ty`.
    ///
    /// # Errors
    /// When the type has no arithmetic or the sizes do not fit it.
    pub fn new(ty: Type, cols: usize, data: &'a [u8]) -> Result<Self, WeightsError> {
        let activation = activation(ty).ok_or(WeightsError::Type(ty))?;
        let row_bytes =
            ty.row_bytes(cols).filter(|&bytes| bytes > 0).ok_or(WeightsError::Columns { ty, cols })?;
        if !data.len().is_multiple_of(row_bytes) {
            return Err(WeightsError::Bytes { row_bytes, found: data.len() });
        }
        Ok(Self { ty, activation, cols, row_bytes, data })
    }

    /// The format that activations must be in.
    #[must_use]
    pub const fn activation(&self) -> Activation {
        self.activation
    }

    /// Elements of a row.
    #[must_use]
    pub const fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes of a row.
    #[must_use]
    pub const fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Rows.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.data.len() / self.row_bytes
    }

    /// Strips, the last of which may have fewer than sixteen rows.
    #[must_use]
    pub const fn strips(&self) -> usize {
        self.rows().div_ceil(STRIP)
    }

    /// The strip of rows `16 index ..`.
    ///
    /// # Panics
    /// When there is no such strip.
    #[must_use]
    pub fn strip(&self, index: usize) -> Strip<'a> {
        let start = index * STRIP * self.row_bytes;
        let end = (start + STRIP * self.row_bytes).min(self.data.len());
        assert!(start < end, "strip {index} of {}", self.strips());
        Strip { ty: self.ty, cols: self.cols, row_bytes: self.row_bytes, data: &self.data[start..end] }
    }
}

/// The format of activations for a type of weights; `None` where there is no arithmetic.
///
/// Formats that expand to small codes take core's reference by f32, and here Q8_K like others of 256 elements.
#[must_use]
pub fn activation(ty: Type) -> Option<Activation> {
    if ty.expands() { Some(Activation::Q8_K) } else { ty.activation() }
}

/// Up to sixteen consecutive rows of a matrix.
#[derive(Clone, Copy, Debug)]
pub struct Strip<'a> {
    pub(super) ty: Type,
    pub(super) cols: usize,
    pub(super) row_bytes: usize,
    /// 1 to 16 rows.
    pub(super) data: &'a [u8],
}

impl Strip<'_> {
    /// Rows in the strip.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.data.len() / self.row_bytes
    }
}
