//! Small kernels that exercise the compiler; golden files and command-line tools use them.
//!
//! Not here: the kernels of the product (`kernels/library`).

mod vector;

use crate::ir::Function;
use doorbell_isa::Target;

/// A kernel by name; built for a target because tiles may differ.
pub struct Sample {
    /// Name.
    pub name: &'static str,
    /// Builds the function.
    pub build: fn(Target) -> Function,
}

/// All samples.
pub static SAMPLES: &[Sample] = &[Sample { name: "vector_add", build: vector::add }];
