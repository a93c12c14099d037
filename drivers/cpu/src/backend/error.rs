//! The errors of a backend that can't run a model or a batch.

use core::fmt;
use doorbell_core::backend::KvError;
use doorbell_core::heap::OutOfMemory;
use doorbell_core::plan::BatchError;
use doorbell_core::quant::Type;

/// Why the CPU can't run a model or a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CpuError {
    /// The heap refused.
    Memory(OutOfMemory),
    /// The batch breaks a rule.
    Batch(BatchError),
    /// The system refused to start a thread.
    Thread {
        /// Threads requested.
        wanted: usize,
    },
    /// A weight is of a type without a kernel.
    Weight {
        /// The type.
        ty: Type,
    },
    /// Keys and values can't be kept as requested.
    Kv(KvError),
}

impl From<OutOfMemory> for CpuError {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for CpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Batch(error) => error.fmt(f),
            Self::Kv(error) => error.fmt(f),
            Self::Thread { wanted } => {
                write!(f, "the system refused to start {wanted} threads; ask for fewer")
            }
            Self::Weight { ty } => write!(f, "no CPU kernel for weights of type {}", ty.name()),
        }
    }
}

impl core::error::Error for CpuError {}
