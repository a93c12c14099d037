//! The pages of the groups that keep all positions, and the prefix cache that finds computed ones by their tokens.

use super::page_pool::{Allocated, PagePool, Use};
use super::prefix_cache::{PageHash, PrefixCache, PrefixKey};
use crate::heap::{Heap, OutOfMemory};
use crate::plan::{PAGE_TOKENS, PageId};
use crate::token::TokenId;

/// The pages of the first pool. Each cached page ends a prefix.
pub(super) struct BlockPool<'a> {
    pub(super) pages: PagePool<'a>,
    prefixes: PrefixCache<'a>,
}

impl<'a> BlockPool<'a> {
    /// A pool of `count` free pages; nothing is allocated afterwards.
    pub(super) fn new(count: u32, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        Ok(Self { pages: PagePool::new(count, heap)?, prefixes: PrefixCache::new(count, heap)? })
    }

    /// Bytes of heap that a pool of `count` pages takes.
    pub(super) fn bytes(count: u32) -> usize {
        PagePool::bytes(count).saturating_add(PrefixCache::bytes(count))
    }

    /// Replaces the hash of the prefix cache; results stay the same. Only for a pool without cached pages.
    pub(super) fn set_hash(&mut self, hash: PageHash) {
        self.prefixes.set_hash(hash);
    }

    /// Takes a page of undefined contents; if none is free, the oldest cached one is evicted for it.
    pub(super) fn allocate(&mut self) -> Option<Allocated> {
        let allocated = self.pages.allocate()?;
        if allocated.was_cached {
            self.prefixes.remove(allocated.page);
        }
        Some(allocated)
    }

    /// The page that holds exactly these tokens after the prefix `parent`. The key is that of the prefix that ends with
    /// the page.
    pub(super) fn find(
        &self,
        parent: Option<PrefixKey>,
        tokens: &[TokenId; PAGE_TOKENS],
    ) -> Option<(PageId, PrefixKey)> {
        self.prefixes.find(parent, tokens)
    }

    /// Adds a held, full and computed page to the prefix cache and returns the page and the key of the prefix that ends
    /// with it. If the cache already has a page with this content, that page stays the one that is found.
    pub(super) fn insert(
        &mut self,
        page: PageId,
        parent: Option<PrefixKey>,
        tokens: &[TokenId; PAGE_TOKENS],
    ) -> (PageId, PrefixKey) {
        if let Some(found) = self.prefixes.find(parent, tokens) {
            return found;
        }
        self.pages.cache(page);
        (page, self.prefixes.insert(page, parent, tokens))
    }

    /// True if the prefix cache has the page that ends a prefix. Looks at every cached page.
    pub(super) fn is_cached(&self, key: PrefixKey) -> bool {
        self.prefixes.contains(key)
    }

    /// Removes a page from the prefix cache; sequences that hold it keep it.
    pub(super) fn evict(&mut self, page: PageId) {
        if self.pages.uncache(page) {
            self.prefixes.remove(page);
        }
    }

    /// Gives up one hold of a page. Release the last pages of a sequence first: they are then evicted first.
    pub(super) fn release(&mut self, page: PageId) {
        self.pages.release(page, Use::Much);
    }
}
