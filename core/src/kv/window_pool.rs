//! The pages of the groups with one window.
//!
//! A sequence holds only the pages that its next rows see. Computed pages can be found by the page of the first pool
//! that ends the same prefix, as long as that page is in the prefix cache.

use super::page_pool::{PagePool, Use};
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::plan::PageId;

/// The pages for one window.
pub(super) struct WindowPool<'a> {
    pub(super) window: u32,
    pub(super) pages: PagePool<'a>,
    /// `[pages of the first pool]`: the page with the same positions of the same prefix.
    of_prefix: Vec<'a, PageId>,
    /// `[pages]`: the page of the first pool by which it is found.
    prefix_of: Vec<'a, PageId>,
}

impl<'a> WindowPool<'a> {
    /// `count` free pages, beside a first pool of `prefixes` pages.
    pub(super) fn new(window: u32, count: u32, prefixes: u32, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        Ok(Self {
            window,
            pages: PagePool::new(count, heap)?,
            of_prefix: heap::filled(heap, prefixes as usize, PageId::NONE)?,
            prefix_of: heap::filled(heap, count as usize, PageId::NONE)?,
        })
    }

    /// Bytes of heap that such a pool takes.
    pub(super) fn bytes(count: u32, prefixes: u32) -> usize {
        let links = (count as usize).saturating_add(prefixes as usize).saturating_mul(size_of::<PageId>());
        PagePool::bytes(count).saturating_add(links)
    }

    /// Takes a page of undefined contents; if none is free, a cached one is evicted for it.
    pub(super) fn allocate(&mut self) -> Option<PageId> {
        let allocated = self.pages.allocate()?;
        self.unlink(allocated.page);
        Some(allocated.page)
    }

    /// The page that belongs to a prefix.
    pub(super) fn find(&self, prefix: PageId) -> Option<PageId> {
        self.of_prefix.get(prefix.0 as usize).copied().filter(|&page| page != PageId::NONE)
    }

    /// Holds the page that belongs to a prefix.
    pub(super) fn acquire(&mut self, prefix: PageId) -> Option<PageId> {
        let page = self.find(prefix)?;
        self.pages.acquire(page);
        Some(page)
    }

    /// Lets a held and computed page be found by a prefix, unless another one is.
    pub(super) fn insert(&mut self, prefix: PageId, page: PageId) {
        if self.find(prefix).is_some() {
            return;
        }
        let (Some(of_prefix), Some(prefix_of)) =
            (self.of_prefix.get_mut(prefix.0 as usize), self.prefix_of.get_mut(page.0 as usize))
        else {
            return;
        };
        if *prefix_of == PageId::NONE {
            (*of_prefix, *prefix_of) = (page, prefix);
            self.pages.cache(page);
        }
    }

    /// Notes that a prefix is no longer in the prefix cache: its page can't be found any more.
    pub(super) fn forget(&mut self, prefix: PageId) {
        if let Some(page) = self.find(prefix) {
            self.unlink(page);
            self.pages.uncache(page);
        }
    }

    /// Gives up one hold of a page.
    pub(super) fn release(&mut self, page: PageId, usefulness: Use) {
        self.pages.release(page, usefulness);
    }

    /// Removes the links between a page and its prefix.
    fn unlink(&mut self, page: PageId) {
        let Some(prefix) = self.prefix_of.get_mut(page.0 as usize) else { return };
        let prefix = core::mem::replace(prefix, PageId::NONE);
        if let Some(of_prefix) = self.of_prefix.get_mut(prefix.0 as usize) {
            *of_prefix = PageId::NONE;
        }
    }
}
