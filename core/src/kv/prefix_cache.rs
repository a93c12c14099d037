//! The prefix cache of a pool: finds the page that holds given tokens after a given prefix.
//!
//! A page is found by the key of its parent and its own tokens; both are compared, so a collision of hashes costs
//! time but never gives one conversation's keys and values to another. Keys are never reused, so a page whose parent
//! was evicted is never mistaken for a child of the parent's successor.

use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::plan::{PAGE_TOKENS, PageId};
use crate::token::TokenId;
use hashbrown::HashTable;

/// Identifies a prefix: tokens from the start of a sequence, whole pages long. No key is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixKey(u64);

/// A hash of a page's tokens and the key of the prefix before them.
pub type PageHash = fn(Option<PrefixKey>, &[TokenId; PAGE_TOKENS]) -> u64;

#[derive(Clone)]
struct Entry {
    key: PrefixKey,
    parent: Option<PrefixKey>,
    tokens: [TokenId; PAGE_TOKENS],
}

/// The cached pages of a pool, by prefix and tokens.
pub(super) struct PrefixCache<'a> {
    /// `[pages]`, indexed by page; valid for the pages in `table` only.
    entries: Vec<'a, Entry>,
    table: HashTable<PageId, Heap<'a>>,
    hash: PageHash,
    next: u64,
}

/// Mixes the parent's key and the tokens. The hash has no secret: the comparison of tokens makes collisions harmless to
/// correctness, and a caller who provokes them slows down only the lookups of their own prompts.
fn hash(parent: Option<PrefixKey>, tokens: &[TokenId; PAGE_TOKENS]) -> u64 {
    let start = parent.map_or(0x9e37_79b9_7f4a_7c15, |key| key.0.wrapping_mul(0xd6e8_feb8_6659_fd93));
    tokens.iter().fold(start, |hash, token| {
        let mixed = (hash ^ u64::from(token.0)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 29)
    })
}

impl<'a> PrefixCache<'a> {
    pub(super) fn new(pages: u32, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        let count = pages as usize;
        let mut table = HashTable::new_in(heap);
        let hasher = |_: &PageId| 0;
        table.try_reserve(count, hasher).map_err(|_| OutOfMemory { bytes: count.saturating_mul(8) })?;
        let entry = Entry { key: PrefixKey(0), parent: None, tokens: [TokenId(0); PAGE_TOKENS] };
        Ok(Self { entries: heap::filled(heap, count, entry)?, table, hash, next: 1 })
    }

    /// Replaces the hash while the cache is empty.
    pub(super) fn set_hash(&mut self, hash: PageHash) {
        self.hash = hash;
    }

    /// Bytes of heap for a pool of `pages` pages.
    pub(super) fn bytes(pages: u32) -> usize {
        let entries = (pages as usize).saturating_mul(size_of::<Entry>());
        entries.saturating_add(heap::table_bytes::<PageId>(pages as usize))
    }

    pub(super) fn find(
        &self,
        parent: Option<PrefixKey>,
        tokens: &[TokenId; PAGE_TOKENS],
    ) -> Option<(PageId, PrefixKey)> {
        let entries = &self.entries;
        let equal = |page: &PageId| {
            let entry = &entries[page.0 as usize];
            entry.parent == parent && entry.tokens == *tokens
        };
        let page = *self.table.find((self.hash)(parent, tokens), equal)?;
        Some((page, entries[page.0 as usize].key))
    }

    /// Adds a page whose content is not in the cache yet.
    pub(super) fn insert(
        &mut self,
        page: PageId,
        parent: Option<PrefixKey>,
        tokens: &[TokenId; PAGE_TOKENS],
    ) -> PrefixKey {
        let key = PrefixKey(self.next);
        self.next += 1;
        self.entries[page.0 as usize] = Entry { key, parent, tokens: *tokens };
        let (entries, hash) = (&self.entries, self.hash);
        let hasher = |page: &PageId| {
            let entry = &entries[page.0 as usize];
            hash(entry.parent, &entry.tokens)
        };
        // The table has room for every page, so nothing grows.
        self.table.insert_unique(hash(parent, tokens), page, hasher);
        key
    }

    /// True if the cache has the page that ends a prefix. Looks at every page.
    pub(super) fn contains(&self, key: PrefixKey) -> bool {
        self.table.iter().any(|page| self.entries[page.0 as usize].key == key)
    }

    pub(super) fn remove(&mut self, page: PageId) {
        let Entry { parent, tokens, .. } = self.entries[page.0 as usize].clone();
        if let Ok(entry) = self.table.find_entry((self.hash)(parent, &tokens), |&other| other == page) {
            entry.remove();
        }
    }
}
