//! Anonymous memory that can be mapped more than once: what a software kernel hands out as device memory.

use super::errno::Errno;
use super::window::{MapAddress, Window};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::MemfdFlags;

/// A piece of memory with its own file, zero at first, that any number of [`Window`]s may show.
#[derive(Debug)]
pub struct Shared {
    file: OwnedFd,
    len: usize,
}

impl Shared {
    /// `len` bytes of zeroes. Pages that are never touched cost nothing.
    pub fn new(len: usize) -> Result<Self, Errno> {
        let file = rustix::fs::memfd_create("doorbell", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, len as u64)?;
        Ok(Self { file, len })
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Maps `len` bytes from `offset` (whole pages).
    pub fn map(&self, offset: usize, len: usize, address: MapAddress<'_>) -> Result<Window, Errno> {
        if offset.checked_add(len).is_none_or(|end| end > self.len.next_multiple_of(4096)) {
            return Err(Errno::EINVAL);
        }
        Window::map(self.file.as_fd(), offset as u64, len, address)
    }
}
