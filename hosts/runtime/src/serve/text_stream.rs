//! The text of one answer as its tokens come: whole characters only, cut before the first stop text.
//!
//! Not here: characters of several tokens (`Detokenizer` of core), and the search for stop texts (`stop_texts`).

use super::stop_texts::{Position, StopTexts};
use alloc::sync::Arc;
use doorbell_core::heap::{Global, OutOfMemory, Vec};
use doorbell_core::token::{Detokenizer, TokenId, Tokenizer};

/// Converts tokens to text that can be shown.
///
/// Text that could still become a stop text is held back; returned text never changes. The parts together are the whole
/// text before the stop text that is complete first, however the tokens divide it.
pub struct TextStream {
    detokenizer: Detokenizer,
    stops: Arc<StopTexts>,
    /// Position of the search in the text so far.
    position: Position,
    /// Text returned last, then text held back.
    buffer: Vec<'static, u8>,
    /// Bytes of `buffer` that were returned.
    returned: usize,
    /// Bytes of `buffer` that were searched.
    searched: usize,
    stopped: Option<usize>,
}

impl TextStream {
    /// A stream without text. `special` shows control tokens as their texts.
    #[must_use]
    pub fn new(stops: Arc<StopTexts>, special: bool) -> Self {
        Self {
            detokenizer: Detokenizer::new(special),
            position: stops.start(),
            stops,
            buffer: Vec::new_in(&Global),
            returned: 0,
            searched: 0,
            stopped: None,
        }
    }

    /// True if a stop text came; no more text is returned then.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Index of the stop text that came.
    #[must_use]
    pub fn stop(&self) -> Option<usize> {
        self.stopped
    }

    /// Takes a token and returns the text that can be shown now.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn push(&mut self, tokenizer: &Tokenizer<'_>, token: TokenId) -> Result<&str, OutOfMemory> {
        self.forget();
        if self.stopped.is_none() {
            self.detokenizer.push(tokenizer, token, &mut self.buffer)?;
            self.returned = self.release();
        }
        Ok(self.shown())
    }

    /// Returns the text that was held back, when no more tokens come.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn finish(&mut self) -> Result<&str, OutOfMemory> {
        self.forget();
        if self.stopped.is_none() {
            self.detokenizer.finish(&mut self.buffer)?;
            let shown = self.release();
            self.returned = if self.stopped.is_some() { shown } else { self.buffer.len() };
        }
        Ok(self.shown())
    }

    /// Removes the text that was returned.
    fn forget(&mut self) {
        self.buffer.drain(..self.returned);
        self.searched -= self.returned.min(self.searched);
        self.returned = 0;
    }

    /// The detokenizer returns whole characters, and stop texts begin with one, so that none is cut.
    fn shown(&self) -> &str {
        core::str::from_utf8(&self.buffer[..self.returned]).unwrap_or_default()
    }

    /// Bytes that can be shown: up to the first stop text, or up to text that may become one.
    fn release(&mut self) -> usize {
        for (at, &byte) in self.buffer.iter().enumerate().skip(self.searched) {
            if let Some((stop, length)) = self.stops.advance(&mut self.position, byte) {
                self.stopped = Some(stop);
                return (at + 1).saturating_sub(length);
            }
        }
        self.searched = self.buffer.len();
        self.buffer.len().saturating_sub(self.stops.begun(self.position))
    }
}
