//! The pools that the KV groups of a model have: groups whose pages live equally long share one.
//!
//! Groups without a window keep the pages of all positions and share the first pool. Groups with equal windows share a
//! pool for this window, which is much smaller than the first in long contexts. The same page number stands for the
//! pages of all groups of a pool.

use crate::plan::{GroupId, KvPages, MAX_GROUPS};

/// A pool for groups with a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WindowPages {
    /// Positions visible.
    pub window: u32,
    /// Pages of the pool.
    pub pages: u32,
}

/// The pools of a model, and which of them each group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct KvPools {
    pages: u32,
    windows: [WindowPages; MAX_GROUPS],
    window_count: usize,
    /// `[groups]`: 0 is the first pool, others those of `windows`.
    pool_of: [u8; MAX_GROUPS],
    groups: usize,
}

impl KvPools {
    /// One pool of `pages` pages for all of `groups` groups.
    pub fn shared(groups: usize, pages: u32) -> Self {
        Self::new(pages, core::iter::repeat_n(None, groups), |_| pages)
    }

    /// Pools for groups with these windows: `pages` pages in the first, and `window_pages` of a window in that for it. The
    /// first pool exists even if no group has it: its pages stand for the prefixes in the cache.
    pub fn new(
        pages: u32,
        windows: impl Iterator<Item = Option<u32>>,
        window_pages: impl Fn(u32) -> u32,
    ) -> Self {
        let mut pools = Self {
            pages,
            windows: [WindowPages::default(); MAX_GROUPS],
            window_count: 0,
            pool_of: [0; MAX_GROUPS],
            groups: 0,
        };
        for (pool_of, window) in pools.pool_of.iter_mut().zip(windows) {
            pools.groups += 1;
            let Some(window) = window else { continue };
            let known = &pools.windows[..pools.window_count];
            let index = known.iter().position(|known| known.window == window).unwrap_or(known.len());
            if index == pools.window_count {
                pools.windows[index] = WindowPages { window, pages: window_pages(window) };
                pools.window_count += 1;
            }
            // There are at most as many windows as groups.
            *pool_of = index as u8 + 1;
        }
        pools
    }

    /// Number of pools.
    pub const fn count(&self) -> usize {
        self.window_count + 1
    }

    /// Pages of the first pool.
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// The pools for groups with a window, from the second pool on.
    pub fn windows(&self) -> &[WindowPages] {
        &self.windows[..self.window_count]
    }

    /// Index of a group's pool; the first for a group that the model does not have.
    pub fn pool_of(&self, group: GroupId) -> usize {
        self.pool_of.get(group.index()).map_or(0, |&index| index.into())
    }

    /// The groups of a pool.
    pub fn groups_of(&self, pool: usize) -> impl Iterator<Item = GroupId> {
        let groups = (0..).map(GroupId).zip(self.pool_of).take(self.groups);
        groups.filter_map(move |(group, index)| (usize::from(index) == pool).then_some(group))
    }

    /// Pages of a pool.
    pub fn pages_of(&self, pool: usize) -> u32 {
        match pool.checked_sub(1) {
            None => self.pages,
            Some(index) => self.windows().get(index).map_or(0, |pool| pool.pages),
        }
    }

    /// The pages that a backend has to keep for sequences of `table` pages.
    pub fn kv_pages(&self, table: u32) -> KvPages {
        let groups = (0..).map(GroupId).take(self.groups);
        KvPages::new(table, groups.map(|group| self.pages_of(self.pool_of(group))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_with_equal_windows_share_a_pool() {
        let windows = [Some(512), None, Some(64), Some(512)];
        let pools = KvPools::new(100, windows.into_iter(), |window| window / 32 + 1);
        assert_eq!(pools.count(), 3);
        let expected = [WindowPages { window: 512, pages: 17 }, WindowPages { window: 64, pages: 3 }];
        assert_eq!(pools.windows(), expected);
        assert_eq!([0, 1, 2, 3].map(|group| pools.pool_of(GroupId(group))), [1, 0, 2, 1]);
        assert!(pools.groups_of(1).eq([GroupId(0), GroupId(3)]));
        let pages = pools.kv_pages(50);
        assert_eq!([0, 1, 2, 3].map(|group| pages.of(GroupId(group))), [17, 100, 3, 17]);
        assert_eq!((pages.of(GroupId(4)), pages.table()), (0, 50));
    }

    #[test]
    fn without_a_group_there_is_still_the_first_pool() {
        let pools = KvPools::shared(0, 7);
        assert_eq!((pools.count(), pools.pages_of(0), pools.pages_of(1)), (1, 7, 0));
        assert_eq!(pools.groups_of(0).count(), 0);
    }
}
