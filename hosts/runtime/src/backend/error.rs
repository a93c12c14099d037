//! Errors of opening and running a backend.

use crate::device::Device;
use core::fmt;
use doorbell_core::heap::OutOfMemory;
use doorbell_cpu::backend::CpuError;
use doorbell_gpu::GpuError;
use doorbell_kfd::doctor::{self, Finding};
use doorbell_kfd::process::BringUpError;
use doorbell_kfd::queue::CreateError;
use doorbell_kfd::topology::TopologyError;

/// Reason why a device can't run a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BackendError {
    /// There is not enough memory for keys, values and buffers.
    Memory(OutOfMemory),
    /// The CPU driver can't run it.
    Cpu(CpuError),
    /// The GPUs can't be listed.
    Topology(TopologyError),
    /// The GPU has disappeared since it was chosen.
    Gone(Device),
    /// The GPU can't be opened.
    Open(BringUpError),
    /// The GPU can't run it.
    Gpu(Box<GpuError>),
}

impl BackendError {
    /// True if there was too little memory.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Gpu(error) => error.is_memory(),
            _ => false,
        }
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => write!(f, "{error}; use a smaller context"),
            Self::Cpu(error) => error.fmt(f),
            Self::Topology(error) => error.fmt(f),
            Self::Gone(device) => write!(f, "{device} is gone; `doorbell devices` lists the devices"),
            Self::Open(error) => with_remedy(&doctor::bring_up(error), f),
            Self::Gpu(error) => match error.as_ref() {
                GpuError::Queue(error @ CreateError::Queue { .. }) => {
                    with_remedy(&doctor::create_queue(error), f)
                }
                error => error.fmt(f),
            },
        }
    }
}

/// Prints a finding with its remedy, if there is one.
fn with_remedy(finding: &Finding, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{finding}")?;
    let remedy = finding.remedy().to_string();
    if remedy.is_empty() { Ok(()) } else { write!(f, "; {remedy}") }
}

impl core::error::Error for BackendError {}

impl From<CpuError> for BackendError {
    fn from(error: CpuError) -> Self {
        match error {
            CpuError::Memory(error) => Self::Memory(error),
            error => Self::Cpu(error),
        }
    }
}

impl From<GpuError> for BackendError {
    fn from(error: GpuError) -> Self {
        Self::Gpu(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_kfd::process::Stage;
    use doorbell_kfd::queue::SaveArea;
    use doorbell_kfd::sys::Errno;

    #[test]
    fn what_keeps_a_gpu_from_opening_comes_with_its_remedy() {
        let message = |stage, errno| BackendError::Open(BringUpError::Refused(stage, errno)).to_string();
        let taken = message(Stage::AcquireVm(128), Errno::EBUSY);
        assert!(taken.ends_with("owns the device; only one GPU runtime may be in a program: restart it"));
        let refused = message(Stage::GetVersion, Errno::EIO);
        assert!(refused.contains("GET_VERSION") && !refused.ends_with("; "), "{refused}");
    }

    #[test]
    fn a_refused_queue_comes_with_its_remedy() {
        let message = |error| BackendError::from(GpuError::Queue(error)).to_string();
        let sizes = SaveArea { ctl_stack: 0x4000, save: 0xaa4000, debug: 0, xcc: 1, buffer: 0xaa4000 };
        let refused = message(CreateError::Queue { errno: Errno::EINVAL, sizes, stated: (0x5000, 0x1000) });
        assert!(
            refused.contains("save area 0xaa4000 ") && refused.contains("sysfs 0x5000 and 0x1000"),
            "{refused}"
        );
        assert!(refused.contains("; `echo 'file kfd_queue.c +p'"), "{refused}");
    }
}
