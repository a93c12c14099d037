//! An allocator over another one that refuses beyond a number of bytes and counts what is taken.
//!
//! It is here because `Allocator` can only be implemented with `unsafe`, which core has none of. The right amount of memory is
//! not decided here: see `Config::memory` in core.
#![expect(unsafe_code, reason = "implementing Allocator promises that the blocks given out are usable")]

use allocator_api2::alloc::{AllocError, Allocator};
use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A heap of a limited number of bytes, taken from the heap `inner`.
///
/// Bytes are those requested; what `inner` needs for its own bookkeeping comes on top. A block that grows is counted
/// with its old and its new size until it has moved, as a heap must have room for both.
#[derive(Debug)]
pub struct Budget<A> {
    inner: A,
    limit: usize,
    /// Allocations are refused from this one on, counted from 0.
    refuse_from: usize,
    live: AtomicUsize,
    peak: AtomicUsize,
    largest: AtomicUsize,
    allocations: AtomicUsize,
}

impl<A: Allocator> Budget<A> {
    /// A heap of `limit` bytes.
    pub const fn new(inner: A, limit: usize) -> Self {
        Self::refusing_from(inner, limit, usize::MAX)
    }

    /// A heap of `limit` bytes that is used up after `count` allocations.
    pub const fn refusing_from(inner: A, limit: usize, count: usize) -> Self {
        Self {
            inner,
            limit,
            refuse_from: count,
            live: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            largest: AtomicUsize::new(0),
            allocations: AtomicUsize::new(0),
        }
    }

    /// Bytes in use.
    pub fn live(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// The most bytes that were in use at a time.
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    /// The most bytes that were requested at once, refused ones included.
    pub fn largest(&self) -> usize {
        self.largest.load(Relaxed)
    }

    /// Number of allocations that were requested, refusals included.
    pub fn allocations(&self) -> usize {
        self.allocations.load(Relaxed)
    }

    /// Counts `bytes` as used, unless that is too much.
    fn take(&self, bytes: usize) -> Result<(), AllocError> {
        self.largest.fetch_max(bytes, Relaxed);
        if self.allocations.fetch_add(1, Relaxed) >= self.refuse_from {
            return Err(AllocError);
        }
        let room = |live: usize| live.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let before = self.live.fetch_update(Relaxed, Relaxed, room).map_err(|_| AllocError)?;
        self.peak.fetch_max(before + bytes, Relaxed);
        Ok(())
    }
}

// SAFETY: every block comes from `inner` with the layout that was requested and goes back to it with the same layout;
// the counters do not touch blocks. Growing and shrinking are the trait's own, which call the functions below.
unsafe impl<A: Allocator> Allocator for Budget<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.take(layout.size())?;
        self.inner.allocate(layout).inspect_err(|_| {
            self.live.fetch_sub(layout.size(), Relaxed);
        })
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.take(layout.size())?;
        self.inner.allocate_zeroed(layout).inspect_err(|_| {
            self.live.fetch_sub(layout.size(), Relaxed);
        })
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        self.live.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller says that `block` is live and of this layout, and it came from `inner`.
        unsafe { self.inner.deallocate(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_core::heap::{self, Global, Heap, OutOfMemory};

    #[test]
    fn bytes_are_counted_and_given_back() {
        let budget = Budget::new(Global, 100);
        let heap: Heap<'_> = &budget;
        let mut vec = heap::filled(heap, 10, 0_u32).unwrap();
        assert_eq!((budget.live(), budget.peak(), budget.allocations()), (40, 40, 1));
        heap::reserve(&mut vec, 5).unwrap();
        assert_eq!((budget.live(), budget.peak(), budget.allocations()), (60, 100, 2));
        drop(vec);
        assert_eq!((budget.live(), budget.peak(), budget.largest()), (0, 100, 60));
    }

    #[test]
    fn more_than_the_limit_is_refused_and_changes_nothing() {
        let budget = Budget::new(Global, 100);
        let heap: Heap<'_> = &budget;
        let held = heap::filled(heap, 60, 1_u8).unwrap();
        assert_eq!(heap::filled(heap, 41, 2_u8).unwrap_err(), OutOfMemory { bytes: 41 });
        assert_eq!((budget.live(), budget.largest()), (60, 60));
        drop(held);
        assert!(heap::filled(heap, 100, 2_u8).is_ok());
    }

    #[test]
    fn the_chosen_allocation_and_all_after_it_are_refused() {
        let budget = Budget::refusing_from(Global, usize::MAX, 2);
        let heap: Heap<'_> = &budget;
        let taken: [bool; 4] = core::array::from_fn(|_| heap::filled(heap, 8, 0_u8).is_ok());
        assert_eq!(taken, [true, true, false, false]);
        assert_eq!(budget.live(), 0);
    }
}
