//! The text of one answer as its tokens come: whole characters only, cut before the first stop string.

use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::token::{Detokenizer, TokenId, Tokenizer};

/// Turns tokens into text that may be shown.
///
/// Text that could still become a stop string is held back; what was handed out is never taken back. The parts
/// together are the whole text up to the first stop string, however the tokens divide it.
pub struct TextStream<'a> {
    detokenizer: Detokenizer,
    stops: Vec<'a, Vec<'a, u8>>,
    /// Text handed out last, then text held back.
    buffer: Vec<'a, u8>,
    /// Bytes of `buffer` that were handed out.
    told: usize,
    stopped: Option<usize>,
}

impl<'a> TextStream<'a> {
    /// A stream without text; empty stop strings are ignored. `special` shows control tokens as their texts.
    ///
    /// # Errors
    /// If the heap is used up.
    pub fn new(stops: &[&str], special: bool, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        let mut own = heap::with_capacity(heap, stops.len())?;
        for stop in stops.iter().filter(|stop| !stop.is_empty()) {
            own.push(heap::copied(heap, stop.as_bytes())?);
        }
        let detokenizer = Detokenizer::new(special);
        Ok(Self { detokenizer, stops: own, buffer: Vec::new_in(heap), told: 0, stopped: None })
    }

    /// Whether a stop string came; nothing more is shown then.
    pub fn stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Which stop string came, as a place among those given that are not empty.
    pub fn stop(&self) -> Option<usize> {
        self.stopped
    }

    /// Takes a token and gives the text that may be shown now.
    ///
    /// # Errors
    /// If the heap is used up.
    pub fn push(&mut self, tokenizer: &Tokenizer<'_>, token: TokenId) -> Result<&str, OutOfMemory> {
        self.buffer.drain(..self.told);
        self.told = 0;
        if self.stopped.is_none() {
            self.detokenizer.push(tokenizer, token, &mut self.buffer)?;
            self.told = self.release();
        }
        Ok(self.shown())
    }

    /// Gives what was held back, when no more tokens come.
    ///
    /// # Errors
    /// If the heap is used up.
    pub fn finish(&mut self) -> Result<&str, OutOfMemory> {
        self.buffer.drain(..self.told);
        self.told = 0;
        if self.stopped.is_none() {
            self.detokenizer.finish(&mut self.buffer)?;
            let shown = self.release();
            self.told = if self.stopped.is_some() { shown } else { self.buffer.len() };
        }
        Ok(self.shown())
    }

    /// The detokenizer gives whole characters, and stop strings begin with one, so this never cuts any.
    fn shown(&self) -> &str {
        core::str::from_utf8(&self.buffer[..self.told]).unwrap_or_default()
    }

    /// Bytes that may be shown: up to the first stop string, or up to what may become one.
    fn release(&mut self) -> usize {
        let text = &self.buffer[..];
        let found = |(place, stop): (usize, &Vec<'_, u8>)| Some((find(text, stop)?, place));
        if let Some((end, place)) = self.stops.iter().enumerate().filter_map(found).min() {
            self.stopped = Some(place);
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
