//! Examines the machine: the real one, or one made up by a test.
//!
//! Not here: the list of its devices (`devices`), and the report about its GPUs (`diagnosis`).

use crate::memory::{HostMemory, host_memory};
use core::fmt;
use core::num::NonZeroUsize;
use doorbell_cpu::features::Features;
use doorbell_gpu::chip::kernel_support;
use doorbell_kfd::OutOfMemory;
use doorbell_kfd::doctor::{Examination, ExamineInputs, examine};
use doorbell_kfd::sys::{Kernel, Linux};
use doorbell_kfd::topology::{Choice, choose};

/// The memory that a model needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFootprint {
    /// Name of the model.
    pub name: String,
    /// Bytes of weights, keys and values, and buffers on one device.
    pub bytes: u64,
}

/// The host's processor and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Threads that run at the same time.
    pub threads: usize,
    /// Instruction-set extensions that the kernels use.
    pub extensions: &'static str,
    /// Memory; `None` if the system doesn't report it.
    pub memory: Option<HostMemory>,
}

impl Host {
    /// This host.
    #[must_use]
    pub fn read() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let extensions = match Features::detect() {
            Features { avx512_vnni: true, .. } => "AVX-512 VNNI",
            Features { avx2: true, .. } => "AVX2",
            Features { .. } => "portable code",
        };
        Self { threads, extensions, memory: host_memory() }
    }
}

/// Reason why a machine couldn't be examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MachineError {
    /// The host has no memory for the tables.
    Memory(OutOfMemory),
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MachineError {}

/// An examined machine.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(super) host: Host,
    pub(super) examination: Examination,
    /// The best GPU, with the reason.
    pub(super) choice: Option<Choice>,
    pub(super) footprint: Option<ModelFootprint>,
}

impl Machine {
    /// Examines this machine.
    ///
    /// # Errors
    ///
    /// The host has no memory for the tables.
    pub fn read(footprint: Option<ModelFootprint>) -> Result<Self, MachineError> {
        Self::read_from(&Linux, Host::read(), &super::kernel_log(), footprint)
    }

    /// Examines a machine through `kernel`, with the text of its log.
    ///
    /// # Errors
    ///
    /// The host has no memory for the tables.
    pub fn read_from(
        kernel: &dyn Kernel,
        host: Host,
        log: &[u8],
        footprint: Option<ModelFootprint>,
    ) -> Result<Self, MachineError> {
        let model_bytes = footprint.as_ref().map(|footprint| footprint.bytes);
        let examination = examine(kernel, ExamineInputs { log, model_bytes, kernel_support })
            .map_err(MachineError::Memory)?;
        let choice = choose(&examination.devices);
        Ok(Self { host, examination, choice, footprint })
    }

    /// The name of a GPU for `--device`: its number among those that can be opened.
    pub(super) fn name(&self, gpu_id: u32) -> String {
        let mut nodes = self.examination.topology.iter().flat_map(|topology| topology.devices());
        nodes
            .position(|node| node.gpu_id == gpu_id)
            .map_or_else(|| "kfd".into(), |number| format!("kfd:{number}"))
    }
}
