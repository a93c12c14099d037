//! Pages of one pool: reference counts, free pages, and pages that nobody holds but somebody may look for.
//!
//! A page is in one of three states: free; held by one or more sequences; or cached, which means that no sequence
//! holds it but it can be found. When no page is free, cached pages are evicted: first those that are hardly of use,
//! then the others, in each case the least recently held first. How pages are found is the business of `block_pool` and
//! `window_pool`.

use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::plan::PageId;

/// No page, in the links of the lists.
const NONE: u32 = u32::MAX;

/// Usefulness of a cached page; also the index of its eviction list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Evicted first.
    Little = 0,
    Much = 1,
}

#[derive(Clone)]
struct Page {
    ref_count: u32,
    /// True if the page can be found.
    in_cache: bool,
    /// The list that it is in while it is cached.
    list: Use,
    /// Neighbors in the eviction list, or the next free page.
    previous: u32,
    next: u32,
}

/// Ends of an eviction list.
#[derive(Clone, Copy)]
struct Ends {
    oldest: u32,
    newest: u32,
}

/// The pages of one pool and their states; the contents are the backend's.
pub struct PagePool<'a> {
    pages: Vec<'a, Page>,
    /// First page of the list of free ones.
    free: u32,
    free_count: u32,
    evictable: [Ends; 2],
    cached_count: u32,
}

/// A page that was allocated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allocated {
    pub(super) page: PageId,
    /// True if it could be found until now.
    pub(super) was_cached: bool,
}

impl<'a> PagePool<'a> {
    /// A pool of `count` free pages; nothing is allocated afterwards.
    pub(super) fn new(count: u32, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        let mut pages = heap::with_capacity(heap, count as usize)?;
        for id in 0..count {
            let next = if id + 1 < count { id + 1 } else { NONE };
            pages.push(Page { ref_count: 0, in_cache: false, list: Use::Much, previous: NONE, next });
        }
        let free = if count > 0 { 0 } else { NONE };
        let empty = Ends { oldest: NONE, newest: NONE };
        Ok(Self { pages, free, free_count: count, evictable: [empty; 2], cached_count: 0 })
    }

    /// Bytes of heap that a pool of `count` pages takes.
    pub(super) fn bytes(count: u32) -> usize {
        (count as usize).saturating_mul(size_of::<Page>())
    }

    /// Number of pages that can be allocated: the free and the cached ones.
    pub fn available(&self) -> u32 {
        self.free_count + self.cached_count
    }

    /// Number of cached pages.
    pub fn cached(&self) -> u32 {
        self.cached_count
    }

    /// Number of all pages.
    pub fn total(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Number of holders of a page.
    ///
    /// # Panics
    /// When the pool has no such page.
    pub fn ref_count(&self, page: PageId) -> u32 {
        self.pages[page.0 as usize].ref_count
    }

    /// Takes a page of undefined contents; if none is free, a cached one is evicted for it.
    pub(super) fn allocate(&mut self) -> Option<Allocated> {
        let allocated = if self.free != NONE {
            let id = self.free;
            self.free = self.pages[id as usize].next;
            self.free_count -= 1;
            Allocated { page: PageId(id), was_cached: false }
        } else {
            let oldest = self.evictable.iter().map(|ends| ends.oldest);
            let id = oldest.into_iter().find(|&oldest| oldest != NONE)?;
            self.unlink(id);
            self.pages[id as usize].in_cache = false;
            Allocated { page: PageId(id), was_cached: true }
        };
        self.pages[allocated.page.0 as usize].ref_count = 1;
        Some(allocated)
    }

    /// Holds a page that is held already, or cached.
    pub(super) fn acquire(&mut self, page: PageId) {
        if self.pages[page.0 as usize].ref_count == 0 {
            self.unlink(page.0);
        }
        self.pages[page.0 as usize].ref_count += 1;
    }

    /// Gives up one hold of a page. Without holders it is cached if it can be found, else free.
    pub(super) fn release(&mut self, page: PageId, usefulness: Use) {
        let id = page.0;
        let entry = &mut self.pages[id as usize];
        debug_assert!(entry.ref_count > 0, "a page was released more often than held");
        entry.ref_count -= 1;
        if entry.ref_count > 0 {
            return;
        }
        if entry.in_cache {
            self.link(id, usefulness);
        } else {
            self.push_free(id);
        }
    }

    /// Notes that a held page can be found from now on.
    pub(super) fn cache(&mut self, page: PageId) {
        self.pages[page.0 as usize].in_cache = true;
    }

    /// Notes that a page can't be found any more. Returns false if it could not before.
    pub(super) fn uncache(&mut self, page: PageId) -> bool {
        let id = page.0;
        if !core::mem::take(&mut self.pages[id as usize].in_cache) {
            return false;
        }
        if self.pages[id as usize].ref_count == 0 {
            self.unlink(id);
            self.push_free(id);
        }
        true
    }

    fn push_free(&mut self, id: u32) {
        self.pages[id as usize].next = self.free;
        self.free = id;
        self.free_count += 1;
    }

    /// Appends a page to an eviction list.
    fn link(&mut self, id: u32, list: Use) {
        let last = self.evictable[list as usize].newest;
        let page = &mut self.pages[id as usize];
        (page.previous, page.next, page.list) = (last, NONE, list);
        match self.pages.get_mut(last as usize) {
            Some(last) => last.next = id,
            None => self.evictable[list as usize].oldest = id,
        }
        self.evictable[list as usize].newest = id;
        self.cached_count += 1;
    }

    fn unlink(&mut self, id: u32) {
        let Page { previous, next, list, .. } = self.pages[id as usize];
        let ends = &mut self.evictable[list as usize];
        match self.pages.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => ends.oldest = next,
        }
        match self.pages.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => ends.newest = previous,
        }
        self.cached_count -= 1;
    }
}
