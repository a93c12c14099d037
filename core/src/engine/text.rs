//! The text of one answer as its tokens come: whole characters only, cut before the first stop string.

use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::token::{Detokenizer, TokenId, Tokenizer};

/// Converts tokens to text that can be shown.
///
/// Text that could still become a stop string is held back; returned text never changes. The parts together are the whole
/// text up to the first stop string, however the tokens divide it.
pub struct TextStream<'a> {
    detokenizer: Detokenizer,
    stops: Vec<'a, Vec<'a, u8>>,
    /// Text returned last, then text held back.
    buffer: Vec<'a, u8>,
    /// Bytes of `buffer` that were returned.
    returned: usize,
    stopped: Option<usize>,
}

impl<'a> TextStream<'a> {
    /// A stream without text; empty stop strings are ignored. `special` shows control tokens as their texts.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn new(stops: &[&str], special: bool, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        let mut own = heap::with_capacity(heap, stops.len())?;
        for stop in stops.iter().filter(|stop| !stop.is_empty()) {
            own.push(heap::copied(heap, stop.as_bytes())?);
        }
        let detokenizer = Detokenizer::new(special);
        Ok(Self { detokenizer, stops: own, buffer: Vec::new_in(heap), returned: 0, stopped: None })
    }

    /// True if a stop string came; no more text is returned then.
    pub fn stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Index of the stop string that came, among the non-empty ones.
    pub fn stop(&self) -> Option<usize> {
        self.stopped
    }

    /// Takes a token and returns the text that can be shown now.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn push(&mut self, tokenizer: &Tokenizer<'_>, token: TokenId) -> Result<&str, OutOfMemory> {
        self.buffer.drain(..self.returned);
        self.returned = 0;
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
        self.buffer.drain(..self.returned);
        self.returned = 0;
        if self.stopped.is_none() {
            self.detokenizer.finish(&mut self.buffer)?;
            let shown = self.release();
            self.returned = if self.stopped.is_some() { shown } else { self.buffer.len() };
        }
        Ok(self.shown())
    }

    /// The detokenizer returns whole characters, and stop strings begin with one, so that none is cut.
    fn shown(&self) -> &str {
        core::str::from_utf8(&self.buffer[..self.returned]).unwrap_or_default()
    }

    /// Bytes that can be shown: up to the first stop string, or up to text that may become one.
    fn release(&mut self) -> usize {
        let text = &self.buffer[..];
        let found = |(index, stop): (usize, &Vec<'_, u8>)| Some((find(text, stop)?, index));
        if let Some((end, index)) = self.stops.iter().enumerate().filter_map(found).min() {
            self.stopped = Some(index);
            return end;
        }
        let held = self.stops.iter().map(|stop| overlap(text, stop)).max().unwrap_or(0);
        text.len() - held
    }
}

fn find(text: &[u8], stop: &[u8]) -> Option<usize> {
    text.windows(stop.len()).position(|window| window == stop)
}

/// Length of the longest end of `text` that is a beginning of `stop`.
fn overlap(text: &[u8], stop: &[u8]) -> usize {
    let most = text.len().min(stop.len().saturating_sub(1));
    (1..=most).rev().find(|&len| text.ends_with(&stop[..len])).unwrap_or(0)
}
