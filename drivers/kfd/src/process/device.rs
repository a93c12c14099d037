//! One GPU of an open process: its node, its render file, its apertures, its clocks.

use super::file::OpenFile;
use crate::memory::{Buffer, MemoryTraits};
use crate::sys::{Aperture, BusGuard, HwException, MemoryException, Window};
use crate::topology::{DeviceInfo, GpuKind, Node};

/// A handler in device memory.
#[derive(Debug)]
pub(crate) struct TrapHandler {
    pub(super) code: Buffer,
    pub(super) records: Buffer,
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
    /// The trap handler, which records why a wave has stopped, if one is installed.
    pub(crate) trap: Option<TrapHandler>,
    pub(crate) lost: bool,
    /// An exception of this device that a waiter for another one was woken by.
    pub(crate) exception: Exception,
}

/// Exceptions that were reported about a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exception {
    pub(crate) memory: Option<MemoryException>,
    pub(crate) hardware: Option<HwException>,
}

impl Exception {
    pub(crate) fn is_some(&self) -> bool {
        self.memory.is_some() || self.hardware.is_some()
    }

    /// Adds exceptions of a later wait; the first report of each kind is kept.
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

    /// True if a reset or fault has made it unusable until [`Process::reopen`](super::Process::reopen).
    pub fn is_lost(&self) -> bool {
        self.lost || self.is_gone()
    }

    /// True if a store has found the doorbells gone: the device was reset or unplugged.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.guard.as_ref().is_some_and(BusGuard::is_gone)
    }

    /// The facts that allocation flags depend on.
    pub(crate) fn traits(&self) -> MemoryTraits {
        MemoryTraits { kind: self.kind, is_vram_mappable: self.node.is_vram_mappable() }
    }
}
