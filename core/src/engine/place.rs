//! Places and pages: who starts, who finds a prefix in the cache, and who gives way when pages run out.

use super::admit::Engine;
use super::config::pages_of;
use super::event::{Event, Nanos};
use crate::backend::Backend;
use crate::plan::PAGE_TOKENS;

impl<B: Backend> Engine<'_, '_, B> {
    /// Gives places to waiting requests in order of arrival, so that nobody is overtaken but by those who begin otherwise
    /// while somebody computes how he begins, which is then found.
    ///
    /// A place comes with pages for all tokens so far and the next one: whoever starts can produce a token. One is left
    /// for each of those who grow, so that nobody has to give way at once.
    pub(super) fn seat(&mut self, now: Nanos, sink: &mut dyn FnMut(Event<'_>)) {
        let mut running = self.sequences.iter().filter(|sequence| sequence.running).count();
        for index in 0..self.sequences.len() {
            if self.sequences[index].running {
                continue;
            }
            if running == self.config.sequences as usize {
                return;
            }
            if self.is_begun(index) {
                continue;
            }
            if !self.start(index, now) {
                return;
            }
            running += 1;
            let sequence = &self.sequences[index];
            if sequence.usage.preemptions == 0 {
                let (request, done, total) = (sequence.id, sequence.computed, sequence.prompt);
                sink(Event::Prefill { request, done, total });
            }
        }
    }

    /// Whether somebody is about to compute a page that this sequence will find in the cache.
    fn is_begun(&self, index: usize) -> bool {
        let sequence = &self.sequences[index];
        let whole = sequence.findable() as usize * PAGE_TOKENS;
        self.sequences.iter().filter(|other| other.running && !other.skip_cache).any(|other| {
            let page = (other.computed as usize / PAGE_TOKENS + 1) * PAGE_TOKENS;
            page <= whole.min(other.prompt as usize) && other.tokens[..page] == sequence.tokens[..page]
        })
    }

    /// Finds the longest known prefix and takes the other pages; `false` when there are too few.
    fn start(&mut self, index: usize, now: Nanos) -> bool {
        let growing = self.sequences.iter().filter(|other| other.running && other.grows()).count() as u32;
        let sequence = &mut self.sequences[index];
        let whole = sequence.findable();
        while sequence.known_pages < whole {
            let Some(tokens) = sequence.page_tokens(sequence.known_pages) else { break };
            let Some((page, key)) = self.pool.acquire(sequence.chain, tokens) else { break };
            sequence.pages.push(page);
            sequence.chain = Some(key);
            sequence.known_pages += 1;
        }
        let needed = pages_of(sequence.len().saturating_add(1).min(sequence.limit)) - sequence.known_pages;
        if needed.saturating_add(growing) > self.pool.available() {
            sequence.vacate(&mut self.pool);
            return false;
        }
        sequence.pages.extend((0..needed).map_while(|_| self.pool.allocate()));
        sequence.computed = sequence.known_pages * PAGE_TOKENS as u32;
        sequence.running = true;
        if sequence.usage.preemptions == 0 {
            sequence.usage.started = now;
            sequence.usage.cached_tokens = sequence.computed;
        }
        true
    }

    /// Makes sure that a decoding sequence has a page for its next row. The latest arrival among the later ones
    /// that have produced since they started gives way; without such a one the sequence sits this step out.
    pub(super) fn make_room(&mut self, index: usize) -> bool {
        let sequence = &self.sequences[index];
        if sequence.pages.len() as u32 >= pages_of(sequence.computed + 1) {
            return true;
        }
        if self.pool.available() == 0 {
            let later = &mut self.sequences[index + 1..];
            let Some(victim) = later.iter_mut().rev().find(|other| other.running && other.produced) else {
                return false;
            };
            victim.vacate(&mut self.pool);
            victim.usage.preemptions += 1;
        }
        let Some(page) = self.pool.allocate() else { return false };
        self.sequences[index].pages.push(page);
        true
    }
}
