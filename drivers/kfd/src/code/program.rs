//! A code object in device memory, with its kernels by name.

use super::descriptor::Kernel;
use super::elf::Object;
use super::error::CodeError;
use crate::heap::{OutOfMemory, filled, push};
use crate::memory::{AllocError, Allocation, Buffer, Bytes, FreeError, Name, UploadError, Uploader, Usage};
use crate::process::{DeviceIndex, Process};
use alloc::vec::Vec;
use core::fmt;
use embedded_hal::delay::DelayNs;

/// Why a program was not loaded.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The file.
    Code(CodeError),
    /// Device memory.
    Alloc(AllocError),
    /// The way there.
    Upload(UploadError),
    /// No host memory.
    OutOfMemory,
}

impl From<CodeError> for LoadError {
    fn from(error: CodeError) -> Self {
        Self::Code(error)
    }
}

impl From<AllocError> for LoadError {
    fn from(error: AllocError) -> Self {
        Self::Alloc(error)
    }
}

impl From<OutOfMemory> for LoadError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(error) => write!(f, "code object: {error}"),
            Self::Alloc(error) => write!(f, "code object: {error}"),
            Self::Upload(error) => write!(f, "code object: {error}"),
            Self::OutOfMemory => write!(f, "{OutOfMemory}"),
        }
    }
}

impl core::error::Error for LoadError {}

/// Kernels in device memory. Their addresses are not used again in this process, so no stale instructions are
/// ever fetched.
#[derive(Debug)]
pub struct Program {
    buffer: Buffer,
    kernels: Vec<(Name, Kernel)>,
}

impl Program {
    /// Loads a code object that was made for the processor `machine`, the low byte of `e_flags`.
    pub fn load(
        process: &mut Process<'_>,
        uploader: &mut Uploader,
        device: DeviceIndex,
        file: &[u8],
        machine: u8,
        delay: &mut dyn DelayNs,
    ) -> Result<Self, LoadError> {
        let object = Object::parse(file, machine)?;
        let bytes = object.image_bytes();
        let mut image = filled(usize::try_from(bytes).map_err(|_| OutOfMemory)?, 0u8)?;
        let buffer = process.allocate(device, Usage::Code, bytes, Name::new("kernels"))?;
        let va = buffer.va();
        let result = object.image(va, &mut image).map_err(LoadError::Code).and_then(|()| {
            let upload = uploader.upload(process, &buffer, 0, &mut Bytes(&image), bytes, delay);
            upload.map_err(LoadError::Upload)?;
            let kernels = list(&object, va)?;
            note(process, &buffer, &kernels)?;
            Ok(kernels)
        });
        match result {
            Ok(kernels) => Ok(Self { buffer, kernels }),
            Err(error) => {
                let _ = process.free(buffer);
                Err(error)
            }
        }
    }

    /// The kernels by name.
    pub fn kernels(&self) -> &[(Name, Kernel)] {
        &self.kernels
    }

    /// A kernel by name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.0.as_str() == name).map(|kernel| &kernel.1)
    }

    /// Frees the memory; no dispatch may be under way.
    pub fn unload(self, process: &mut Process<'_>) -> Result<u64, FreeError> {
        process.free(self.buffer)
    }
}

/// Adds an entry for the code of each kernel to the table of allocations, so that reports of a program counter name the
/// kernel. The entries are removed with the buffer.
fn note(process: &mut Process<'_>, buffer: &Buffer, kernels: &[(Name, Kernel)]) -> Result<(), OutOfMemory> {
    let end = buffer.va() + buffer.bytes();
    let gpu_id = process.device(buffer.device()).gpu_id();
    for (name, kernel) in kernels {
        let behind = kernels.iter().map(|other| other.1.entry).filter(|&entry| entry > kernel.entry);
        let bytes = behind.min().unwrap_or(end).saturating_sub(kernel.entry);
        let (va, name) = (kernel.entry, name.clone());
        process.allocations.add(Allocation { va, bytes, gpu_id, usage: Usage::Code, name, handle: None })?;
    }
    Ok(())
}

fn list(object: &Object<'_>, base: u64) -> Result<Vec<(Name, Kernel)>, LoadError> {
    let mut kernels = Vec::new();
    for kernel in object.kernels(base) {
        let (name, kernel) = kernel?;
        push(&mut kernels, (Name::new(core::str::from_utf8(name).unwrap_or("?")), kernel))?;
    }
    Ok(kernels)
}
