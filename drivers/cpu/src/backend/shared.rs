//! Memory that the threads of a step write together.
#![expect(unsafe_code, reason = "threads write disjoint cells of one buffer")]

use doorbell_core::heap::{self, Heap, OutOfMemory, Vec};

/// 64 bytes, so that buffers start on a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// A buffer that only grows.
#[derive(Debug)]
pub(super) struct Buffer<'h> {
    lines: Vec<'h, Line>,
}

impl<'h> Buffer<'h> {
    pub(super) fn new(heap: Heap<'h>) -> Self {
        Self { lines: Vec::new_in(heap) }
    }

    /// Makes room for `count` numbers.
    pub(super) fn grow(&mut self, count: usize) -> Result<(), OutOfMemory> {
        let lines = count.div_ceil(16);
        let missing = lines.saturating_sub(self.lines.len());
        if missing > 0 {
            heap::reserve(&mut self.lines, missing)?;
            self.lines.resize(lines, Line([0.0; 16]));
        }
        Ok(())
    }

    /// The cells, for threads that keep out of each other's way.
    pub(super) fn cells(&mut self) -> Cells {
        Cells { base: self.lines.as_mut_ptr().cast(), len: self.lines.len() * 16 }
    }

    /// The numbers.
    pub(super) fn floats(&self) -> &[f32] {
        // SAFETY: a line is sixteen floats without padding.
        unsafe { core::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * 16) }
    }

    /// The numbers.
    pub(super) fn floats_mut(&mut self) -> &mut [f32] {
        // SAFETY: a line is sixteen floats without padding.
        unsafe { core::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * 16) }
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
