//! Plans as packets on a KFD queue, on a real GPU or a software one.
//!
//! A plan's operations are lowered by the kernel library, recorded once per size of batch and run again by one
//! doorbell a step. What the library has no kernel for runs on the host with copies at the border. Not here: what
//! kernels compute (`doorbell-kernels`), how the kernel driver is spoken to (`doorbell-kfd`).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod backend;
pub mod chip;
mod convert;
mod cpu_fallback;
mod device;
mod error;
pub mod estimate;
mod fit;
mod input_block;
mod kernel_check;
mod kernels;
mod memory_needs;
mod model_buffers;
mod operands;
mod placement;
mod record;
mod settings;

pub use backend::{GpuBackend, Timing};
pub use convert::{Conversion, Conversions};
pub use cpu_fallback::{BoxedCpuFallback, CpuFallback, CpuFallbackError};
pub use device::Delay;
pub use doorbell_kfd::packet::Encoding;
pub use error::GpuError;
pub use kernel_check::{KernelCheckCache, Pm4CheckFailure, WrongKernel};
pub use memory_needs::{MemoryNeeds, MemoryShortage};
pub use placement::{LayerSplit, Placement, SplitReport, layers};
pub use settings::Settings;
