//! One file mapped into memory, read-only. The only unsafe code of this crate.
#![allow(unsafe_code, reason = "mapping a file into memory is a promise about other processes")]

use core::ops::Range;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::fs::File;
use std::io;

/// A file mapped into memory until this value is dropped.
///
/// The file must not shrink meanwhile: reading a page that has been cut off ends the process with `SIGBUS`.
/// In return the program starts at once and shares memory with other processes that use the model.
pub(super) struct Mapping {
    start: *mut core::ffi::c_void,
    len: usize,
}

// SAFETY: the mapping is read-only and belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing can be changed through it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `file`, more than zero.
    pub(super) fn new(file: &File, len: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses a free address range, so no existing memory is replaced; a length of
        // zero or more than the address space is refused by it.
        let start = unsafe { mmap(core::ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file, 0) }?;
        Ok(Self { start, len })
    }

    /// The bytes of the file.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: start and len are those of a mapping that lives until drop, readable and at a page
        // boundary. The documentation requires that nobody writes to the file meanwhile.
        unsafe { core::slice::from_raw_parts(self.start.cast(), self.len) }
    }

    /// Reads the pages of a range into memory before they are used; the range starts at a page boundary.
    pub(super) fn populate(&self, range: Range<usize>) -> io::Result<()> {
        let start = range.start.min(self.len);
        let len = range.end.min(self.len) - start;
        for advice in [Advice::LinuxPopulateRead, Advice::WillNeed] {
            // SAFETY: the range lies inside the mapping, and both kinds of advice leave its contents alone.
            match unsafe { madvise(self.start.wrapping_byte_add(start), len, advice) } {
                // kernels before 5.14 don't have the first
                Err(rustix::io::Errno::INVAL) => {}
                result => return Ok(result?),
            }
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by new, and the borrow checker has ended all uses of bytes.
        let unmapped = unsafe { munmap(self.start, self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of an existing mapping");
    }
}
