//! The address space that buffers live in: one reservation, the same addresses for CPU and GPU.
//!
//! Ranges are given out first-fit with an inaccessible guard behind each, so that an overrun faults instead of
//! corrupting. What is put into a range is not known here.

use crate::heap::{OutOfMemory, push};
use crate::sys::{Errno, Kernel, Span};
use alloc::vec::Vec;
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
pub enum SpaceError {
    /// The system reserves no address space; look at `ulimit -v`.
    Reserve(Errno),
    /// The reservation lies outside what the GPU can address: first and last address of it.
    OutsideGpu(u64, u64),
    /// No gap of this many bytes is left.
    Full(u64),
    /// No host memory for the list of gaps.
    OutOfMemory,
}

impl From<OutOfMemory> for SpaceError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl fmt::Display for SpaceError {
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

impl core::error::Error for SpaceError {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    start: u64,
    end: u64,
}

/// A reserved address range and the gaps in it.
#[derive(Debug)]
pub struct Space {
    span: Span,
    /// Sorted, disjoint, never touching; offsets into the span.
    gaps: Vec<Gap>,
}

impl Space {
    /// Reserves addresses within `[base, limit]`, as many as the system gives.
    pub fn reserve(kernel: &dyn Kernel, base: u64, limit: u64) -> Result<Self, SpaceError> {
        let mut bytes = LARGEST;
        let span = loop {
            let (Ok(len), Ok(align)) = (usize::try_from(bytes), usize::try_from(FRAGMENT)) else {
                bytes /= 2;
                continue;
            };
            match kernel.reserve(len, align) {
                Ok(span) => break span,
                Err(errno) if bytes / 2 < SMALLEST => return Err(SpaceError::Reserve(errno)),
                Err(_) => bytes /= 2,
            }
        };
        let (first, last) = (span.address(), span.address() + bytes - 1);
        if first < base || last > limit {
            return Err(SpaceError::OutsideGpu(first, last));
        }
        let mut gaps = Vec::new();
        push(&mut gaps, Gap { start: 0, end: bytes })?;
        Ok(Self { span, gaps })
    }

    /// The reservation.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Bytes not given out.
    pub fn free(&self) -> u64 {
        self.gaps.iter().map(|gap| gap.end - gap.start).sum()
    }

    /// What a buffer of `bytes` is aligned to: a fragment, or the largest power of two not above its size.
    pub fn alignment(bytes: u64) -> u64 {
        match bytes.checked_ilog2() {
            _ if bytes >= FRAGMENT => FRAGMENT,
            Some(log) => (1 << log).max(PAGE),
            None => PAGE,
        }
    }

    /// Gives out `bytes` (whole pages) with a guard page behind; answers the offset in the span.
    pub fn take(&mut self, bytes: u64) -> Result<u64, SpaceError> {
        let align = Self::alignment(bytes);
        let need = bytes.checked_add(PAGE).ok_or(SpaceError::Full(bytes))?;
        // One gap becomes two: make room before anything changes.
        self.gaps.try_reserve(1).map_err(|_| SpaceError::OutOfMemory)?;
        let fits = |gap: &Gap| {
            let start = gap.start.next_multiple_of(align);
            start.checked_add(need).is_some_and(|end| end <= gap.end).then_some(start)
        };
        let found = self.gaps.iter().enumerate().find_map(|(at, gap)| Some((at, fits(gap)?)));
        let (at, start) = found.ok_or(SpaceError::Full(bytes))?;
        let gap = self.gaps[at];
        let (before, after) = (Gap { end: start, ..gap }, Gap { start: start + need, ..gap });
        self.gaps.splice(at..=at, [before, after].into_iter().filter(|gap| gap.start < gap.end));
        Ok(start)
    }

    /// Takes back what [`Self::take`] gave.
    pub fn give(&mut self, offset: u64, bytes: u64) {
        let (start, end) = (offset, offset + bytes + PAGE);
        let at = self.gaps.partition_point(|gap| gap.start < start);
        let joins_before = at > 0 && self.gaps[at - 1].end == start;
        let joins_after = self.gaps.get(at).is_some_and(|gap| gap.start == end);
        match (joins_before, joins_after) {
            (true, true) => {
                self.gaps[at - 1].end = self.gaps[at].end;
                self.gaps.remove(at);
            }
            (true, false) => self.gaps[at - 1].end = end,
            (false, true) => self.gaps[at].start = start,
            // Without room for one more gap the addresses are lost, which is safe.
            (false, false) if self.gaps.try_reserve(1).is_ok() => self.gaps.insert(at, Gap { start, end }),
            (false, false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Linux;

    #[test]
    fn ranges_are_aligned_guarded_and_return() {
        let mut space = Space::reserve(&Linux, 0x10000, 0x7FFF_FFFF_FFFF).expect("address space");
        let all = space.free();
        let sizes = [4096, 12288, 32768, 3 << 20, 4 << 20, 1 << 30, 4096];
        let taken = sizes.map(|bytes| (space.take(bytes).expect("room"), bytes));
        for (index, &(start, bytes)) in taken.iter().enumerate() {
            assert_eq!(start % Space::alignment(bytes), 0);
            for &(other, len) in &taken[..index] {
                assert!(other + len < start || start + bytes < other, "no guard between");
            }
        }
        for index in [3, 0, 6, 2, 5, 1, 4] {
            space.give(taken[index].0, taken[index].1);
        }
        assert_eq!(space.free(), all);
        assert_eq!(space.gaps.len(), 1);
        assert_eq!(space.take(all), Err(SpaceError::Full(all)));
        assert_eq!(Space::alignment(1 << 30), FRAGMENT);
        assert_eq!(Space::alignment(12288), 8192);
    }

    #[test]
    fn addresses_out_of_reach_are_refused() {
        assert!(matches!(Space::reserve(&Linux, 0, 0xffff), Err(SpaceError::OutsideGpu(..))));
    }
}
