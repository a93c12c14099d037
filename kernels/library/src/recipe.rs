//! Recipes: everything that decides a kernel's code but the chip. Equal recipes are the same kernel.

use super::argmax::Largest;
use super::attend::{Attention, Flash};
use super::embed::{Embedding, Selection};
use super::experts::{ExpertsDown, ExpertsUp};
use super::norm::NormAddition;
use super::prefill::{Combine, Gemm, Group, Grouped, Halve, Quantize};
use super::project::Projection;
use super::rope::HeadFinish;
use super::route::Routing;
use alloc::string::String;
use core::fmt;
use doorbell_compiler::ir::Function;
use doorbell_compiler::isa::Target;

/// What to compile. One variant per kernel family; the family's file builds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Recipe {
    /// Token embeddings.
    Embed(Embedding),
    /// Rows whose result is wanted.
    Select(Selection),
    /// Matrices over one input.
    Project(Projection),
    /// Head norms, rotation, writes to the KV cache.
    Heads(HeadFinish),
    /// Attention.
    Attend(Attention),
    /// Attention of many rows.
    Flash(Flash),
    /// Expert choice.
    Route(Routing),
    /// Gate and up of chosen experts.
    ExpertsUp(ExpertsUp),
    /// Down of chosen experts.
    ExpertsDown(ExpertsDown),
    /// Largest logits.
    Largest(Largest),
    /// Activations of many rows in f16.
    Halve(Halve),
    /// Activations of many rows in codes of eight bits.
    Quantize(Quantize),
    /// Products of many rows.
    Gemm(Gemm),
    /// Rows by expert.
    Group(Group),
    /// Products of rows by expert.
    Grouped(Grouped),
    /// Weighted sums of those.
    Combine(Combine),
    /// A normalized branch added to the stream.
    NormAdd(NormAddition),
}

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
        match self {
            Self::Embed(recipe) => recipe.name(),
            Self::Select(recipe) => recipe.name(),
            Self::Project(recipe) => recipe.name(),
            Self::Heads(recipe) => recipe.name(),
            Self::Attend(recipe) => recipe.name(),
            Self::Flash(recipe) => recipe.name(),
            Self::Route(recipe) => recipe.name(),
            Self::ExpertsUp(recipe) => recipe.name(),
            Self::ExpertsDown(recipe) => recipe.name(),
            Self::Largest(recipe) => recipe.name(),
            Self::Halve(recipe) => recipe.name(),
            Self::Quantize(recipe) => recipe.name(),
            Self::Gemm(recipe) => recipe.name(),
            Self::Group(recipe) => recipe.name(),
            Self::Grouped(recipe) => recipe.name(),
            Self::Combine(recipe) => recipe.name(),
            Self::NormAdd(recipe) => recipe.name(),
        }
    }

    /// The function for a chip.
    ///
    /// # Errors
    /// The chip can't run it.
    pub fn function(&self, target: Target) -> Result<Function, RecipeError> {
        match self {
            Self::Embed(recipe) => Ok(recipe.function()),
            Self::Select(recipe) => Ok(recipe.function()),
            Self::Project(recipe) => recipe.function(),
            Self::Heads(recipe) => Ok(recipe.function()),
            Self::Attend(recipe) => Ok(recipe.function()),
            Self::Flash(recipe) => Ok(recipe.function(target)),
            Self::Route(recipe) => Ok(recipe.function()),
            Self::ExpertsUp(recipe) => recipe.function(),
            Self::ExpertsDown(recipe) => recipe.function(),
            Self::Largest(recipe) => Ok(recipe.function()),
            Self::Halve(recipe) => Ok(recipe.function()),
            Self::Quantize(recipe) => Ok(recipe.function()),
            Self::Gemm(recipe) => Ok(recipe.function(target)),
            Self::Group(recipe) => Ok(recipe.function()),
            Self::Grouped(recipe) => Ok(recipe.function(target)),
            Self::Combine(recipe) => Ok(recipe.function()),
            Self::NormAdd(recipe) => recipe.function(),
        }
    }
}
