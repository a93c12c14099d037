//! Errands to the engine's thread that carry keys and values: short ones, between steps.

use doorbell_core::backend::{Backend, PageError, PageFormat};
use doorbell_core::engine::{AllocateError, Engine};
use doorbell_core::heap::OutOfMemory;
use doorbell_core::plan::PageId;
use doorbell_core::token::TokenId;

/// Something to be done on the engine's thread; must be short.
pub(super) type Errand = Box<dyn FnOnce(&mut dyn Store) + Send>;

/// The engine's pages, whatever its backend. What is said of each of these at [`Engine`] holds here.
pub trait Store {
    /// What pages look like outside.
    fn form(&self) -> Option<PageFormat>;
    /// Tokens in the vocabulary.
    fn vocabulary(&self) -> u32;
    /// Pages in all.
    fn pages(&self) -> u32;
    /// Holds the pages of the longest known prefix.
    ///
    /// # Errors
    /// The heap refused.
    fn hold(&mut self, tokens: &[TokenId]) -> Result<Vec<PageId>, OutOfMemory>;
    /// Takes pages.
    ///
    /// # Errors
    /// [`AllocateError`]
    fn take(&mut self, count: u32) -> Result<Vec<PageId>, AllocateError>;
    /// Copies a page.
    ///
    /// # Errors
    /// [`PageError`]
    fn read(&mut self, page: PageId, to: &mut [u8]) -> Result<(), PageError>;
    /// Fills a page.
    ///
    /// # Errors
    /// [`PageError`]
    fn write(&mut self, page: PageId, from: &[u8]) -> Result<(), PageError>;
    /// Makes pages known and gives them back.
    fn adopt(&mut self, tokens: &[TokenId], pages: &[PageId]);
    /// Gives pages back.
    fn give(&mut self, pages: &[PageId]);
    /// Makes the pages of a prefix unknown; gives how many.
    fn forget(&mut self, tokens: &[TokenId]) -> u32;
}

impl<B: Backend> Store for Engine<'_, '_, B> {
    fn form(&self) -> Option<PageFormat> {
        self.page_format()
    }

    fn vocabulary(&self) -> u32 {
        self.model().vocabulary
    }

    fn pages(&self) -> u32 {
        self.pool().total()
    }

    fn hold(&mut self, tokens: &[TokenId]) -> Result<Vec<PageId>, OutOfMemory> {
        Ok(self.acquire_prefix(tokens)?.to_vec())
    }

    fn take(&mut self, count: u32) -> Result<Vec<PageId>, AllocateError> {
        Ok(self.allocate_pages(count)?.to_vec())
    }

    fn read(&mut self, page: PageId, to: &mut [u8]) -> Result<(), PageError> {
        self.read_page(page, to)
    }

    fn write(&mut self, page: PageId, from: &[u8]) -> Result<(), PageError> {
        self.write_page(page, from)
    }

    fn adopt(&mut self, tokens: &[TokenId], pages: &[PageId]) {
        self.insert_prefix(tokens, pages);
    }

    fn give(&mut self, pages: &[PageId]) {
        self.release_pages(pages);
    }

    fn forget(&mut self, tokens: &[TokenId]) -> u32 {
        self.evict_prefix(tokens)
    }
}
