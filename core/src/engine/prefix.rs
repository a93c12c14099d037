//! Prefixes that leave the engine and come back: a host copies pages to a file, or fills pages from one.
//!
//! A host holds the pages of a prefix while it reads them, and allocates pages before it fills them; meanwhile the engine
//! serves its requests. Where the bytes go is the host's business.

use super::engine::Engine;
use crate::backend::{Backend, PageError, PageFormat};
use crate::heap::{OutOfMemory, Vec};
use crate::kv::AllocateError;
use crate::plan::PageId;
use crate::token::TokenId;

impl<'m, B: Backend> Engine<'m, '_, B> {
    /// Layout and size of a page's contents; `None` if the device gives no access to them.
    pub fn page_format(&self) -> Option<PageFormat> {
        self.backend.page_format()
    }

    /// Holds the pages of the longest cached prefix of `tokens` and returns them in order of position. They must be
    /// released.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing is held then.
    pub fn acquire_prefix(&mut self, tokens: &[TokenId]) -> Result<Vec<'m, PageId>, OutOfMemory> {
        self.scheduler.kv_mut().acquire_pages(tokens)
    }

    /// Allocates `needed` pages of undefined contents. They must be inserted or released.
    ///
    /// # Errors
    /// [`AllocateError`]; nothing is allocated then.
    pub fn allocate_pages(&mut self, needed: u32) -> Result<Vec<'m, PageId>, AllocateError> {
        self.scheduler.kv_mut().allocate_pages(needed)
    }

    /// Copies the contents of a held page to `to`.
    ///
    /// # Errors
    /// [`PageError`]
    pub fn read_page(&mut self, page: PageId, to: &mut [u8]) -> Result<(), PageError> {
        self.backend.read_page(page, to)
    }

    /// Fills an allocated page with `from`.
    ///
    /// # Errors
    /// [`PageError`]
    pub fn write_page(&mut self, page: PageId, from: &[u8]) -> Result<(), PageError> {
        self.backend.write_page(page, from)
    }

    /// Adds pages that were allocated and filled to the cache, as those of the prefix `tokens` of whole pages, and
    /// releases them.
    pub fn insert_prefix(&mut self, tokens: &[TokenId], pages: &[PageId]) {
        self.scheduler.kv_mut().insert_pages(tokens, pages);
    }

    /// Releases pages that were acquired or allocated.
    pub fn release_pages(&mut self, pages: &[PageId]) {
        self.scheduler.kv_mut().release_pages(pages);
    }

    /// Removes the pages of a prefix from the cache and returns their number. Requests that use them keep them.
    pub fn evict_prefix(&mut self, tokens: &[TokenId]) -> u32 {
        self.scheduler.kv_mut().evict_prefix(tokens)
    }
}
