//! Faults of a GPU, with everything that a report prints. They are detected in [`crate::queue`].
//!
//! Source: `amdkfd/kfd_events.c` (`kfd_signal_vm_fault_event`, `kfd_signal_reset_event`), `kfd_process.c`
//! (`send_exception_work_handler`), `uapi/linux/kfd_ioctl.h` (`enum kfd_dbg_trap_exception_code`); codes in the
//! inactive signal are those of ROCR-Runtime `amd_aql_queue.cpp:DynamicQueueEventsHandler`.

use crate::memory::Nearest;
use crate::process::TrapRecord;
use crate::queue::PacketRange;
use crate::sys::{HwException, MemoryException};
use core::fmt;

/// Work that a queue had not finished.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Packets taken by the packet processor, since the queue began.
    pub read: u64,
    /// Packets written.
    pub written: u64,
    /// Dispatches that the list under way says it has started; 0 where none says anything. Those behind the last
    /// barrier among them are not known to be complete.
    pub started: u32,
    /// Submissions that are not complete, the oldest first.
    pub ranges: heapless::Vec<PacketRange, 8>,
}

impl fmt::Display for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.ranges.first() else {
            return write!(f, "no submission in flight");
        };
        let within = self.read.saturating_sub(first.first);
        write!(
            f,
            "in flight: submission {} (label {}), {within} of {} packets taken; {} submissions, {} packets behind",
            first.submission.0,
            first.label,
            first.count,
            self.ranges.len(),
            self.written.saturating_sub(self.read)
        )?;
        match self.started {
            0 => Ok(()),
            started => write!(f, "; its list has started {started} dispatches"),
        }
    }
}

/// A GPU page fault.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryFault {
    /// The kernel's report; the address is that of the page.
    pub exception: MemoryException,
    /// The nearest allocation.
    pub near: Nearest,
}

impl fmt::Display for MemoryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryException { not_present, read_only, no_execute, imprecise, va, gpu_id, error_type } =
            self.exception;
        write!(f, "GPU {gpu_id:#x}: page fault at {va:#x}, {}:", self.near)?;
        for (is_set, text) in [
            (not_present, " not mapped"),
            (read_only, " write to a read-only page"),
            (no_execute, " not executable"),
            (imprecise, " (address imprecise)"),
        ] {
            if is_set {
                f.write_str(text)?;
            }
        }
        match error_type {
            1 => f.write_str(" SRAM ECC error"),
            2 => f.write_str(" poisoned memory"),
            3 => f.write_str(" hang"),
            _ => Ok(()),
        }
    }
}

/// Errors of one queue.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueErrors {
    /// Bits that the packet processor wrote to the inactive signal.
    pub packet: u64,
    /// Bits that the kernel wrote: 1 << (code − 1).
    pub exceptions: u64,
}

const PACKET_ERRORS: &[(u64, &str)] = &[
    (0x1, "scratch too small"),
    (0x2, "bad grid or workgroup dimensions"),
    (0x4, "bad LDS size"),
    (0x8, "bad code object"),
    (0x20, "bad packet type"),
    (0x40, "workgroup too large"),
    (0x80, "out of VGPRs"),
    (0x100, "bad vendor packet"),
    (0x200, "scratch reclaim request"),
    (0x400, "scratch too small"),
    (0x2000_0000, "aperture violation"),
    (0x4000_0000, "illegal instruction"),
    (0x8000_0000, "trap"),
];

const EXCEPTIONS: &[(u32, &str)] = &[
    (1, "wave abort"),
    (2, "wave trap"),
    (3, "wave math error"),
    (4, "illegal instruction"),
    (5, "wave memory violation"),
    (6, "wave aperture violation"),
    (16, "bad dispatch dimensions"),
    (17, "bad LDS size"),
    (18, "bad code object"),
    (19, "reserved packet"),
    (20, "unsupported packet"),
    (21, "workgroup too large"),
    (22, "too many registers"),
    (23, "unsupported vendor packet"),
    (30, "pre-emption failed"),
    (31, "queue created"),
    (33, "device memory violation"),
    (34, "RAS error"),
    (35, "fatal halt"),
    (36, "device created"),
    (48, "process runtime"),
    (49, "process device removed"),
];

/// Exceptions of waves rather than of packets: codes 1 to 6.
const WAVE_EXCEPTIONS: u64 = 0x3f;

impl QueueErrors {
    /// True if a wave failed.
    pub fn is_wave(self) -> bool {
        self.exceptions & WAVE_EXCEPTIONS != 0
    }

