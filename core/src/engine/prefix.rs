//! Prefixes that leave the engine and come back: a host copies their parts to a file, or fills parts from one.
//!
//! A host holds the parts of a prefix while it reads them, and allocates parts before it fills them; meanwhile the engine
//! serves its requests. Where the bytes go is the host's business.

use super::engine::Engine;
use crate::backend::{Backend, PageError, PageFormat};
use crate::heap::OutOfMemory;
use crate::kv::{AllocateError, KvPart, PrefixParts};
use crate::token::TokenId;

impl<'m, B: Backend> Engine<'m, '_, B> {
    /// Layout and sizes of the contents of pages and states; `None` if the device gives no access to them.
    pub fn page_format(&self) -> Option<PageFormat> {
        self.backend.page_format()
    }

    /// Bytes of a part; 0 if the device gives no access to it.
    pub fn part_bytes(&self, part: KvPart) -> usize {
        let Some(format) = self.backend.page_format() else { return 0 };
        match part {
            KvPart::Page { pool, .. } => self.page_bytes(&format, pool.into()),
            KvPart::State(_) => format.state,
        }
    }

    fn page_bytes(&self, format: &PageFormat, pool: usize) -> usize {
        self.kv().pools().groups_of(pool).map(|group| format.page(group)).sum()
    }

    /// Number of parts of a prefix of `pages` pages, and the bytes of all of them; `None` if the device gives no access to
    /// them, or on overflow.
    pub fn prefix_bytes(&self, pages: u32) -> Option<(u64, u64)> {
        let format = self.backend.page_format()?;
        let is_state = self.kv().states().is_some() && pages > 0;
        let mut sum = if is_state { (1_u64, format.state as u64) } else { (0, 0) };
        for (pool, count) in self.kv().part_counts(pages) {
            let bytes = (self.page_bytes(&format, pool) as u64).checked_mul(count.into())?;
            sum = (sum.0.checked_add(count.into())?, sum.1.checked_add(bytes)?);
        }
        Some(sum)
    }

    /// Holds the parts of the longest cached prefix of `tokens` behind which a sequence can go on. They must be released.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing is held then.
    pub fn acquire_prefix(&mut self, tokens: &[TokenId]) -> Result<PrefixParts<'m>, OutOfMemory> {
        self.scheduler.kv_mut().acquire_parts(tokens)
    }

    /// Allocates the parts of a prefix of `pages` pages, with undefined contents. They must be inserted or released.
    ///
    /// # Errors
    /// [`AllocateError`]; nothing is allocated then.
    pub fn allocate_prefix(&mut self, pages: u32) -> Result<PrefixParts<'m>, AllocateError> {
        self.scheduler.kv_mut().allocate_parts(pages)
    }

    /// Copies the contents of a held part to `to`.
    ///
    /// # Errors
    /// [`PageError`]
    pub fn read_part(&mut self, part: KvPart, mut to: &mut [u8]) -> Result<(), PageError> {
        let format = self.check_part(part, to.len())?;
        let (pool, page) = match part {
            KvPart::State(state) => return self.backend.read_state(state, to),
            KvPart::Page { pool, page } => (pool, page),
        };
        let pools = *self.kv().pools();
        for group in pools.groups_of(pool.into()) {
            let (own, rest) = to.split_at_mut(format.page(group));
            self.backend.read_page(group, page, own)?;
            to = rest;
        }
        Ok(())
    }

    /// Fills an allocated part with `from`.
    ///
    /// # Errors
    /// [`PageError`]
    pub fn write_part(&mut self, part: KvPart, mut from: &[u8]) -> Result<(), PageError> {
        let format = self.check_part(part, from.len())?;
        let (pool, page) = match part {
            KvPart::State(state) => return self.backend.write_state(state, from),
            KvPart::Page { pool, page } => (pool, page),
        };
        let pools = *self.kv().pools();
        for group in pools.groups_of(pool.into()) {
            let (own, rest) = from.split_at(format.page(group));
            self.backend.write_page(group, page, own)?;
            from = rest;
        }
        Ok(())
    }

    fn check_part(&self, part: KvPart, found: usize) -> Result<PageFormat, PageError> {
        let format = self.backend.page_format().ok_or(PageError::Unsupported)?;
        let expected = self.part_bytes(part);
        if found == expected { Ok(format) } else { Err(PageError::Length { expected, found }) }
    }

    /// Adds parts that were allocated and filled to the cache, as those of the prefix `tokens` of whole pages, and
    /// releases them.
    pub fn insert_prefix(&mut self, tokens: &[TokenId], parts: &[KvPart]) {
        self.scheduler.kv_mut().insert_parts(tokens, parts);
    }

    /// Releases parts that were acquired or allocated.
    pub fn release_prefix(&mut self, parts: &[KvPart]) {
        self.scheduler.kv_mut().release_parts(parts);
    }

    /// Removes the pages of a prefix from the cache and returns their number. Requests that use them keep them.
    pub fn evict_prefix(&mut self, tokens: &[TokenId]) -> u32 {
        self.scheduler.kv_mut().evict_prefix(tokens)
    }
}
