//! An open GPU: process, uploads, time, buffers.

use alloc::boxed::Box;
use doorbell_kernels::isa::Target;
use doorbell_kfd::memory::{Buffer, Bytes, Name, UploadError, Uploader, Usage};
use doorbell_kfd::process::{DeviceIndex, Leak, Process};
use doorbell_kfd::topology::{GpuKind, MemoryDomain};
use embedded_hal::delay::DelayNs;

use crate::error::GpuError;

/// A clock that may go to another thread with the backend.
pub type Delay = Box<dyn DelayNs + Send>;

/// An open device.
pub(crate) struct GpuDevice<'k> {
    pub(crate) process: Process<'k>,
    pub(crate) index: DeviceIndex,
    pub(crate) uploader: Option<Uploader>,
    pub(crate) delay: Delay,
}

impl<'k> GpuDevice<'k> {
    pub(crate) fn new(mut process: Process<'k>, index: DeviceIndex, delay: Delay) -> Result<Self, GpuError> {
        let uploader = Some(Uploader::new(&mut process, index)?);
        Ok(Self { process, index, uploader, delay })
    }

    /// Usage of weights, keys and activations.
    pub(crate) fn usage(&self) -> Usage {
        match self.process.budget(self.index).first.domain {
            MemoryDomain::Gtt => Usage::DataGtt,
            _ => Usage::Data,
        }
    }

    /// Usage of buffers that the host accesses as well.
    pub(crate) fn reachable_usage(&self) -> Usage {
        let device = self.process.device(self.index);
        match self.usage() {
            Usage::Data if device.kind() == GpuKind::Discrete && !device.node().is_vram_mappable() => {
                Usage::DataGtt
            }
            usage => usage,
        }
    }

    pub(crate) fn allocate(&mut self, usage: Usage, bytes: u64, name: Name) -> Result<Buffer, GpuError> {
        // A crashed predecessor's memory comes back some time after its end.
        let patient =
            self.process.allocate_patiently(self.index, usage, bytes.max(1), name, &mut *self.delay);
        Ok(patient?)
    }

    pub(crate) fn free(&mut self, buffer: Buffer) {
        // What is not taken back now goes with the process.
        let _ = self.process.free(buffer);
    }

    /// Writes bytes so that the next submission sees them.
    pub(crate) fn write(&mut self, target: &Buffer, offset: u64, bytes: &[u8]) -> Result<(), GpuError> {
        self.copy(target, offset, &mut Bytes(bytes), bytes.len() as u64)
    }

    /// As [`Self::write`], from any source.
    pub(crate) fn copy(
        &mut self,
        target: &Buffer,
        offset: u64,
        source: &mut dyn doorbell_kfd::memory::Source,
        bytes: u64,
    ) -> Result<(), GpuError> {
        let Self { process, uploader, delay, .. } = self;
        let uploader = uploader.as_mut().ok_or(UploadError::Unreachable)?;
        Ok(uploader.upload(process, target, offset, source, bytes, &mut **delay)?)
    }

    /// Installs the trap handler that records why a wave stopped, if chip and kernel support it; without it such a wave
    /// is reported as a hang.
    pub(crate) fn install_trap_handler(&mut self, target: Target) {
        let Self { process, index, uploader, delay } = self;
        if let (Ok(code), Some(uploader)) = (doorbell_kernels::trap_handler(target), uploader) {
            let _ = process.set_trap_handler(uploader, *index, &code, &mut **delay);
        }
    }

    /// Releases everything and reports what was left.
    pub(crate) fn shutdown(mut self) -> Result<(), Leak> {
        if let Some(uploader) = self.uploader.take() {
            // What is not taken back is in the leak.
            let _ = uploader.destroy(&mut self.process);
        }
        self.process.shutdown()
    }
}
