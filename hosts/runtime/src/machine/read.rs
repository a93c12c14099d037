//! Looks at the machine, the real one or one made up by a test.

use super::devices::Devices;
use super::diagnosis::Diagnosis;
use crate::memory::{Memory, memory};
use core::fmt;
use core::num::NonZeroUsize;
use doorbell_cpu::features::Features;
use doorbell_kfd::OutOfMemory;
use doorbell_kfd::doctor::{Examination, ExamineInputs, examine};
use doorbell_kfd::sys::{Kernel, Linux};
use doorbell_kfd::topology::{Choice, choose};

/// A model that is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What it's called.
    pub name: String,
    /// Bytes of weights, keys and values, and buffers on one device.
    pub bytes: u64,
}

/// What is known of the host's processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Threads that run at the same time.
    pub threads: usize,
    /// Instruction-set extensions that the kernels use.
    pub extensions: &'static str,
    /// Memory; `None` where the system doesn't tell.
    pub memory: Option<Memory>,
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
        Self { threads, extensions, memory: memory() }
    }
}

/// Why a machine couldn't be looked at.
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

/// A machine that was looked at.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(super) host: Host,
    pub(super) examination: Examination,
    /// The GPU that is the best one, and why.
    pub(super) choice: Option<Choice>,
    pub(super) wanted: Option<Wanted>,
}

impl Machine {
    /// Looks at this machine.
    ///
    /// # Errors
    ///
    /// The host has no memory for the tables.
    pub fn read(wanted: Option<Wanted>) -> Result<Self, MachineError> {
        Self::read_from(&Linux, Host::read(), &super::kernel_log(), wanted)
    }

    /// Looks at a machine through the kernel given, whose log says `log`.
    ///
    /// # Errors
    ///
    /// The host has no memory for the tables.
    pub fn read_from(
        kernel: &dyn Kernel,
        host: Host,
        log: &[u8],
        wanted: Option<Wanted>,
    ) -> Result<Self, MachineError> {
        let model_bytes = wanted.as_ref().map(|wanted| wanted.bytes);
        let examination =
            examine(kernel, ExamineInputs { log, model_bytes }).map_err(MachineError::Memory)?;
        let choice = choose(&examination.devices);
        Ok(Self { host, examination, choice, wanted })
    }

    /// The name under which `--device` takes a GPU: its place among those that can be opened.
    pub(super) fn name(&self, gpu_id: u32) -> String {
        let mut nodes = self.examination.topology.iter().flat_map(|topology| topology.devices());
        nodes
            .position(|node| node.gpu_id == gpu_id)
            .map_or_else(|| "kfd".into(), |number| format!("kfd:{number}"))
    }

    /// What could compute.
    #[must_use]
    pub fn devices(&self) -> Devices {
        Devices::new(self)
    }

    /// What keeps GPUs from computing, or from doing it well.
    #[must_use]
    pub fn diagnosis(&self) -> Diagnosis<'_> {
        Diagnosis::new(self)
    }
}
