//! Short tasks for the engine's thread, which run between two steps and have access to the KV pages.
//!
//! Not here: what the tasks do (`crate::prefix`).

use doorbell_core::backend::{Backend, PageError, PageFormat};
use doorbell_core::engine::{AllocateError, Engine};
use doorbell_core::heap::OutOfMemory;
use doorbell_core::plan::PageId;
use doorbell_core::token::TokenId;

/// A task that runs on the engine's thread; it must be short.
pub(super) type EngineTask = Box<dyn FnOnce(&mut dyn EnginePages) + Send>;

/// The engine's KV pages, for any backend. The methods of the same meaning at [`Engine`] document the details.
pub trait EnginePages {
    /// Format of a page outside of the device; `None` if the backend can't copy pages.
    fn page_format(&self) -> Option<PageFormat>;
    /// Number of tokens in the vocabulary.
    fn vocabulary(&self) -> u32;
    /// Number of all pages.
    fn pages(&self) -> u32;
    /// Holds the pages of the longest cached prefix of `tokens`, so that they are not evicted.
    ///
    /// # Errors
    /// The heap refused.
    fn acquire_prefix(&mut self, tokens: &[TokenId]) -> Result<Vec<PageId>, OutOfMemory>;
    /// Allocates `count` pages.
    ///
    /// # Errors
    /// [`AllocateError`]
    fn allocate_pages(&mut self, count: u32) -> Result<Vec<PageId>, AllocateError>;
    /// Copies a page to host memory.
    ///
    /// # Errors
    /// [`PageError`]
    fn read_page(&mut self, page: PageId, to: &mut [u8]) -> Result<(), PageError>;
    /// Fills a page from host memory.
    ///
    /// # Errors
    /// [`PageError`]
    fn write_page(&mut self, page: PageId, from: &[u8]) -> Result<(), PageError>;
    /// Adds pages to the prefix cache under `tokens`, and releases them.
    fn insert_prefix(&mut self, tokens: &[TokenId], pages: &[PageId]);
    /// Releases pages.
    fn release_pages(&mut self, pages: &[PageId]);
    /// Removes the pages of a prefix from the cache; returns their number.
    fn evict_prefix(&mut self, tokens: &[TokenId]) -> u32;
}

impl<B: Backend> EnginePages for Engine<'_, '_, B> {
    fn page_format(&self) -> Option<PageFormat> {
        Engine::page_format(self)
    }

    fn vocabulary(&self) -> u32 {
        self.model().vocabulary
    }

    fn pages(&self) -> u32 {
        self.kv().total()
    }

    fn acquire_prefix(&mut self, tokens: &[TokenId]) -> Result<Vec<PageId>, OutOfMemory> {
        Ok(Engine::acquire_prefix(self, tokens)?.to_vec())
    }

    fn allocate_pages(&mut self, count: u32) -> Result<Vec<PageId>, AllocateError> {
        Ok(Engine::allocate_pages(self, count)?.to_vec())
    }

    fn read_page(&mut self, page: PageId, to: &mut [u8]) -> Result<(), PageError> {
        Engine::read_page(self, page, to)
    }

    fn write_page(&mut self, page: PageId, from: &[u8]) -> Result<(), PageError> {
        Engine::write_page(self, page, from)
    }

    fn insert_prefix(&mut self, tokens: &[TokenId], pages: &[PageId]) {
        Engine::insert_prefix(self, tokens, pages);
    }

    fn release_pages(&mut self, pages: &[PageId]) {
        Engine::release_pages(self, pages);
    }

    fn evict_prefix(&mut self, tokens: &[TokenId]) -> u32 {
        Engine::evict_prefix(self, tokens)
    }
}
