//! Recipes: everything that decides a kernel's code but the chip. Equal kernel_specs are the same kernel.

use crate::attention::decode::spec::DecodeAttention;
use crate::attention::prefill::kernel::PrefillAttention;
use crate::gemm::activations_f16::ActivationsF16;
use crate::gemm::activations_i8::ActivationsI8;
use crate::gemm::kernel::Gemm;
use crate::gemv::spec::Projection;
use crate::moe::combine::CombineExperts;
use crate::moe::experts_down::ExpertsDown;
use crate::moe::experts_up::ExpertsUp;
use crate::moe::group_rows::GroupRows;
use crate::moe::grouped_spec::GroupedGemm;
use crate::moe::route::Routing;
use crate::rope::spec::HeadsSpec;
use crate::rows::argmax::ArgMax;
use crate::rows::embed::{Embedding, SelectRows};
use crate::rows::norm::NormAdd;
use crate::spec_error::SpecError;
use alloc::string::String;
use doorbell_compiler::ir::Function;
use doorbell_compiler::isa::Target;

/// What to compile. One variant per kernel family; the family's file builds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum KernelSpec {
    /// Token embeddings.
    Embed(Embedding),
    /// Rows whose result is wanted.
    Select(SelectRows),
    /// Matrices over one input.
    Project(Projection),
    /// Head norms, rotation, writes to the KV cache.
    Heads(HeadsSpec),
    /// DecodeAttention.
    Attend(DecodeAttention),
    /// DecodeAttention of many rows.
    PrefillAttention(PrefillAttention),
    /// Expert choice.
    Route(Routing),
    /// Gate and up of chosen experts.
    ExpertsUp(ExpertsUp),
    /// Down of chosen experts.
    ExpertsDown(ExpertsDown),
    /// ArgMax logits.
    ArgMax(ArgMax),
    /// Activations of many rows in f16.
    ActivationsF16(ActivationsF16),
    /// Activations of many rows in codes of eight bits.
    ActivationsI8(ActivationsI8),
    /// Products of many rows.
    Gemm(Gemm),
    /// Rows by expert.
    GroupRows(GroupRows),
    /// Products of rows by expert.
    GroupedGemm(GroupedGemm),
    /// Weighted sums of those.
    CombineExperts(CombineExperts),
    /// A normalized branch added to the stream.
    NormAdd(NormAdd),
}

impl KernelSpec {
    /// A name that tells family and parameters, unique among kernel_specs: the kernel symbol.
    pub fn name(&self) -> String {
        match self {
            Self::Embed(spec) => spec.name(),
            Self::Select(spec) => spec.name(),
            Self::Project(spec) => spec.name(),
            Self::Heads(spec) => spec.name(),
            Self::Attend(spec) => spec.name(),
            Self::PrefillAttention(spec) => spec.name(),
            Self::Route(spec) => spec.name(),
            Self::ExpertsUp(spec) => spec.name(),
            Self::ExpertsDown(spec) => spec.name(),
            Self::ArgMax(spec) => spec.name(),
            Self::ActivationsF16(spec) => spec.name(),
            Self::ActivationsI8(spec) => spec.name(),
            Self::Gemm(spec) => spec.name(),
            Self::GroupRows(spec) => spec.name(),
            Self::GroupedGemm(spec) => spec.name(),
            Self::CombineExperts(spec) => spec.name(),
            Self::NormAdd(spec) => spec.name(),
        }
    }

    /// The function for a chip.
    ///
    /// # Errors
    /// The chip can't run it.
    pub fn function(&self, target: Target) -> Result<Function, SpecError> {
        match self {
            Self::Embed(spec) => Ok(spec.function()),
            Self::Select(spec) => Ok(spec.function()),
            Self::Project(spec) => spec.function(),
            Self::Heads(spec) => Ok(spec.function()),
            Self::Attend(spec) => Ok(spec.function()),
            Self::PrefillAttention(spec) => Ok(spec.function(target)),
            Self::Route(spec) => Ok(spec.function()),
            Self::ExpertsUp(spec) => spec.function(),
            Self::ExpertsDown(spec) => spec.function(),
            Self::ArgMax(spec) => Ok(spec.function()),
            Self::ActivationsF16(spec) => Ok(spec.function()),
            Self::ActivationsI8(spec) => Ok(spec.function()),
            Self::Gemm(spec) => Ok(spec.function(target)),
            Self::GroupRows(spec) => Ok(spec.function()),
            Self::GroupedGemm(spec) => Ok(spec.function(target)),
            Self::CombineExperts(spec) => Ok(spec.function()),
            Self::NormAdd(spec) => spec.function(),
        }
    }
}
