//! Events that the kernel reports about a device beside faults: resets, throttling, queues taken off the hardware.
//! They explain slow steps; nothing is decided by them.
//!
//! Source: `amdkfd/kfd_smi_events.c` (one text line an event, the event's number in hexadecimal first; an empty stream
//! answers `EAGAIN`), `uapi/linux/kfd_ioctl.h` (`enum kfd_smi_event`).

use super::connection::Process;
use super::device_index::DeviceIndex;
use super::file::OpenFile;
use crate::sys::{Errno, Fd, SmiEvents, call};

/// The kind of an event, by the kernel's number.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum GpuEventKind {
    /// A page fault of a program on the device.
    PageFault = 1,
    /// The device has slowed down because of heat.
    ThermalThrottle = 2,
    /// A reset begins.
    PreReset = 3,
    /// A reset is over.
    PostReset = 4,
    /// Queues were stopped, because memory moves or another program needs the hardware.
    QueueEviction = 9,
    /// They run again.
    QueueRestore = 10,
}

impl GpuEventKind {
    /// All of them; bit number − 1 of the mask requests each.
    pub const ALL: [Self; 6] = [
        Self::PageFault,
        Self::ThermalThrottle,
        Self::PreReset,
        Self::PostReset,
        Self::QueueEviction,
        Self::QueueRestore,
    ];

    fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u64 == number)
    }
}

/// Why queues were stopped (`enum KFD_QUEUE_EVICTION_TRIGGERS`).
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EvictionCause {
    /// Shared virtual memory changed on the host.
    SharedMemory,
    /// User memory that the device reads moved.
    UserMemory,
    /// Memory is short: buffers of the process had to move.
    Memory,
    /// The system is being suspended.
    Suspend,
    /// A checkpoint is made, or restored from.
    Checkpoint,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuEvent<'t> {
    /// The kind of event.
    pub kind: GpuEventKind,
    /// The rest of the kernel's line: times, processes, causes.
    pub text: &'t str,
}

impl<'t> GpuEvent<'t> {
    /// Reads a line; `None` for one that is not understood, as newer kernels may write them.
    pub fn parse(line: &'t [u8]) -> Option<Self> {
        let line = core::str::from_utf8(line).ok()?.trim();
        let (number, text) = line.split_once(' ').unwrap_or((line, ""));
        let kind = GpuEventKind::from_number(u64::from_str_radix(number, 16).ok()?)?;
        Some(Self { kind, text: text.trim() })
    }

    /// Why queues were stopped; `None` for other events and causes of newer kernels.
    pub fn cause(&self) -> Option<EvictionCause> {
        if self.kind != GpuEventKind::QueueEviction {
            return None;
        }
        // time, -process, device, trigger
        match self.text.split(' ').nth(3)?.parse::<u8>().ok()? {
            0 => Some(EvictionCause::SharedMemory),
            1 => Some(EvictionCause::UserMemory),
            2 => Some(EvictionCause::Memory),
            3 => Some(EvictionCause::Suspend),
            4 | 5 => Some(EvictionCause::Checkpoint),
            _ => None,
        }
    }
}

/// Bytes of the longest line, which the kernel bounds at 96, several times.
const ROOM: usize = 1024;

/// The stream of a device's events. Closed when dropped.
#[derive(Debug)]
pub struct GpuEvents<'k> {
    file: OpenFile<'k>,
    /// The beginning of a line whose end has not come yet.
    kept: heapless::Vec<u8, ROOM>,
}

impl<'k> Process<'k> {
    /// Begins to listen to a device.
    pub fn gpu_events(&self, device: DeviceIndex) -> Result<GpuEvents<'k>, Errno> {
        let mut arg = SmiEvents { gpuid: self.device(device).gpu_id(), anon_fd: 0 };
        call(self.kernel(), self.kfd.fd(), &mut arg)?;
        let file = OpenFile::adopt(self.kernel(), Fd::new(arg.anon_fd.cast_signed()));
        let mask = GpuEventKind::ALL.iter().fold(0u64, |mask, &kind| mask | 1 << (kind as u64 - 1));
        self.kernel().send(file.fd(), &mask.to_ne_bytes())?;
        Ok(GpuEvents { file, kept: heapless::Vec::new() })
    }
}

impl GpuEvents<'_> {
    /// Calls `each` with every event since the last time; does not wait.
    pub fn read(&mut self, each: &mut dyn FnMut(GpuEvent<'_>)) -> Result<(), Errno> {
        let mut buffer = [0; ROOM];
        loop {
            let count = match self.file.kernel().receive(self.file.fd(), &mut buffer) {
                Ok(0) | Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                result => result?,
            };
            for &byte in buffer.iter().take(count) {
                if byte != b'\n' {
                    // A line beyond all bounds is not one of the kernel's: it is cut.
                    let _ = self.kept.push(byte);
                    continue;
                }
                if let Some(notice) = GpuEvent::parse(&self.kept) {
                    each(notice);
                }
                self.kept.clear();
            }
        }
    }
}
