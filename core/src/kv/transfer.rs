//! Prefixes that leave the engine and come back: the parts of a prefix that a host holds while it copies their contents.
//!
//! The parts of a prefix are what a sequence needs to go on behind it: the pages of the first pool, of each window those
//! that the next row sees, and for models with recurrent layers a state. Where the bytes go is the host's business.

use super::manager::KvManager;
use super::page_pool::Use;
use crate::heap::{self, OutOfMemory, Vec};
use crate::plan::{PAGE_TOKENS, PageId, StateId, first_page};
use crate::token::TokenId;
use core::fmt;

/// A part of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum KvPart {
    /// A page of a pool.
    Page {
        /// Index of the pool.
        pool: u8,
        /// The page.
        page: PageId,
    },
    /// A recurrent state.
    State(StateId),
}

/// A prefix of whole pages, and its parts: for each pool the pages in order of position, then the state.
#[derive(Debug)]
pub struct PrefixParts<'a> {
    /// Number of its pages.
    pub pages: u32,
    /// Its parts.
    pub parts: Vec<'a, KvPart>,
}

/// Parts that can't be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AllocateError {
    /// Too few pages are available.
    TooFew {
        /// Pages asked for.
        needed: u32,
        /// Pages that are free or cached now.
        available: u32,
    },
    /// All recurrent states are in use.
    NoState,
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
            Self::NoState => f.write_str("all recurrent states are in use; try again later"),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AllocateError {}

