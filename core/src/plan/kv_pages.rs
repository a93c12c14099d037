//! Numbers of KV pages: of each group, and of the longest page table.

use super::id::GroupId;

/// Tokens per KV page.
pub const PAGE_TOKENS: usize = 32;

/// Number of pages that hold `tokens` tokens.
pub const fn pages_of(tokens: u32) -> u32 {
    tokens.div_ceil(PAGE_TOKENS as u32)
}

/// Most KV groups of a model; batches have one page table per sequence and group.
pub const MAX_GROUPS: usize = 8;

/// The KV pages that a backend keeps for each group of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct KvPages {
    groups: [u32; MAX_GROUPS],
    table: u32,
}

impl KvPages {
    /// `groups` are the pages of each group, `table` the entries of the longest page table: a group with a window needs
    /// fewer pages than a sequence has entries.
    pub fn new(table: u32, groups: impl Iterator<Item = u32>) -> Self {
        let mut all = [0; MAX_GROUPS];
        all.iter_mut().zip(groups).for_each(|(to, pages)| *to = pages);
        Self { groups: all, table }
    }

    /// Pages of a group.
    pub fn of(&self, group: GroupId) -> u32 {
        self.groups.get(group.index()).copied().unwrap_or(0)
    }

    /// Entries of the longest page table.
    pub const fn table(&self) -> u32 {
        self.table
    }

    /// Most positions of a sequence.
    pub const fn positions(&self) -> u32 {
        self.table.saturating_mul(PAGE_TOKENS as u32)
    }
}

impl From<u32> for KvPages {
    /// As many pages for each group as the longest table has entries: no group needs more.
    fn from(pages: u32) -> Self {
        Self { groups: [pages; MAX_GROUPS], table: pages }
    }
}

/// Index of the first page that a row at `position` sees; 0 without a window.
pub const fn first_page(window: Option<u32>, position: u32) -> u32 {
    match window {
        Some(window) => position.saturating_add(1).saturating_sub(window) / PAGE_TOKENS as u32,
        None => 0,
    }
}
