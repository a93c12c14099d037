//! The page tables of one sequence: one per pool, since each pool numbers its own pages.

use super::prefix_cache::PrefixKey;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::plan::{PageId, StateId};

/// The pages of a sequence in one pool.
pub(super) struct PageTable<'a> {
    /// In order of position: page `i` holds the positions from `i * PAGE_TOKENS`.
    pub(super) pages: Vec<'a, PageId>,
    /// Number of leading pages that the prefix cache has.
    pub(super) cached: u32,
    /// Key of the prefix that they form.
    pub(super) key: Option<PrefixKey>,
}

/// The pages of a sequence in all pools, equally many in each.
pub struct SequencePages<'a> {
    /// `[pools]`
    pub(super) tables: Vec<'a, PageTable<'a>>,
    /// The recurrent state while the sequence runs, for models that have one.
    pub(super) state: Option<StateId>,
    /// The prefix of the last checkpoint that the sequence made behind its prompt.
    pub(super) checkpoint: Option<PrefixKey>,
}

impl<'a> SequencePages<'a> {
    /// Empty tables with room for `pages` pages in each of `pools` pools.
    pub(super) fn new(pools: usize, pages: u32, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        let mut tables = heap::with_capacity(heap, pools)?;
        for _ in 0..pools {
            let pages = heap::with_capacity(heap, pages as usize)?;
            tables.push(PageTable { pages, cached: 0, key: None });
        }
        Ok(Self { tables, state: None, checkpoint: None })
    }

    /// Bytes of heap of tables with room for `pages` pages.
    pub(super) fn bytes(pools: usize, pages: u32) -> usize {
        let table = size_of::<PageTable<'_>>().saturating_add(size_of::<PageId>() * pages as usize);
        table.saturating_mul(pools)
    }

    /// Number of pages in each pool.
    pub fn len(&self) -> u32 {
        self.tables.first().map_or(0, |table| table.pages.len() as u32)
    }

    /// The recurrent state, for models that have one, while the sequence runs.
    pub fn state(&self) -> Option<StateId> {
        self.state
    }

    /// True if the sequence holds no pages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `[pools]`: the pages in each pool, in order of position.
    pub(crate) fn each(&self) -> impl Iterator<Item = &[PageId]> {
        self.tables.iter().map(|table| &table.pages[..])
    }

    /// Number of leading pages that the prefix cache has in every pool.
    pub(super) fn cached(&self) -> u32 {
        self.tables.iter().map(|table| table.cached).min().unwrap_or(0)
    }
}
