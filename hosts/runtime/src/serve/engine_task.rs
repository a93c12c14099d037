//! Short tasks for the engine's thread, which run between two steps and have access to the KV pages.
//!
//! Not here: what the tasks do (`crate::prefix`).

use doorbell_core::backend::{Backend, PageError, PageFormat};
use doorbell_core::engine::{AllocateError, Engine, KvPart};
use doorbell_core::heap::OutOfMemory;
use doorbell_core::token::TokenId;

/// A task that runs on the engine's thread; it must be short.
pub(super) type EngineTask = Box<dyn FnOnce(&mut dyn EnginePages) + Send>;

/// The engine's cached prefixes, for any backend. The methods of the same meaning at [`Engine`] document the details.
pub trait EnginePages {
    /// Format of pages and states outside of the device; `None` if the backend can't copy them.
    fn page_format(&self) -> Option<PageFormat>;
    /// Number of tokens in the vocabulary.
    fn vocabulary(&self) -> u32;
    /// Number of pages that the longest prefix may have.
    fn pages(&self) -> u32;
    /// Number of parts of a prefix of `pages` pages, and the bytes of all of them; `None` if the backend can't copy them.
    fn prefix_bytes(&self, pages: u32) -> Option<(u64, u64)>;
    /// Bytes of a part.
    fn part_bytes(&self, part: KvPart) -> usize;
    /// Holds the parts of the longest cached prefix of `tokens`, so that they are not evicted. Returns its pages and them.
    ///
    /// # Errors
    /// The heap refused.
    fn acquire_prefix(&mut self, tokens: &[TokenId]) -> Result<(u32, Vec<KvPart>), OutOfMemory>;
    /// Allocates the parts of a prefix of `pages` pages.
    ///
    /// # Errors
    /// [`AllocateError`]
    fn allocate_prefix(&mut self, pages: u32) -> Result<Vec<KvPart>, AllocateError>;
    /// Copies a part to host memory.
    ///
    /// # Errors
    /// [`PageError`]
    fn read_part(&mut self, part: KvPart, to: &mut [u8]) -> Result<(), PageError>;
    /// Fills a part from host memory.
    ///
    /// # Errors
    /// [`PageError`]
    fn write_part(&mut self, part: KvPart, from: &[u8]) -> Result<(), PageError>;
    /// Adds parts to the prefix cache under `tokens`, and releases them.
    fn insert_prefix(&mut self, tokens: &[TokenId], parts: &[KvPart]);
    /// Releases parts.
    fn release_prefix(&mut self, parts: &[KvPart]);
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

    fn prefix_bytes(&self, pages: u32) -> Option<(u64, u64)> {
        Engine::prefix_bytes(self, pages)
    }

    fn part_bytes(&self, part: KvPart) -> usize {
        Engine::part_bytes(self, part)
    }

    fn acquire_prefix(&mut self, tokens: &[TokenId]) -> Result<(u32, Vec<KvPart>), OutOfMemory> {
        let prefix = Engine::acquire_prefix(self, tokens)?;
        Ok((prefix.pages, prefix.parts.to_vec()))
    }

    fn allocate_prefix(&mut self, pages: u32) -> Result<Vec<KvPart>, AllocateError> {
        Ok(Engine::allocate_prefix(self, pages)?.parts.to_vec())
    }

    fn read_part(&mut self, part: KvPart, to: &mut [u8]) -> Result<(), PageError> {
        Engine::read_part(self, part, to)
    }

    fn write_part(&mut self, part: KvPart, from: &[u8]) -> Result<(), PageError> {
        Engine::write_part(self, part, from)
    }

    fn insert_prefix(&mut self, tokens: &[TokenId], parts: &[KvPart]) {
        Engine::insert_prefix(self, tokens, parts);
    }

    fn release_prefix(&mut self, parts: &[KvPart]) {
        Engine::release_prefix(self, parts);
    }

    fn evict_prefix(&mut self, tokens: &[TokenId]) -> u32 {
        Engine::evict_prefix(self, tokens)
    }
}
