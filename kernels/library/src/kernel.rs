//! The trait of all kernels, and the reason why one can't be built for a chip.

use alloc::string::String;
use core::fmt;
use doorbell_compiler::ir::Function;
use doorbell_compiler::isa::Target;

/// The parameters of a kernel, from which its code follows.
pub(crate) trait Kernel {
    /// A name with kind and parameters, unique among kernels: the kernel symbol.
    fn name(&self) -> String;

    /// The function for a chip.
    ///
    /// # Errors
    /// The chip can't run it.
    fn function(&self, target: Target) -> Result<Function, SpecError>;
}

/// The reason why a kernel can't be built for a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecError {
    /// The shape does not fit the kernel: registers or LDS would not suffice.
    Shape,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape => write!(f, "no kernel takes this shape"),
        }
    }
}

impl core::error::Error for SpecError {}
