//! A backend on any kind of device: it forwards to the CPU's or the GPU's.

use super::error::BackendError;
use crate::gpu_events;
use doorbell_core::backend::{Backend, Output, PageError, PageFormat};
use doorbell_core::plan::{Batch, GroupId, Op, PageId, Plan, StateId};
use doorbell_cpu::backend::CpuBackend;
use doorbell_gpu::{GpuBackend, Timing};

/// A backend on any kind of device.
#[derive(Debug)]
pub enum AnyBackend<'m, 'a> {
    /// The host's processor.
    Cpu(Box<CpuBackend<'m, 'a>>),
    /// A GPU, real or software.
    Gpu(Box<GpuBackend<'static, 'm, 'a>>),
}

impl AnyBackend<'_, '_> {
    /// Remarks for the user about the loaded model, one per line.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let Self::Gpu(backend) = self else { return Vec::new() };
        let mut remarks: Vec<_> = backend.wrong_kernels().iter().map(ToString::to_string).collect();
        remarks.extend(backend.pm4_check_failure().map(ToString::to_string));
        remarks.extend(backend.split_report().map(|division| division.to_string()));
        if !backend.conversions().list.is_empty() {
            remarks.push(backend.conversions().to_string());
        }
        remarks
    }

    /// Logs the kernel's events of the device from now on: heat, resets, queues that wait. Software GPUs and the CPU have
    /// none.
    pub fn log_gpu_events(&self) {
        let Self::Gpu(backend) = self else { return };
        match backend.gpu_events() {
            Ok(events) => gpu_events::follow(events),
            Err(error) => tracing::debug!(%error, "the kernel reports no events of the GPU"),
        }
    }

    /// Times of the kernels that ran since the last call, if `BackendConfig::profile` is set; none for the CPU.
    pub fn take_timings(&mut self) -> Vec<Timing> {
        match self {
            Self::Cpu(_) => Vec::new(),
            Self::Gpu(backend) => backend.take_timings(),
        }
    }
}

impl Backend for AnyBackend<'_, '_> {
    type Error = BackendError;

    fn supports(&self, op: &Op) -> bool {
        match self {
            Self::Cpu(backend) => backend.supports(op),
            Self::Gpu(backend) => backend.supports(op),
        }
    }

    fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), BackendError> {
        match self {
            Self::Cpu(backend) => Ok(backend.reserve(plan)?),
            Self::Gpu(backend) => Ok(backend.reserve(plan)?),
        }
    }

    fn reserve_states(&mut self, count: u32) -> Result<(), BackendError> {
        match self {
            Self::Cpu(backend) => Ok(backend.reserve_states(count)?),
            Self::Gpu(backend) => Ok(backend.reserve_states(count)?),
        }
    }

    fn copy_state(&mut self, from: StateId, to: StateId) {
        match self {
            Self::Cpu(backend) => backend.copy_state(from, to),
            Self::Gpu(backend) => backend.copy_state(from, to),
        }
    }

    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> Result<(), BackendError> {
        match self {
            Self::Cpu(backend) => Ok(backend.submit(plan, batch)?),
            Self::Gpu(backend) => Ok(backend.submit(plan, batch)?),
        }
    }

    fn supports_multi_step(&self) -> bool {
        match self {
            Self::Cpu(backend) => backend.supports_multi_step(),
            Self::Gpu(backend) => backend.supports_multi_step(),
        }
    }

    fn max_steps(&self, plan: &Plan<'_>) -> u32 {
        match self {
            Self::Cpu(backend) => backend.max_steps(plan),
            Self::Gpu(backend) => backend.max_steps(plan),
        }
    }

    fn submit_multi_step(
        &mut self,
        plan: &Plan<'_>,
        batch: &Batch<'_>,
        steps: u32,
    ) -> Result<(), BackendError> {
        match self {
            Self::Cpu(backend) => Ok(backend.submit_multi_step(plan, batch, steps)?),
            Self::Gpu(backend) => Ok(backend.submit_multi_step(plan, batch, steps)?),
        }
    }

    fn poll(&mut self) -> Result<Option<Output<'_>>, BackendError> {
        match self {
            Self::Cpu(backend) => Ok(backend.poll()?),
            Self::Gpu(backend) => Ok(backend.poll()?),
        }
    }

    fn suspend(&mut self) -> Result<(), BackendError> {
        match self {
            Self::Cpu(backend) => Ok(backend.suspend()?),
            Self::Gpu(backend) => Ok(backend.suspend()?),
        }
    }

    fn page_format(&self) -> Option<PageFormat> {
        match self {
            Self::Cpu(backend) => backend.page_format(),
            Self::Gpu(backend) => backend.page_format(),
        }
    }

    fn read_page(&mut self, group: GroupId, page: PageId, to: &mut [u8]) -> Result<(), PageError> {
        match self {
            Self::Cpu(backend) => backend.read_page(group, page, to),
            Self::Gpu(backend) => backend.read_page(group, page, to),
        }
    }

    fn write_page(&mut self, group: GroupId, page: PageId, from: &[u8]) -> Result<(), PageError> {
        match self {
            Self::Cpu(backend) => backend.write_page(group, page, from),
            Self::Gpu(backend) => backend.write_page(group, page, from),
        }
    }

    fn read_state(&mut self, state: StateId, to: &mut [u8]) -> Result<(), PageError> {
        match self {
            Self::Cpu(backend) => backend.read_state(state, to),
            Self::Gpu(backend) => backend.read_state(state, to),
        }
    }

    fn write_state(&mut self, state: StateId, from: &[u8]) -> Result<(), PageError> {
        match self {
            Self::Cpu(backend) => backend.write_state(state, from),
            Self::Gpu(backend) => backend.write_state(state, from),
        }
    }
}
