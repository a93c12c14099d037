//! The matrix instructions of a product of many rows, and the choice between them.
//!
//! F16: activations are rounded to f16, weights unpacked to f16, sums need nothing more. I8: activations have eight bits
//! with a factor for every 32, weights stay codes, and every 32 columns (16 of Q6_K) the integer sums are scaled to f32:
//! 16 operations, 24 with minima, 32 of Q6_K, for each two matrix instructions.

use crate::formats::spec::FormatSpec;
use doorbell_compiler::isa::{Generation, Target};
use doorbell_core::quant::Type;

/// The instructions of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MatrixPath {
    /// V_WMMA_F32_16X16X16_F16.
    F16,
    /// V_WMMA_I32_16X16X16_IU8.
    I8,
}

impl MatrixPath {
    /// The part of kernels' names for it; empty for the usual one.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F16 => "",
            Self::I8 => "_iu8",
        }
    }
}

/// The inputs of the choice of a path, beside weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathChoice {
    pub(crate) target: Target,
    /// The path to take where weights can be codes, whatever the rule says.
    pub(crate) forced: Option<MatrixPath>,
}

impl PathChoice {
    /// Fewer rows take the kernels of few rows, which read weights once per eight of them, but keep activations as
    /// they are: short prompts then give the tokens of the CPU. A path that is forced can be tried with fewer.
    pub(crate) fn least_rows(self) -> u32 {
        if self.forced.is_some() { 32 } else { 64 }
    }

    /// The path of products of one input with weights of these types.
    pub(crate) fn path(self, types: &[Type]) -> MatrixPath {
        if !types.iter().all(|ty| FormatSpec::of(*ty).is_coded()) {
            return MatrixPath::F16;
        }
        self.forced.unwrap_or_else(|| rule(self.target.generation(), types))
    }
}

/// On gfx12 integers go at twice the rate of f16: that pays for scaling sums where 32 columns share a factor and have no
/// minimum, and takes 0.7 to 0.9 of the vector time. With minima or factors for every 16 columns it takes 0.9 to 1.1,
/// and on gfx11, where both go at one rate, 1.0 to 1.3: there f16 is better by its precision, too. Counted by the
/// software GPU for 16 to 128 rows of an expert.
fn rule(generation: Generation, types: &[Type]) -> MatrixPath {
    let cheap = |ty: &Type| {
        let spec = FormatSpec::of(*ty);
        spec.scale_group == 32 && !spec.has_minimum
    };
    if generation == Generation::Gfx12 && types.iter().all(cheap) { MatrixPath::I8 } else { MatrixPath::F16 }
}