impl<'a> KvManager<'a> {
    /// Holds the parts of the longest cached prefix of `tokens` behind which a sequence can go on.
    pub(crate) fn acquire_parts(&mut self, tokens: &[TokenId]) -> Result<PrefixParts<'a>, OutOfMemory> {
        let prefix = self.cached_prefix(tokens, u32::MAX);
        let mut parts = heap::with_capacity(self.heap, self.count_parts(prefix.pages))?;
        let mut parent = None;
        for tokens in tokens.as_chunks::<PAGE_TOKENS>().0.iter().take(prefix.pages as usize) {
            let Some((page, key)) = self.full.find(parent, tokens) else { break };
            self.full.pages.acquire(page);
            parts.push(KvPart::Page { pool: 0, page });
            parent = Some(key);
        }
        for index in 0..self.windows.len() {
            for at in self.first_of(index, prefix.pages)..prefix.pages {
                let KvPart::Page { page: id, .. } = parts[at as usize] else { continue };
                let page = self.windows[index].acquire(id);
                parts.extend(page.map(|page| KvPart::Page { pool: index as u8 + 1, page }));
            }
        }
        if let Some((states, key)) = self.states.as_mut().zip(prefix.key)
            && let Some(state) = states.find(key)
        {
            states.hold(state);
            parts.push(KvPart::State(state));
        }
        Ok(PrefixParts { pages: prefix.pages, parts })
    }

    /// Allocates the parts of a prefix of `pages` pages, with undefined contents.
    pub(crate) fn allocate_parts(&mut self, pages: u32) -> Result<PrefixParts<'a>, AllocateError> {
        let needed = |pool: usize| if pool == 0 { pages } else { pages - self.first_of(pool - 1, pages) };
        let available = |pool: usize| match pool.checked_sub(1) {
            None => self.available(),
            Some(index) => self.windows[index].pages.available(),
        };
        let pools = 0..=self.windows.len();
        if let Some(pool) = pools.clone().find(|&pool| needed(pool) > available(pool)) {
            return Err(AllocateError::TooFew { needed: needed(pool), available: available(pool) });
        }
        let mut parts = heap::with_capacity(self.heap, self.count_parts(pages))?;
        if let Some(states) = self.states.as_mut().filter(|_| pages > 0) {
            let state = states.allocate(&|key| self.full.is_cached(key)).ok_or(AllocateError::NoState)?;
            parts.push(KvPart::State(state));
        }
        for pool in pools {
            let first = if pool == 0 { 0 } else { self.first_of(pool - 1, pages) };
            for _ in first..pages {
                let page = match pool.checked_sub(1) {
                    None => self.allocate_full(),
                    Some(index) => self.windows[index].allocate(),
                };
                parts.extend(page.map(|page| KvPart::Page { pool: pool as u8, page }));
            }
        }
        // in the order of `acquire_parts`
        if matches!(parts.first(), Some(KvPart::State(_))) {
            parts.rotate_left(1);
        }
        Ok(PrefixParts { pages, parts })
    }

    /// Adds allocated parts to the prefix cache as those of the prefix `tokens`, and releases them.
    pub(crate) fn insert_parts(&mut self, tokens: &[TokenId], parts: &[KvPart]) {
        let earlier = self.cached_prefix(tokens, u32::MAX).pages;
        let full = tokens.as_chunks::<PAGE_TOKENS>().0;
        let pages = |pool: usize| {
            parts.iter().filter_map(move |part| match part {
                KvPart::Page { pool: of, page } if usize::from(*of) == pool => Some(*page),
                _ => None,
            })
        };
        let mut prefixes = None;
        for (tokens, page) in full.iter().zip(pages(0)) {
            let parent = prefixes.map(|(_, key)| key);
            prefixes = Some(self.full.insert(page, parent, tokens));
        }
        let key = prefixes.map(|(_, key)| key);
        let count = full.len() as u32;
        for index in 0..self.windows.len() {
            let first = self.first_of(index, count);
            let (mut parent, mut own) = (None, pages(index + 1));
            for (at, tokens) in (0..).zip(full) {
                let Some((prefix, key)) = self.full.find(parent, tokens) else { break };
                parent = Some(key);
                let page = if at < first { None } else { own.next() };
                page.into_iter().for_each(|page| self.windows[index].insert(prefix, page));
            }
        }
        let state =
            parts.iter().find_map(|part| if let KvPart::State(state) = part { Some(*state) } else { None });
        if let Some(((states, state), key)) = self.states.as_mut().zip(state).zip(key) {
            states.insert(state, key, count.saturating_sub(earlier));
        }
        self.release_pages(parts);
    }

    /// Releases parts that were acquired or allocated, the last pages first.
    pub(crate) fn release_parts(&mut self, parts: &[KvPart]) {
        for part in parts {
            if let (KvPart::State(state), Some(states)) = (part, self.states.as_mut()) {
                states.give_up(*state);
            }
        }
        self.release_pages(parts);
    }

    fn release_pages(&mut self, parts: &[KvPart]) {
        for part in parts.iter().rev() {
            let KvPart::Page { pool, page } = *part else { continue };
            match usize::from(pool).checked_sub(1) {
                None => self.full.release(page),
                Some(index) => {
                    let window = self.windows.get_mut(index);
                    window.into_iter().for_each(|window| window.release(page, Use::Much));
                }
            }
        }
    }

    /// Removes the pages of a prefix from the cache and returns their number. Sequences that hold them keep them.
    pub(crate) fn evict_prefix(&mut self, tokens: &[TokenId]) -> u32 {
        let (mut parent, mut count) = (None, 0);
        for tokens in tokens.as_chunks::<PAGE_TOKENS>().0 {
            let Some((page, key)) = self.full.find(parent, tokens) else { break };
            self.full.evict(page);
            self.windows.iter_mut().for_each(|pool| pool.forget(page));
            parent = Some(key);
            count += 1;
        }
        count
    }

    /// The numbers of pages of a prefix of `pages` pages in each pool, and 1 if there is a state.
    pub(crate) fn part_counts(&self, pages: u32) -> impl Iterator<Item = (usize, u32)> {
        let windows =
            (0..self.windows.len()).map(move |index| (index + 1, pages - self.first_of(index, pages)));
        core::iter::once((0, pages)).chain(windows)
    }

    fn count_parts(&self, pages: u32) -> usize {
        let counts = self.part_counts(pages).map(|(_, count)| count as usize);
        counts.fold(1, usize::saturating_add)
    }

    /// The first page of a prefix of `pages` pages that is in the pool of a window.
    fn first_of(&self, window: usize, pages: u32) -> u32 {
        let window = self.windows.get(window).map(|pool| pool.window);
        first_page(window, pages.saturating_mul(PAGE_TOKENS as u32)).min(pages)
    }
}
