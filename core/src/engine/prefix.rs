//! Prefixes that leave the engine and come back: pages held, taken and known by their tokens.
//!
//! Whoever carries a prefix away holds its pages meanwhile, and whoever brings one takes pages first; in between the
//! engine goes on. Where the bytes go is the host's business.

use super::admit::Engine;
use crate::backend::{Backend, PageError, PageFormat};
use crate::heap::{self, OutOfMemory, Vec};
use crate::plan::{PAGE_TOKENS, PageId};
use crate::token::TokenId;
use core::fmt;

/// Why pages can't be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AllocateError {
    /// Too few are free.
    Short {
        /// Pages that are needed.
        needed: u32,
        /// Pages that can be had now.
        available: u32,
    },
    /// The heap refused.
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
            Self::Short { needed, available } => {
                write!(f, "{needed} pages are needed and {available} are free; try again later")
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AllocateError {}

impl<'m, B: Backend> Engine<'m, '_, B> {
    /// What pages look like outside; `None` where the device keeps them to itself.
    pub fn page_format(&self) -> Option<PageFormat> {
        self.backend.page_format()
    }

    /// Holds the pages of the longest prefix of `tokens` that the cache knows, in order. They must be given back.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing is held then.
    pub fn acquire_prefix(&mut self, tokens: &[TokenId]) -> Result<Vec<'m, PageId>, OutOfMemory> {
        let whole = tokens.as_chunks::<PAGE_TOKENS>().0;
        let mut pages = heap::with_capacity(self.heap, whole.len())?;
        let mut chain = None;
        for tokens in whole {
            let Some((page, key)) = self.pool.acquire(chain, tokens) else { break };
            pages.push(page);
            chain = Some(key);
        }
        Ok(pages)
    }

    /// Takes so many pages, whose contents do not matter. They must be given back.
    ///
    /// # Errors
    /// [`AllocateError`]; nothing is taken then.
    pub fn allocate_pages(&mut self, needed: u32) -> Result<Vec<'m, PageId>, AllocateError> {
        let available = self.pool.available();
        if needed > available {
            return Err(AllocateError::Short { needed, available });
        }
        let mut pages = heap::with_capacity(self.heap, needed as usize)?;
        pages.extend((0..needed).map_while(|_| self.pool.allocate()));
        Ok(pages)
    }

    /// Copies a page that is held.
    ///
    /// # Errors
    /// [`PageError`]
    pub fn read_page(&mut self, page: PageId, to: &mut [u8]) -> Result<(), PageError> {
        self.backend.read_page(page, to)
    }

    /// Fills a page that was taken.
    ///
    /// # Errors
    /// [`PageError`]
    pub fn write_page(&mut self, page: PageId, from: &[u8]) -> Result<(), PageError> {
        self.backend.write_page(page, from)
    }

    /// Makes pages that were taken and filled known as those of a prefix, whole pages long, and gives them back.
    pub fn insert_prefix(&mut self, tokens: &[TokenId], pages: &[PageId]) {
        let mut chain = None;
        for (tokens, &page) in tokens.as_chunks::<PAGE_TOKENS>().0.iter().zip(pages) {
            chain = Some(self.pool.insert(page, chain, tokens));
        }
        self.release_pages(pages);
    }

    /// Gives pages back that were held or taken.
    pub fn release_pages(&mut self, pages: &[PageId]) {
        // tails first, so that they are evicted first
        pages.iter().rev().for_each(|&page| self.pool.release(page));
    }

    /// Makes the pages of a prefix unknown; gives how many. Requests that use them keep them.
    pub fn evict_prefix(&mut self, tokens: &[TokenId]) -> u32 {
        let (mut chain, mut count) = (None, 0);
        for tokens in tokens.as_chunks::<PAGE_TOKENS>().0 {
            let Some((page, key)) = self.pool.find(chain, tokens) else { break };
            self.pool.evict(page);
            chain = Some(key);
            count += 1;
        }
        count
    }
}
