//! One GPU of an open process: its node, its render file, its apertures, its clocks.

use super::bring_up::Process;
use super::file::OpenFile;
use super::trap::TrapHandler;
use crate::memory::Buffer;
use crate::sys::{
    Aperture, AvailableMemory, BusGuard, Errno, GetClockCounters, HwException, MemoryException, Window, call,
};
use crate::topology::{Budget, DeviceInfo, GpuKind, MemoryFacts, Node};
use core::fmt;

/// A device of a [`Process`], in the order they were asked for.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceIndex(pub u8);

impl fmt::Display for DeviceIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kfd:{}", self.0)
    }
}

/// One moment on three clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// GPU counter, in ticks of [`Device::counter_hz`].
    pub gpu: u64,
    /// CLOCK_MONOTONIC_RAW, ns.
    pub raw_ns: u64,
    /// CLOCK_BOOTTIME, ns.
    pub boot_ns: u64,
}

/// One GPU.
#[derive(Debug)]
pub struct Device<'k> {
    pub(crate) node: Node,
    pub(crate) kind: GpuKind,
    pub(crate) info: Option<DeviceInfo>,
    pub(crate) render: OpenFile<'k>,
    pub(crate) aperture: Aperture,
    /// The process's doorbell slice, mapped when the first queue needs it.
    pub(crate) doorbells: Option<Window>,
    /// Tells when the kernel has taken the doorbells away. Dropped before them.
    pub(crate) guard: Option<BusGuard>,
    /// The page with the HDP flush registers, mapped when the first upload through the BAR needs it.
    pub(crate) mmio: Option<Buffer>,
    /// Code that tells why a wave has stopped, where the device runs one.
    pub(crate) trap: Option<TrapHandler>,
    pub(crate) lost: bool,
    /// An exception of this device that a waiter for another one was woken by.
    pub(crate) exception: Exception,
}

/// What exception events have told about a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exception {
    pub(crate) memory: Option<MemoryException>,
    pub(crate) hardware: Option<HwException>,
}

impl Exception {
    pub(crate) fn is_some(&self) -> bool {
        self.memory.is_some() || self.hardware.is_some()
    }

    /// Adds what a later wait told; a first report is kept.
    pub(crate) fn merge(&mut self, later: Self) {
        self.memory = self.memory.or(later.memory);
        self.hardware = self.hardware.or(later.hardware);
    }
}

impl Device<'_> {
    /// The topology node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Card or part of a CPU.
    pub fn kind(&self) -> GpuKind {
        self.kind
    }

    /// The handle of ioctls.
    pub fn gpu_id(&self) -> u32 {
        self.node.gpu_id
    }

    /// The apertures that the kernel assigned.
    pub fn aperture(&self) -> &Aperture {
        &self.aperture
    }

    /// Ticks per second of timestamps; 100 MHz on gfx11 and gfx12 where the kernel does not say.
    pub fn counter_hz(&self) -> u64 {
        self.info.map(|info| info.counter_hz).filter(|&hz| hz != 0).unwrap_or(100_000_000)
    }

    /// Whether a reset or fault has made it unusable until [`Process::reopen`].
    pub fn is_lost(&self) -> bool {
        self.lost || self.is_gone()
    }

    /// Whether a store has found the doorbells gone: the device was reset or unplugged.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.guard.as_ref().is_some_and(BusGuard::is_gone)
    }
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

    /// What a model may take on this device now, with the rule that decided.
    pub fn budget(&self, device: DeviceIndex) -> Budget {
        let this = self.device(device);
        let facts = MemoryFacts {
            kfd_available: self.available(device),
            ..MemoryFacts::read(self.kernel, &this.node, Some(this.render.fd()))
        };
        facts.budget(this.kind, self.version().minor)
    }
}
