//! Memory that the threads of a step write together.
#![expect(unsafe_code, reason = "threads write disjoint cells of one buffer")]

use crate::lines::Lines;
use doorbell_core::heap::{Heap, OutOfMemory};

/// Numbers in memory that only grows.
#[derive(Debug)]
pub(super) struct Buffer<'h>(Lines<'h>);

impl<'h> Buffer<'h> {
    pub(super) fn new(heap: Heap<'h>) -> Self {
        Self(Lines::new(heap))
    }

    /// Makes room for `count` numbers.
    pub(super) fn grow(&mut self, count: usize) -> Result<(), OutOfMemory> {
        self.0.grow(count.saturating_mul(size_of::<f32>()))
    }

    fn len(&self) -> usize {
        self.0.bytes() / size_of::<f32>()
    }

    /// The cells, for threads that keep out of each other's way.
    pub(super) fn cells(&mut self) -> Cells {
        Cells { base: self.0.pointer_mut().cast(), len: self.len() }
    }

    /// The numbers.
    pub(super) fn floats(&self) -> &[f32] {
        // SAFETY: all of the lines' bytes, which are aligned for floats.
        unsafe { core::slice::from_raw_parts(self.0.pointer().cast(), self.len()) }
    }

    /// The numbers.
    pub(super) fn floats_mut(&mut self) -> &mut [f32] {
        // SAFETY: all of the lines' bytes, which are aligned for floats.
        unsafe { core::slice::from_raw_parts_mut(self.0.pointer_mut().cast(), self.len()) }
    }
}

/// A buffer's cells, reached from several threads.
///
/// The rule of every use: in a phase, a cell is written through one reference at a time, and read by nobody else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells {
    base: *mut f32,
    len: usize,
}

// SAFETY: only `unsafe` methods reach the cells, and their callers keep threads apart.
unsafe impl Send for Cells {}
// SAFETY: as above.
unsafe impl Sync for Cells {}

impl Cells {
    /// Cells `first .. first + count`.
    ///
    /// # Safety
    /// Nobody writes them while the reference lives.
    pub(super) unsafe fn read<'c>(self, first: usize, count: usize) -> &'c [f32] {
        assert!(first.checked_add(count).is_some_and(|end| end <= self.len), "cells of a shared buffer");
        // SAFETY: just checked to lie in the buffer; the caller's promise.
        unsafe { core::slice::from_raw_parts(self.base.add(first), count) }
    }

    /// Cells `first .. first + count`.
    ///
    /// # Safety
    /// Nobody else uses them while the reference lives.
    pub(super) unsafe fn write<'c>(self, first: usize, count: usize) -> &'c mut [f32] {
        assert!(first.checked_add(count).is_some_and(|end| end <= self.len), "cells of a shared buffer");
        // SAFETY: just checked to lie in the buffer; the caller's promise.
        unsafe { core::slice::from_raw_parts_mut(self.base.add(first), count) }
    }

    /// Bytes of the buffer from byte `first` on.
    ///
    /// # Safety
    /// Nobody writes them while the reference lives.
    pub(super) unsafe fn read_bytes<'c>(self, first: usize, count: usize) -> &'c [u8] {
        assert!(first.checked_add(count).is_some_and(|end| end <= 4 * self.len), "bytes of a shared buffer");
        // SAFETY: just checked to lie in the buffer; the caller's promise.
        unsafe { core::slice::from_raw_parts(self.base.cast::<u8>().add(first), count) }
    }

    /// Bytes of the buffer from byte `first` on.
    ///
    /// # Safety
    /// Nobody else uses them while the reference lives.
    pub(super) unsafe fn write_bytes<'c>(self, first: usize, count: usize) -> &'c mut [u8] {
        assert!(first.checked_add(count).is_some_and(|end| end <= 4 * self.len), "bytes of a shared buffer");
        // SAFETY: just checked to lie in the buffer; the caller's promise.
        unsafe { core::slice::from_raw_parts_mut(self.base.cast::<u8>().add(first), count) }
    }
}
