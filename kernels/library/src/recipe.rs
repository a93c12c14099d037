//! Recipes: everything that decides a kernel's code but the chip. Equal recipes are the same kernel.

use alloc::string::String;
use core::fmt;
use doorbell_compiler::ir::Function;
use doorbell_isa::Target;

/// What to compile. One variant per kernel family; the family's file builds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Recipe {}

/// Why a recipe can't be built for a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecipeError {
    /// The shape does not fit the kernel: registers or LDS would not do.
    Shape,
}

impl fmt::Display for RecipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape => write!(f, "no kernel takes this shape"),
        }
    }
}

impl core::error::Error for RecipeError {}

impl Recipe {
    /// A name that tells family and parameters, unique among recipes: the kernel symbol.
    pub fn name(&self) -> String {
        match *self {}
    }

    /// The function for a chip.
    ///
    /// # Errors
    /// The chip can't run it.
    pub fn function(&self, _target: Target) -> Result<Function, RecipeError> {
        match *self {}
    }
}
