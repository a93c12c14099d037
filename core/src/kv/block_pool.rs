//! The pool of KV pages: reference counts, and a cache of the pages that nobody holds but somebody may want again.
//!
//! Every group has storage of its own under the same page numbers, so one pool serves all groups. A page is free,
//! held by one or more sequences, or cached: held by none, but full, known by its tokens, and in the line of those
//! to be evicted, the least recently held first.

use super::prefix_cache::{PageHash, PrefixCache, PrefixKey};
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::plan::{PAGE_TOKENS, PageId};
use crate::token::TokenId;

/// No page, in the links of the eviction line.
const NONE: u32 = u32::MAX;

#[derive(Clone)]
struct Page {
    ref_count: u32,
    /// Whether the page can be found by its tokens.
    known: bool,
    /// Neighbors in the eviction line, or the next free page.
    previous: u32,
    next: u32,
}

/// The pool.
pub struct BlockPool<'a> {
    pages: Vec<'a, Page>,
    index: PrefixCache<'a>,
    free: u32,
    free_count: u32,
    /// Ends of the eviction line.
    oldest: u32,
    newest: u32,
    cached_count: u32,
}

impl<'a> BlockPool<'a> {
    /// A pool of `count` free pages; nothing is allocated afterwards.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the bookkeeping can't be had.
    pub fn new(count: u32, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        let mut pages = heap::with_capacity(heap, count as usize)?;
        for id in 0..count {
            let next = if id + 1 < count { id + 1 } else { NONE };
            pages.push(Page { ref_count: 0, known: false, previous: NONE, next });
        }
        let free = if count > 0 { 0 } else { NONE };
        let index = PrefixCache::new(count, heap)?;
        Ok(Self { pages, index, free, free_count: count, oldest: NONE, newest: NONE, cached_count: 0 })
    }

    /// Bytes that a pool of `count` pages takes.
    pub fn bytes(count: u32) -> usize {
        (count as usize).saturating_mul(size_of::<Page>()).saturating_add(PrefixCache::bytes(count))
    }

    /// Looks pages up by another hash; results stay the same. For a pool that knows nothing yet.
    pub fn set_hash(&mut self, hash: PageHash) {
        self.index.set_hash(hash);
    }

    /// Pages that can be had: free and cached ones.
    pub fn available(&self) -> u32 {
        self.free_count + self.cached_count
    }

    /// Cached pages.
    pub fn cached(&self) -> u32 {
        self.cached_count
    }

    /// All pages.
    pub fn total(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Sequences that hold a page.
    pub fn ref_count(&self, page: PageId) -> u32 {
        self.pages[page.0 as usize].ref_count
    }

    /// Takes a page whose contents do not matter, evicting the oldest cached one if none is free.
    pub fn allocate(&mut self) -> Option<PageId> {
        let id = if self.free != NONE {
            let id = self.free;
            self.free = self.pages[id as usize].next;
            self.free_count -= 1;
            id
        } else if self.oldest != NONE {
            let id = self.oldest;
            self.unlink(id);
            self.forget(id);
            id
        } else {
            return None;
        };
        self.pages[id as usize].ref_count = 1;
        Some(PageId(id))
    }

    /// Finds the page that follows the chain `parent` with exactly these tokens, holds it, and extends the chain.
    pub fn acquire(
        &mut self,
        parent: Option<PrefixKey>,
        tokens: &[TokenId; PAGE_TOKENS],
    ) -> Option<(PageId, PrefixKey)> {
        let (id, key) = self.index.find(parent, tokens)?;
        if self.pages[id.0 as usize].ref_count == 0 {
            self.unlink(id.0);
        }
        self.pages[id.0 as usize].ref_count += 1;
        Some((id, key))
    }

    /// Makes a held, full and computed page findable after the chain `parent`, and extends the chain. Where the
    /// same content is known already, that page stays the known one.
    pub fn insert(
        &mut self,
        page: PageId,
        parent: Option<PrefixKey>,
        tokens: &[TokenId; PAGE_TOKENS],
    ) -> PrefixKey {
        if let Some((_, key)) = self.index.find(parent, tokens) {
            return key;
        }
        self.pages[page.0 as usize].known = true;
        self.index.insert(page, parent, tokens)
    }

    /// Finds the page that follows the chain `parent` with exactly these tokens, without holding it.
    pub fn find(
        &self,
        parent: Option<PrefixKey>,
        tokens: &[TokenId; PAGE_TOKENS],
    ) -> Option<(PageId, PrefixKey)> {
        self.index.find(parent, tokens)
    }

    /// Makes a page that can be found one that can't; nobody's contents change.
    pub fn evict(&mut self, page: PageId) {
        let id = page.0;
        let Page { ref_count, known, .. } = self.pages[id as usize];
        if !known {
            return;
        }
        self.forget(id);
        if ref_count == 0 {
            self.unlink(id);
            self.give(id);
        }
    }

    /// Gives a page back; known pages become cached, others free. Give tails first: they are then evicted first.
    pub fn release(&mut self, page: PageId) {
        let id = page.0;
        let entry = &mut self.pages[id as usize];
        debug_assert!(entry.ref_count > 0, "a page was released more often than held");
        entry.ref_count -= 1;
        if entry.ref_count > 0 {
            return;
        }
        if entry.known {
            self.link(id);
        } else {
            self.give(id);
        }
    }

    fn forget(&mut self, id: u32) {
        if core::mem::take(&mut self.pages[id as usize].known) {
            self.index.remove(PageId(id));
        }
    }

    fn give(&mut self, id: u32) {
        self.pages[id as usize].next = self.free;
        self.free = id;
        self.free_count += 1;
    }

    /// Appends to the eviction line.
    fn link(&mut self, id: u32) {
        let last = self.newest;
        self.pages[id as usize].previous = last;
        self.pages[id as usize].next = NONE;
        match self.pages.get_mut(last as usize) {
            Some(last) => last.next = id,
            None => self.oldest = id,
        }
        self.newest = id;
        self.cached_count += 1;
    }

    fn unlink(&mut self, id: u32) {
        let Page { previous, next, .. } = self.pages[id as usize];
        match self.pages.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.oldest = next,
        }
        match self.pages.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => self.newest = previous,
        }
        self.cached_count -= 1;
    }
}