    /// True if a wave accessed memory without permission.
    pub fn is_violation(self) -> bool {
        const VIOLATION: u64 = 1 << (5 - 1);
        self.exceptions & VIOLATION != 0
    }

    /// Writes every error that there are words for.
    fn list(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packet = PACKET_ERRORS.iter().filter(|row| self.packet & row.0 != 0).map(|row| row.1);
        let exceptions = EXCEPTIONS.iter().filter(|row| self.exceptions >> (row.0 - 1) & 1 != 0);
        let mut separator = "";
        for word in packet.chain(exceptions.map(|row| row.1)) {
            write!(f, "{separator}{word}")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl fmt::Display for QueueErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list(f)?;
        write!(f, " (codes {:#x}, {:#x})", self.packet, self.exceptions)
    }
}

/// Waves that a trap handler has stopped.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaveFault {
    /// The errors of the queue: the kernel's, or the record's exceptions if the kernel reported none.
    pub errors: QueueErrors,
    /// One of the waves.
    pub record: TrapRecord,
    /// The allocation at its program counter: the kernel.
    pub near: Nearest,
    /// Records that the handler has left of this queue, at most 32.
    pub waves: u32,
}

impl fmt::Display for WaveFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a wave stopped: ")?;
        self.errors.list(f)?;
        if self.record.trap != 0 {
            write!(f, " (s_trap {})", self.record.trap)?;
        }
        write!(f, " at pc {:#x}, {}", self.record.pc, self.near)?;
        if self.waves > 1 {
            write!(f, ", like {} other waves at least", self.waves - 1)?;
        }
        Ok(())
    }
}

/// A failure of the device, and the work that was in flight.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// A page fault: the kernel has stopped all queues of this process on the device for good.
    Memory(MemoryFault, InFlight),
    /// The packet processor refused a packet or a wave failed; the queue is stopped.
    Queue(QueueErrors, InFlight),
    /// Waves met an exception or `s_trap`, by the trap handler's record; the queue is stopped.
    Wave(WaveFault, InFlight),
    /// The GPU was reset.
    Reset(HwException, InFlight),
    /// The kernel has taken the doorbells of this GPU away: it was reset or unplugged.
    Gone(u32, InFlight),
    /// No progress for this many milliseconds.
    Hang(u32, InFlight),
    /// The same on this GPU (its id, then milliseconds), and the system was suspended since it was opened.
    Suspended(u32, u32, InFlight),
}

impl Fault {
    /// The GPU that cannot be used any more before it is reopened, if the fault says so.
    pub fn lost_gpu(&self) -> Option<u32> {
        match self {
            Self::Memory(fault, _) => Some(fault.exception.gpu_id),
            Self::Reset(exception, _) => Some(exception.gpu_id),
            Self::Gone(gpu_id, _) | Self::Suspended(gpu_id, ..) => Some(*gpu_id),
            Self::Queue(..) | Self::Wave(..) | Self::Hang(..) => None,
        }
    }

    /// The work that was in flight.
    pub fn in_flight(&self) -> &InFlight {
        match self {
            Self::Memory(_, flight)
            | Self::Queue(_, flight)
            | Self::Wave(_, flight)
            | Self::Reset(_, flight)
            | Self::Gone(_, flight)
            | Self::Hang(_, flight)
            | Self::Suspended(_, _, flight) => flight,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(fault, _) => write!(f, "{fault}; dmesg names the client")?,
            Self::Queue(errors, _) => write!(f, "the queue stopped: {errors}")?,
            Self::Wave(fault, _) => write!(f, "{fault}")?,
            Self::Reset(exception, _) => {
                let what =
                    if exception.reset_type == 0 { "the whole GPU was reset" } else { "an engine was reset" };
                let why = if exception.reset_cause == 0 { "after a hang" } else { "after an ECC error" };
                write!(f, "GPU {:#x}: {what} {why}", exception.gpu_id)?;
                if exception.memory_lost {
                    f.write_str(", its memory is lost")?;
                }
            }
            Self::Gone(gpu_id, _) => {
                write!(f, "GPU {gpu_id:#x} is gone: it was reset or unplugged")?;
            }
            Self::Hang(ms, _) => write!(
                f,
                "no progress for {ms} ms: an endless or halted kernel (an illegal instruction halts silently \
                 without a trap handler)"
            )?,
            Self::Suspended(gpu_id, ms, _) => write!(
                f,
                "GPU {gpu_id:#x}: no progress for {ms} ms, and the system was suspended since it was opened: it has \
                 not come back; reopen it"
            )?,
        }
        write!(f, "; {}", self.in_flight())
    }
}

impl core::error::Error for Fault {}
