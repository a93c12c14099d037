//! The page tables of one sequence: one per pool, since each pool numbers its own pages.

use super::pools::KvPools;
use super::prefix_cache::PrefixKey;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::plan::{PageId, StateId};

/// The pages of a sequence in the first pool.
pub(super) struct FullTable<'a> {
    /// In order of position: page `i` holds the positions from `i * PAGE_TOKENS`.
    pub(super) pages: Vec<'a, PageId>,
    /// Number of leading pages that the prefix cache has.
    pub(super) cached: u32,
    /// Key of the prefix that they form.
    pub(super) key: Option<PrefixKey>,
}

/// The pages of a sequence in the pool of a window.
pub(super) struct WindowTable<'a> {
    /// In order of position; [`PageId::NONE`] before the window.
    pub(super) pages: Vec<'a, PageId>,
    /// Number of leading entries without a page.
    pub(super) first: u32,
}

/// The pages of a sequence in all pools.
pub struct SequencePages<'a> {
    pub(super) full: FullTable<'a>,
    /// `[windows]`: no longer than the first, and shorter where rows to come have no pages yet.
    pub(super) windows: Vec<'a, WindowTable<'a>>,
    /// The recurrent state while the sequence runs, for models that have one.
    pub(super) state: Option<StateId>,
    /// The prefix of the last checkpoint that the sequence made behind its prompt.
    pub(super) checkpoint: Option<PrefixKey>,
    /// Pages before the last checkpoint that stays.
    pub(super) checkpoint_pages: u32,
    /// Pages between the checkpoint that it began behind and the one before that.
    pub(super) saved_pages: u32,
    /// Pages that others had computed when it began, whether or not it could go on behind them.
    pub(super) shared_pages: u32,
}

impl<'a> SequencePages<'a> {
    /// Empty tables with room for `pages` pages in each pool.
    pub(super) fn new(pools: &KvPools, pages: u32, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        let full = FullTable { pages: heap::with_capacity(heap, pages as usize)?, cached: 0, key: None };
        let mut windows = heap::with_capacity(heap, pools.windows().len())?;
        for _ in pools.windows() {
            windows.push(WindowTable { pages: heap::with_capacity(heap, pages as usize)?, first: 0 });
        }
        Ok(Self {
            full,
            windows,
            state: None,
            checkpoint: None,
            checkpoint_pages: 0,
            saved_pages: 0,
            shared_pages: 0,
        })
    }

    /// Bytes of heap of tables with room for `pages` pages.
    pub(super) fn bytes(pools: &KvPools, pages: u32) -> usize {
        let table = size_of::<PageId>().saturating_mul(pages as usize);
        let windows = table.saturating_add(size_of::<WindowTable<'_>>());
        windows.saturating_mul(pools.windows().len()).saturating_add(table)
    }

    /// Number of pages in the first pool.
    pub fn len(&self) -> u32 {
        self.full.pages.len() as u32
    }

    /// The recurrent state, for models that have one, while the sequence runs.
    pub fn state(&self) -> Option<StateId> {
        self.state
    }

    /// Number of leading pages that others had computed when the sequence began.
    pub(crate) fn shared(&self) -> u32 {
        self.shared_pages
    }

    /// True if the sequence holds no pages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `[pools]`: the table of each pool.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &[PageId]> {
        core::iter::once(&self.full.pages[..]).chain(self.windows.iter().map(|table| &table.pages[..]))
    }

    /// Number of leading pages whose rows can be computed: those that the sequence has in every pool.
    pub(super) fn ready(&self) -> u32 {
        self.windows.iter().map(|table| table.pages.len() as u32).min().unwrap_or(self.len())
    }
}
