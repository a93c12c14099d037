//! From a device to the backend on it. The hosts see no driver.

use crate::device::Device;
use core::fmt;
use doorbell_core::backend::{Backend, KvType};
use doorbell_core::engine::Config;
use doorbell_core::heap::{Heap, OutOfMemory};
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, PlanError};
use doorbell_cpu::backend::{CpuBackend, CpuError};

pub use doorbell_cpu::bandwidth::read_bandwidth;

/// Why a device can't run a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ComputeError {
    /// There isn't memory for keys, values and buffers.
    Memory(OutOfMemory),
    /// The CPU driver can't run it.
    Cpu(CpuError),
}

impl fmt::Display for ComputeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => write!(f, "{error}; use a smaller context"),
            Self::Cpu(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ComputeError {}

/// A backend for `model` on `device`, with `pages` KV pages per group and so many CPU threads.
///
/// # Errors
///
/// Memory or threads can't be had, or the device has no kernel for one of the weights.
pub fn backend<'m, 'a>(
    device: Device,
    model: &'m Model<'a>,
    pages: u32,
    kv: KvType,
    threads: usize,
    heap: Heap<'m>,
) -> Result<impl Backend + use<'m, 'a>, ComputeError> {
    match device {
        Device::Cpu => CpuBackend::new(model, pages, kv, threads, heap).map_err(|error| match error {
            CpuError::Memory(error) => ComputeError::Memory(error),
            error => ComputeError::Cpu(error),
        }),
    }
}

/// Bytes that a backend takes beside what [`Config::memory`] knows; found out by taking them and giving them back.
///
/// # Errors
///
/// The working memory can't be had, or a step can't be planned.
pub fn scratch_bytes(
    device: Device,
    model: &Model<'_>,
    config: &Config,
    kv: KvType,
    threads: usize,
    heap: Heap<'_>,
) -> Result<usize, PlanError> {
    let plan = model.plan(config.largest_shape(), HeadResult::Logits, heap)?;
    match device {
        Device::Cpu => Ok(CpuBackend::scratch_bytes(model, config.pages, kv, threads, &plan, heap)?),
    }
}
