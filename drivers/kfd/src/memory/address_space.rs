//! The address space that buffers live in: one reservation, the same addresses for CPU and GPU.
//!
//! Ranges are given out first-fit with an inaccessible guard behind each, so that an overrun faults instead of
//! corrupting. What is put into a range is not known here.

use super::free_ranges::FreeRanges;
use crate::heap::OutOfMemory;
use crate::sys::{Errno, Kernel, Span};
use core::fmt;

/// Largest translation unit of gfx11 and gfx12 (`amdgpu_vm` fragment 9): addresses and sizes of large buffers
/// are multiples of it.
pub const FRAGMENT: u64 = 2 << 20;

/// Page of the GPU's page tables.
pub(crate) const PAGE: u64 = 4096;

/// Tried first; address space costs nothing. Halved until the system agrees.
const LARGEST: u64 = 1 << 40;

/// Below this no model fits and the limit on address space has to go.
const SMALLEST: u64 = 1 << 32;

/// Why a range was not given.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressSpaceError {
    /// The system reserves no address space; look at `ulimit -v`.
    Reserve(Errno),
    /// The reservation lies outside what the GPU can address: first and last address of it.
    OutsideGpu(u64, u64),
    /// No gap of this many bytes is left.
    Full(u64),
    /// No host memory for the list of free ranges.
    OutOfMemory,
}

impl From<OutOfMemory> for AddressSpaceError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl fmt::Display for AddressSpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserve(errno) => write!(f, "cannot reserve address space: {errno}; look at `ulimit -v`"),
            Self::OutsideGpu(first, last) => {
                write!(f, "the reserved addresses {first:#x}..{last:#x} are out of the GPU's reach")
            }
            Self::Full(bytes) => write!(f, "no gap of {bytes} bytes left in the reserved address space"),
            Self::OutOfMemory => write!(f, "{OutOfMemory}"),
        }
    }
}

impl core::error::Error for AddressSpaceError {}

/// A reserved address range and the free parts of it.
#[derive(Debug)]
pub struct AddressSpace {
    span: Span,
    /// Offsets into the span.
    free: FreeRanges,
}

impl AddressSpace {
    /// Reserves addresses within `[base, limit]`, as many as the system gives.
    pub fn reserve(kernel: &dyn Kernel, base: u64, limit: u64) -> Result<Self, AddressSpaceError> {
        let mut bytes = LARGEST;
        let span = loop {
            let (Ok(len), Ok(align)) = (usize::try_from(bytes), usize::try_from(FRAGMENT)) else {
                bytes /= 2;
                continue;
            };
            match kernel.reserve(len, align) {
                Ok(span) => break span,
                Err(errno) if bytes / 2 < SMALLEST => return Err(AddressSpaceError::Reserve(errno)),
                Err(_) => bytes /= 2,
            }
        };
        let (first, last) = (span.address(), span.address() + bytes - 1);
        if first < base || last > limit {
            return Err(AddressSpaceError::OutsideGpu(first, last));
        }
        Ok(Self { span, free: FreeRanges::new(bytes)? })
    }

    /// The reservation.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Bytes not given out.
    pub fn free(&self) -> u64 {
        self.free.bytes()
    }

    /// Alignment of a buffer of `bytes`: a fragment, or the largest power of two not above its size.
    pub fn alignment(bytes: u64) -> u64 {
        match bytes.checked_ilog2() {
            _ if bytes >= FRAGMENT => FRAGMENT,
            Some(log) => (1 << log).max(PAGE),
            None => PAGE,
        }
    }

    /// Allocates `bytes` (whole pages) with a guard page behind; returns the offset in the reservation.
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, AddressSpaceError> {
        let need = bytes.checked_add(PAGE).ok_or(AddressSpaceError::Full(bytes))?;
        self.free.allocate(need, Self::alignment(bytes))?.ok_or(AddressSpaceError::Full(bytes))
    }

    /// Takes back a range of [`Self::allocate`].
    pub fn release(&mut self, offset: u64, bytes: u64) {
        self.free.release(offset, bytes + PAGE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Linux;

    #[test]
    fn ranges_are_aligned_guarded_and_return() {
        let mut space = AddressSpace::reserve(&Linux, 0x10000, 0x7FFF_FFFF_FFFF).expect("address space");
        let all = space.free();
        let sizes = [4096, 12288, 32768, 3 << 20, 4 << 20, 1 << 30, 4096];
        let taken = sizes.map(|bytes| (space.allocate(bytes).expect("room"), bytes));
        for (index, &(start, bytes)) in taken.iter().enumerate() {
            assert_eq!(start % AddressSpace::alignment(bytes), 0);
            for &(other, len) in &taken[..index] {
                assert!(other + len < start || start + bytes < other, "no guard between");
            }
        }
        for index in [3, 0, 6, 2, 5, 1, 4] {
            space.release(taken[index].0, taken[index].1);
        }
        assert_eq!(space.free(), all);
        assert_eq!(space.allocate(all), Err(AddressSpaceError::Full(all)), "no room for the guard");
        assert_eq!((space.allocate(all - PAGE), space.free()), (Ok(0), 0));
        assert_eq!(AddressSpace::alignment(1 << 30), FRAGMENT);
        assert_eq!(AddressSpace::alignment(12288), 8192);
    }

    #[test]
    fn addresses_out_of_reach_are_refused() {
        assert!(matches!(AddressSpace::reserve(&Linux, 0, 0xffff), Err(AddressSpaceError::OutsideGpu(..))));
    }
}
