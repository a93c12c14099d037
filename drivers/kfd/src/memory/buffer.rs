//! A buffer of device memory, and why one cannot be allocated or freed. Allocating is in `allocate`.

use super::address_space::AddressSpaceError;
use super::name::Name;
use super::usage::Usage;
use crate::heap::OutOfMemory;
use crate::process::DeviceIndex;
use crate::sys::{Errno, Window};
use core::fmt;

/// The kernel's name for a buffer.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub u64);

/// Memory that a GPU maps, at one address for CPU and GPU. Given back by
/// [`Process::free`](crate::process::Process::free); what is dropped instead stays allocated until the process is shut
/// down.
#[derive(Debug)]
pub struct Buffer {
    pub(super) handle: Handle,
    pub(super) va: u64,
    pub(super) bytes: u64,
    pub(super) device: DeviceIndex,
    pub(super) usage: Usage,
    pub(super) window: Option<Window>,
}

/// Why a buffer could not be allocated.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocError {
    /// The size is 0 or larger than any address space (bytes).
    Size(u64),
    /// The device is lost.
    Lost,
    /// No addresses.
    AddressSpace(AddressSpaceError),
    /// The kernel has no memory: wanted bytes, and what it says is available.
    NoMemory {
        /// Bytes wanted.
        wanted: u64,
        /// Bytes the kernel thinks it could give, where it says.
        available: Option<u64>,
        /// For what.
        name: Name,
    },
    /// Another refusal, with the call.
    Refused(&'static str, Errno),
    /// No host memory for the table of allocations.
    OutOfMemory,
}

impl AllocError {
    /// The kernel's error number where there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::NoMemory { .. } => Some(Errno::ENOMEM),
            Self::Refused(_, errno) => Some(*errno),
            _ => None,
        }
    }
}

impl From<AddressSpaceError> for AllocError {
    fn from(error: AddressSpaceError) -> Self {
        Self::AddressSpace(error)
    }
}

impl From<OutOfMemory> for AllocError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(bytes) => write!(f, "a buffer of {bytes} bytes cannot be"),
            Self::Lost => f.write_str("the device is lost; reopen it"),
            Self::AddressSpace(error) => write!(f, "{error}"),
            Self::NoMemory { wanted, available, name } => {
                write!(f, "no memory for {name}: {wanted} bytes wanted")?;
                match available {
                    Some(available) => write!(f, ", about {available} available"),
                    None => Ok(()),
                }
            }
            Self::Refused(what, errno) => write!(f, "{what}: {errno}"),
            Self::OutOfMemory => write!(f, "{OutOfMemory}"),
        }
    }
}

impl core::error::Error for AllocError {}

/// The kernel would not take a buffer back; it is in the error.
#[derive(Debug)]
pub struct FreeError {
    /// `EBUSY`: a live queue uses it. `EINVAL`: it is gone already, by
    /// [`Process::reopen`](crate::process::Process::reopen).
    pub errno: Errno,
    /// The buffer.
    pub buffer: Buffer,
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot free the buffer at {:#x}: {}", self.buffer.va, self.errno)
    }
}

impl core::error::Error for FreeError {}

impl Buffer {
    /// The kernel's handle.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// First address, the same for GPU and CPU.
    pub fn va(&self) -> u64 {
        self.va
    }

    /// Bytes, rounded up to pages or fragments.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The device that owns it.
    pub fn device(&self) -> DeviceIndex {
        self.device
    }

    /// Its purpose.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The CPU's view; `None` for memory that the CPU does not reach.
    pub fn window(&self) -> Option<&Window> {
        self.window.as_ref()
    }

    /// The CPU's view of a buffer whose [`Usage`] is always host-mapped. Panics on others: a mistake of this
    /// program.
    pub(crate) fn host(&self) -> &Window {
        self.window.as_ref().expect("a usage that is host-mapped on every device")
    }
}
