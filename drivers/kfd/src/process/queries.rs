//! Reports of the kernel about an open device: its clocks, and the memory that it still has.

use super::connection::Process;
use super::device_index::DeviceIndex;
use crate::sys::{AvailableMemory, Errno, GetClockCounters, call};
use crate::topology::{Budget, MemoryFacts};

/// One moment on three clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// GPU counter, in ticks of [`Device::counter_hz`](super::Device::counter_hz).
    pub gpu: u64,
    /// CLOCK_MONOTONIC_RAW, ns.
    pub raw_ns: u64,
    /// CLOCK_BOOTTIME, ns.
    pub boot_ns: u64,
}

impl Process<'_> {
    /// Reads the GPU's counter together with the CPU's clocks.
    pub fn clocks(&self, device: DeviceIndex) -> Result<Clocks, Errno> {
        let gpu_id = self.device(device).gpu_id();
        let mut arg = GetClockCounters { gpu_id, ..GetClockCounters::default() };
        call(self.kernel, self.kfd.fd(), &mut arg)?;
        let GetClockCounters { gpu_clock_counter, cpu_clock_counter, system_clock_counter, .. } = arg;
        Ok(Clocks { gpu: gpu_clock_counter, raw_ns: cpu_clock_counter, boot_ns: system_clock_counter })
    }

    /// Bytes that KFD would still give on this device: a hint, allocation is authoritative. `None` where the
    /// kernel cannot say.
    pub fn available(&self, device: DeviceIndex) -> Option<u64> {
        let gpu_id = self.device(device).gpu_id();
        let mut arg = AvailableMemory { gpu_id, ..AvailableMemory::default() };
        call(self.kernel, self.kfd.fd(), &mut arg).ok()?;
        Some(arg.available)
    }

    /// The memory that a model may take on this device now, with the rule that decided.
    pub fn budget(&self, device: DeviceIndex) -> Budget {
        let this = self.device(device);
        let facts = MemoryFacts {
            kfd_available: self.available(device),
            ..MemoryFacts::read(self.kernel, &this.node, Some(this.render.fd()))
        };
        facts.budget(this.kind, self.version().minor)
    }
}
