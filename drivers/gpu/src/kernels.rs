//! Kernels on the device, compiled and loaded at first use.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_kernels::KernelSpec;
use doorbell_kernels::compiler::ir::Function;
use doorbell_kernels::compiler::object::{ArgumentValue, pack_arguments};
use doorbell_kernels::compiler::{Options, Report, compile};
use doorbell_kernels::isa::Target;
use doorbell_kfd::code::{Kernel, LoadError, Program};
use doorbell_kfd::memory::Uploader;
use doorbell_kfd::process::{DeviceIndex, Process};
use embedded_hal::delay::DelayNs;

use crate::error::GpuError;
use crate::kernel_check::{NO_KEY, key};

/// A kernel that is ready to run.
pub(crate) struct LoadedKernel {
    pub(crate) name: String,
    pub(crate) function: Function,
    pub(crate) kernel: Kernel,
    pub(crate) report: Report,
    /// Of the code.
    pub(crate) key: u64,
    program: Program,
}

impl LoadedKernel {
    /// The argument segment.
    pub(crate) fn pack(&self, arguments: &[ArgumentValue]) -> Result<Vec<u8>, GpuError> {
        pack_arguments(&self.function, arguments)
            .map_err(|error| GpuError::Arguments(self.name.clone(), error))
    }
}

/// All kernels of one device.
pub(crate) struct LoadedKernels {
    target: Target,
    loaded: BTreeMap<KernelSpec, LoadedKernel>,
}

impl LoadedKernels {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, loaded: BTreeMap::new() }
    }

    /// Number of kernels, and the bytes of their code.
    pub(crate) fn totals(&self) -> (usize, u64) {
        let bytes = self.loaded.values().map(|loaded| u64::from(loaded.report.code_bytes)).sum();
        (self.loaded.len(), bytes)
    }

    /// Names of the kernels.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.loaded.values().map(|loaded| loaded.name.as_str())
    }

    /// The spec of a kernel by name.
    pub(crate) fn spec(&self, name: &str) -> Option<&KernelSpec> {
        self.loaded.iter().find(|loaded| loaded.1.name == name).map(|loaded| loaded.0)
    }

    /// A kernel that has been loaded.
    pub(crate) fn loaded(&self, spec: &KernelSpec) -> Option<&LoadedKernel> {
        self.loaded.get(spec)
    }

    /// The kernel of a spec, compiled and loaded if it was not.
    pub(crate) fn get(
        &mut self,
        spec: &KernelSpec,
        process: &mut Process<'_>,
        uploader: &mut Uploader,
        device: DeviceIndex,
        delay: &mut dyn DelayNs,
    ) -> Result<&LoadedKernel, GpuError> {
        if !self.loaded.contains_key(spec) {
            let built = build(spec, self.target)?;
            let (name, object) = (spec.name(), built.object());
            let load = |error| GpuError::Load(name.clone(), Box::new(error));
            let program = Program::load(process, uploader, device, &object, self.target.elf_machine(), delay)
                .map_err(load)?;
            let Some(&kernel) = program.kernels().first().map(|kernel| &kernel.1) else {
                let _ = program.unload(process);
                return Err(load(LoadError::OutOfMemory));
            };
            let (report, key) = (built.report(), key(NO_KEY, &object));
            let loaded = LoadedKernel { name, function: built.function, kernel, report, key, program };
            self.loaded.insert(spec.clone(), loaded);
        }
        Ok(&self.loaded[spec])
    }

    /// Frees everything.
    pub(crate) fn unload(&mut self, process: &mut Process<'_>) {
        while let Some((_, loaded)) = self.loaded.pop_first() {
            // What is not taken back now goes with the process.
            let _ = loaded.program.unload(process);
        }
    }
}

/// Longest symbol of a kernel; the loader takes 63 bytes with what it appends.
const SYMBOL: usize = 40;

/// Compiles a spec. The kernel's symbol is the beginning of its name: an object has one kernel.
pub(crate) fn build(
    spec: &KernelSpec,
    target: Target,
) -> Result<doorbell_kernels::compiler::Kernel, GpuError> {
    let mut function = spec.function(target).map_err(|error| GpuError::KernelSpec(spec.name(), error))?;
    let name = core::mem::take(&mut function.name);
    function.name = name.chars().take(SYMBOL).collect();
    compile(&function, target, &Options::default()).map_err(|error| GpuError::Compile(name, Box::new(error)))
}
