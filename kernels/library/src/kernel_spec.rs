//! The table of kernels. A spec is everything that decides a kernel's code but the chip; equal specs are the same kernel.

use crate::attention::decode::spec::DecodeAttention;
use crate::attention::prefill::spec::PrefillAttention;
use crate::delta_net::keep::KeepInputs;
use crate::delta_net::spec::DeltaNetSpec;
use crate::gemm::activations_f16::ActivationsF16;
use crate::gemm::activations_i8::ActivationsI8;
use crate::gemm::kernel::Gemm;
use crate::gemv::spec::Projection;
use crate::kernel::{Kernel, SpecError};
use crate::moe::combine::CombineExperts;
use crate::moe::experts_down::ExpertsDown;
use crate::moe::experts_up::ExpertsUp;
use crate::moe::group_rows::GroupRows;
use crate::moe::grouped_spec::GroupedGemm;
use crate::moe::route::Routing;
use crate::rope::spec::HeadsSpec;
use crate::rows::argmax::ArgMax;
use crate::rows::copy::CopyWords;
use crate::rows::embed::{Embedding, SelectRows};
use crate::rows::norm::NormAdd;
use alloc::string::String;
use doorbell_compiler::ir::Function;
use doorbell_compiler::isa::Target;

macro_rules! kernels {
    ($($(#[$doc:meta])* $kernel:ident($spec:ident);)*) => {
        /// The kernel to compile. One variant per kind of kernel, whose file builds it.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum KernelSpec {
            $($(#[$doc])* $kernel($spec),)*
        }

        impl KernelSpec {
            fn kernel(&self) -> &dyn Kernel {
                match self {
                    $(Self::$kernel(spec) => spec,)*
                }
            }
        }

        $(impl From<$spec> for KernelSpec {
            fn from(spec: $spec) -> Self {
                Self::$kernel(spec)
            }
        })*
    };
}

kernels! {
    /// Token embeddings.
    Embed(Embedding);
    /// Rows whose result is wanted.
    Select(SelectRows);
    /// Matrices over one input of few rows.
    Project(Projection);
    /// Head norms, rotation, writes to the KV cache.
    Heads(HeadsSpec);
    /// Attention row by row.
    DecodeAttention(DecodeAttention);
    /// Attention of many rows.
    PrefillAttention(PrefillAttention);
    /// Linear attention with a recurrent state.
    DeltaNet(DeltaNetSpec);
    /// Last inputs of its convolution.
    KeepInputs(KeepInputs);
    /// Expert choice.
    Route(Routing);
    /// Gate and up of chosen experts.
    ExpertsUp(ExpertsUp);
    /// Down of chosen experts.
    ExpertsDown(ExpertsDown);
    /// Largest logits.
    ArgMax(ArgMax);
    /// Activations of many rows in f16.
    ActivationsF16(ActivationsF16);
    /// Activations of many rows in codes of eight bits.
    ActivationsI8(ActivationsI8);
    /// Products of many rows.
    Gemm(Gemm);
    /// Rows by expert.
    GroupRows(GroupRows);
    /// Products of rows by expert.
    GroupedGemm(GroupedGemm);
    /// Weighted sums of those.
    CombineExperts(CombineExperts);
    /// A normalized branch added to the stream.
    NormAdd(NormAdd);
    /// A copy of memory.
    CopyWords(CopyWords);
}

impl KernelSpec {
    /// A name with kind and parameters, unique among specs: the kernel symbol.
    pub fn name(&self) -> String {
        self.kernel().name()
    }

    /// The function for a chip.
    ///
    /// # Errors
    /// The chip can't run it.
    pub fn function(&self, target: Target) -> Result<Function, SpecError> {
        self.kernel().function(target)
    }
}
