//! Normalization of rows.

use super::id::VectorId;

/// The mean that a normalization divides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// The root of the mean square.
    Rms,
    /// The standard deviation, after the mean was subtracted.
    Layer,
}

/// Normalization with a weight vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// RMS norm or layer norm.
    pub kind: NormKind,
    /// The weight, of the length of the normalized vector.
    pub weight: VectorId,
    /// Added to the result of a layer norm, as long.
    pub bias: Option<VectorId>,
    /// Added to the mean square, or to the variance.
    pub eps: f32,
}

impl Norm {
    /// An RMS norm.
    pub const fn rms(weight: VectorId, eps: f32) -> Self {
        Self { kind: NormKind::Rms, weight, bias: None, eps }
    }
}
