//! The interface of a CPU fallback that the caller lends, and its errors.
//!
//! The implementation is the caller's, since this crate depends on no other driver. It has an arena of its own, laid
//! out as the plan's, and keys and values of its own: all operations on the keys and values of a layer run on one side.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use doorbell_core::heap::OutOfMemory;
use doorbell_core::plan::{Batch, BatchError, Plan, StateId};
use doorbell_core::quant::Type;

/// Why a fallback can't run an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CpuFallbackError {
    /// There is not enough memory.
    Memory(OutOfMemory),
    /// It has no kernel for weights of this type.
    Weight(Type),
    /// The batch breaks a rule.
    Batch(BatchError),
    /// This number of threads can't be started.
    Threads(usize),
    /// It can't keep keys and values of the device's type.
    Keys,
}

impl fmt::Display for CpuFallbackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Weight(ty) => {
                write!(f, "neither the GPU nor the CPU takes weights of type {}", ty.name())
            }
            Self::Batch(error) => error.fmt(f),
            Self::Keys => f.write_str("the CPU can't keep keys and values of this type; use another --kv"),
            Self::Threads(wanted) => write!(f, "{wanted} threads can't be had for the CPU's part"),
        }
    }
}

impl core::error::Error for CpuFallbackError {}

/// Runs operations on the host.
pub trait CpuFallback {
    /// Takes the memory that steps of a plan need.
    ///
    /// # Errors
    /// Memory or threads can't be had, or a weight has no kernel.
    fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), CpuFallbackError>;

    /// Takes the memory of `count` recurrent states, for models that have them.
    ///
    /// # Errors
    /// Memory or threads can't be had.
    fn reserve_states(&mut self, count: u32) -> Result<(), CpuFallbackError> {
        let _ = count;
        Ok(())
    }

    /// Copies a recurrent state.
    fn copy_state(&mut self, from: StateId, to: StateId) {
        let (_, _) = (from, to);
    }

    /// Cells of the arena, laid out as a reserved plan's.
    fn arena(&mut self) -> &mut [f32];

    /// Runs operations of a reserved plan, in order, over the arena.
    ///
    /// # Errors
    /// The batch breaks a rule.
    fn run(&mut self, plan: &Plan<'_>, batch: &Batch<'_>, ops: Range<usize>) -> Result<(), CpuFallbackError>;

    /// Appends the result of the head among the operations of the last run, in 4-byte words.
    fn result(&mut self, out: &mut Vec<u32>);
}

/// A fallback that may move to another thread with the backend.
pub type BoxedCpuFallback<'m> = Box<dyn CpuFallback + Send + 'm>;
