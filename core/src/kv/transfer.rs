//! Prefixes that leave the engine and come back: page lists that a host holds while it copies their contents.
//!
//! A page number stands for the pages of all groups here, so these functions are for models whose groups share one pool,
//! which is the first. Where the bytes go is the host's business.

use super::manager::KvManager;
use crate::heap::{self, OutOfMemory, Vec};
use crate::plan::{PAGE_TOKENS, PageId};
use crate::token::TokenId;
use core::fmt;

/// Pages that can't be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AllocateError {
    /// Too few are available.
    TooFew {
        /// Pages asked for.
        needed: u32,
        /// Pages that are free or cached now.
        available: u32,
    },
    /// The heap has no room for the list.
    Memory(OutOfMemory),
}

impl From<OutOfMemory> for AllocateError {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for AllocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew { needed, available } => {
                write!(f, "{needed} pages are needed and {available} are free; try again later")
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AllocateError {}

impl<'a> KvManager<'a> {
    /// Holds the pages of the longest cached prefix of `tokens` and returns them in order of position.
    pub(crate) fn acquire_pages(&mut self, tokens: &[TokenId]) -> Result<Vec<'a, PageId>, OutOfMemory> {
        let full = tokens.as_chunks::<PAGE_TOKENS>().0;
        let mut pages = heap::with_capacity(self.heap, full.len())?;
        let Some(pool) = self.pools.first_mut() else { return Ok(pages) };
        let mut parent = None;
        for tokens in full {
            let Some((page, key)) = pool.acquire(parent, tokens) else { break };
            pages.push(page);
            parent = Some(key);
        }
        Ok(pages)
    }

    /// Allocates `needed` pages of undefined contents.
    pub(crate) fn allocate_pages(&mut self, needed: u32) -> Result<Vec<'a, PageId>, AllocateError> {
        let available = self.available();
        if needed > available {
            return Err(AllocateError::TooFew { needed, available });
        }
        let mut pages = heap::with_capacity(self.heap, needed as usize)?;
        let Some(pool) = self.pools.first_mut() else { return Ok(pages) };
        pages.extend((0..needed).map_while(|_| pool.allocate()));
        Ok(pages)
    }

    /// Adds allocated pages to the prefix cache as those of the prefix `tokens`, and releases them.
    pub(crate) fn insert_pages(&mut self, tokens: &[TokenId], pages: &[PageId]) {
        let Some(pool) = self.pools.first_mut() else { return };
        let mut parent = None;
        for (tokens, &page) in tokens.as_chunks::<PAGE_TOKENS>().0.iter().zip(pages) {
            parent = Some(pool.insert(page, parent, tokens));
        }
        self.release_pages(pages);
    }

    /// Releases pages of one prefix, the last ones first.
    pub(crate) fn release_pages(&mut self, pages: &[PageId]) {
        let Some(pool) = self.pools.first_mut() else { return };
        pages.iter().rev().for_each(|&page| pool.release(page));
    }

    /// Removes the pages of a prefix from the cache and returns their number. Sequences that hold them keep them.
    pub(crate) fn evict_prefix(&mut self, tokens: &[TokenId]) -> u32 {
        let Some(pool) = self.pools.first_mut() else { return 0 };
        let (mut parent, mut count) = (None, 0);
        for tokens in tokens.as_chunks::<PAGE_TOKENS>().0 {
            let Some((page, key)) = pool.find(parent, tokens) else { break };
            pool.evict(page);
            parent = Some(key);
            count += 1;
        }
        count
    }
}
