//! A pool of KV pages: reference counts, and the computed pages that no sequence holds but a later one can reuse.
//!
//! A page is in one of three states: free; held by one or more sequences; or cached, which means that no sequence
//! holds it but the prefix cache can find it by its tokens. Cached pages are evicted in the order of their release,
//! the least recently held first.

use super::prefix_cache::{PageHash, PrefixCache, PrefixKey};
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::plan::{PAGE_TOKENS, PageId};
use crate::token::TokenId;

/// No page, in the links of the lists.
const NONE: u32 = u32::MAX;

#[derive(Clone)]
struct Page {
    ref_count: u32,
    /// True if the prefix cache can find the page by its tokens.
    in_cache: bool,
    /// Neighbors in the eviction list, or the next free page.
    previous: u32,
    next: u32,
}

/// The pages of one pool and their states; the contents are the backend's.
pub struct BlockPool<'a> {
    pages: Vec<'a, Page>,
    prefixes: PrefixCache<'a>,
    /// First page of the list of free ones.
    free: u32,
    free_count: u32,
    /// Ends of the eviction list.
    oldest: u32,
    newest: u32,
    cached_count: u32,
}

impl<'a> BlockPool<'a> {
    /// A pool of `count` free pages; nothing is allocated afterwards.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the heap has no room for the bookkeeping.
    pub fn new(count: u32, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        let mut pages = heap::with_capacity(heap, count as usize)?;
        for id in 0..count {
            let next = if id + 1 < count { id + 1 } else { NONE };
            pages.push(Page { ref_count: 0, in_cache: false, previous: NONE, next });
        }
        let free = if count > 0 { 0 } else { NONE };
        let prefixes = PrefixCache::new(count, heap)?;
        Ok(Self { pages, prefixes, free, free_count: count, oldest: NONE, newest: NONE, cached_count: 0 })
    }

    /// Bytes of heap that a pool of `count` pages takes.
    pub fn bytes(count: u32) -> usize {
        (count as usize).saturating_mul(size_of::<Page>()).saturating_add(PrefixCache::bytes(count))
    }

    /// Replaces the hash of the prefix cache; results stay the same. Only for a pool without cached pages.
    pub fn set_hash(&mut self, hash: PageHash) {
        self.prefixes.set_hash(hash);
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

    /// Takes a page of undefined contents; if none is free, the oldest cached one is evicted for it.
    pub fn allocate(&mut self) -> Option<PageId> {
        let id = if self.free != NONE {
            let id = self.free;
            self.free = self.pages[id as usize].next;
            self.free_count -= 1;
            id
        } else if self.oldest != NONE {
            let id = self.oldest;
            self.unlink(id);
            self.uncache(id);
            id
        } else {
            return None;
        };
        self.pages[id as usize].ref_count = 1;
        Some(PageId(id))
    }

    /// Finds the page that holds exactly these tokens after the prefix `parent`, and holds it. The key is that of
    /// the prefix that ends with the page.
    pub fn acquire(
        &mut self,
        parent: Option<PrefixKey>,
        tokens: &[TokenId; PAGE_TOKENS],
    ) -> Option<(PageId, PrefixKey)> {
        let (id, key) = self.prefixes.find(parent, tokens)?;
        if self.pages[id.0 as usize].ref_count == 0 {
            self.unlink(id.0);
        }
        self.pages[id.0 as usize].ref_count += 1;
        Some((id, key))
    }

    /// As [`Self::acquire`], without holding the page.
    pub fn find(
        &self,
        parent: Option<PrefixKey>,
        tokens: &[TokenId; PAGE_TOKENS],
    ) -> Option<(PageId, PrefixKey)> {
        self.prefixes.find(parent, tokens)
    }

    /// Adds a held, full and computed page to the prefix cache and returns the key of the prefix that ends with it.
    /// If the cache already has a page with this content, that page stays the one that is found.
    pub fn insert(
        &mut self,
        page: PageId,
        parent: Option<PrefixKey>,
        tokens: &[TokenId; PAGE_TOKENS],
    ) -> PrefixKey {
        if let Some((_, key)) = self.prefixes.find(parent, tokens) {
            return key;
        }
        self.pages[page.0 as usize].in_cache = true;
        self.prefixes.insert(page, parent, tokens)
    }

    /// True if the prefix cache has the page that ends a prefix. Looks at every cached page.
    pub(super) fn is_cached(&self, key: PrefixKey) -> bool {
        self.prefixes.contains(key)
    }

    /// Removes a page from the prefix cache; sequences that hold it keep it.
    pub fn evict(&mut self, page: PageId) {
        let id = page.0;
        let Page { ref_count, in_cache, .. } = self.pages[id as usize];
        if !in_cache {
            return;
        }
        self.uncache(id);
        if ref_count == 0 {
            self.unlink(id);
            self.push_free(id);
        }
    }

    /// Gives up one hold of a page. Without holders it is cached if the prefix cache has it, else free. Release the
    /// last pages of a sequence first: they are then evicted first.
    pub fn release(&mut self, page: PageId) {
        let id = page.0;
        let entry = &mut self.pages[id as usize];
        debug_assert!(entry.ref_count > 0, "a page was released more often than held");
        entry.ref_count -= 1;
        if entry.ref_count > 0 {
            return;
        }
        if entry.in_cache {
            self.link(id);
        } else {
            self.push_free(id);
        }
    }

    fn uncache(&mut self, id: u32) {
        if core::mem::take(&mut self.pages[id as usize].in_cache) {
            self.prefixes.remove(PageId(id));
        }
    }

    fn push_free(&mut self, id: u32) {
        self.pages[id as usize].next = self.free;
        self.free = id;
        self.free_count += 1;
    }

    /// Appends a page to the eviction list.
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
