//! The free KV pages. Every group has a pool of its own with the same page numbers, so one list serves all.

use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::plan::PageId;

/// Pages that no sequence holds.
#[derive(Debug)]
pub(super) struct FreePages<'a> {
    free: Vec<'a, PageId>,
    total: usize,
}

impl<'a> FreePages<'a> {
    pub(super) fn new(pages: u32, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        let mut free = heap::with_capacity(heap, pages as usize)?;
        free.extend((0..pages).rev().map(PageId));
        Ok(Self { total: free.len(), free })
    }

    /// Moves `count` pages to the end of `to`, which has room for them; all or none.
    pub(super) fn take(&mut self, count: usize, to: &mut Vec<'_, PageId>) -> bool {
        let Some(rest) = self.free.len().checked_sub(count) else { return false };
        to.extend(self.free.drain(rest..).rev());
        true
    }

    /// Takes back all pages of a sequence.
    pub(super) fn give(&mut self, from: &mut Vec<'_, PageId>) {
        debug_assert!(self.free.len() + from.len() <= self.total, "a page was given back twice");
        self.free.extend(from.drain(..).rev());
    }

    pub(super) fn len(&self) -> usize {
        self.free.len()
    }
}
