//! Plans as packets on a KFD queue, on a real GPU or a software one.
//!
//! [`GpuBackend`] implements core's `Backend`: the kernel library lowers a plan's operations to kernel launches, a step
//! is recorded once per batch size, and then submitted again with one doorbell. Operations without kernels, and layers
//! that do not fit the device, run on the host: on a [`CpuFallback`] that the caller lends, or by core's reference.
//!
//! Layers, each using those before it:
//!
//! 1. `device`, `chip`, `operands`: the open device, its row in the chip table, the operands of an operation.
//! 2. `convert`, [`Placement`], `memory_needs`, `fit`: weight types that the device keeps, the part of the model that it
//!    runs, and the memory for it.
//! 3. `model_buffers`, `input_block`, `kernels`: weights and KV cache on the device, inputs of a step, loaded kernels.
//! 4. `record`: a step as AQL packets or PM4 lists; `cpu_fallback`: the host's part.
//! 5. [`GpuBackend`]: steps, and the checks of kernels and PM4 lists before the first one.
//! 6. [`estimate`]: a plan on a chip that is not there.
//!
//! The hosts make a backend like this (`delay` is how it waits):
//!
//! ```
//! use doorbell_core::backend::{Backend, KvType};
//! use doorbell_core::{heap::Heap, model::Model, plan::Shape};
//! use doorbell_gpu::{Delay, GpuBackend, GpuError, Settings};
//! use doorbell_kfd::process::{DeviceIndex, Process};
//!
//! fn open<'k, 'm>(
//!     process: Process<'k>,
//!     model: &'m Model<'m>,
//!     delay: Delay,
//!     heap: Heap<'m>,
//! ) -> Result<GpuBackend<'k, 'm, 'm>, GpuError> {
//!     let settings = Settings::new(64, KvType::F16, Shape { rows: 128, outputs: 4 });
//!     let mut backend = GpuBackend::new(process, DeviceIndex(0), model, settings, delay, None, heap)?;
//!     backend.check_kernels(&mut (), heap)?;
//!     Ok(backend)
//! }
//! ```
//!
//! Not here: what kernels compute (`doorbell-kernels`), how the kernel driver is used (`doorbell-kfd`).
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
