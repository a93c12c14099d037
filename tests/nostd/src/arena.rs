//! Heaps over fixed arrays. `doorbell_cpu::budget` counts allocations.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use spin::Mutex;
use talc::{ErrOnOom, Span, Talc, Talck};

/// A heap over an array, set up at its first use.
pub(crate) type ArenaHeap = Talck<Mutex<()>, ErrOnOom>;

/// An array of `N` bytes that becomes a heap.
#[repr(align(64))]
pub(crate) struct Arena<const N: usize> {
    bytes: UnsafeCell<[u8; N]>,
    claimed: AtomicBool,
    heap: ArenaHeap,
}

// SAFETY: the bytes are only handed to `heap`, once, under its lock.
unsafe impl<const N: usize> Sync for Arena<N> {}

impl<const N: usize> Arena<N> {
    const fn new() -> Self {
        Self {
            bytes: UnsafeCell::new([0; N]),
            claimed: AtomicBool::new(false),
            heap: Talc::new(ErrOnOom).lock(),
        }
    }

    /// The heap, made of all the bytes at the first call.
    pub(crate) fn heap(&'static self) -> &'static ArenaHeap {
        if !self.claimed.swap(true, Ordering::AcqRel) {
            let bytes = Span::from_base_size(self.bytes.get().cast(), N);
            // SAFETY: this happens once, nothing else refers to the bytes, and an arena is static.
            let _ = unsafe { self.heap.lock().claim(bytes) };
        }
        &self.heap
    }
}

/// Enough for the embedded model.
pub(crate) static LARGE: Arena<{ 1 << 20 }> = Arena::new();
/// Enough for its tokenizer, but not for its keys and values.
pub(crate) static SMALL: Arena<{ 1 << 16 }> = Arena::new();
