//! Admission: waiting sequences get pages and run, in order of arrival.

use super::scheduler::Scheduler;
use crate::kv::NoState;
use crate::plan::{PAGE_TOKENS, pages_of};

impl<T> Scheduler<'_, T> {
    /// Admits waiting sequences in order of arrival, as far as pages and the limit of running sequences allow. A
    /// sequence whose prefix a running one is about to compute waits until it is in the cache; later ones may be admitted
    /// before it.
    pub(super) fn admit_waiting(&mut self) {
        let mut running = self.sequences.iter().filter(|sequence| sequence.running).count();
        for index in 0..self.sequences.len() {
            if self.sequences[index].running {
                continue;
            }
            if running == self.config.sequences as usize {
                return;
            }
            if self.is_prefix_in_progress(index) {
                continue;
            }
            if !self.start(index) {
                return;
            }
            running += 1;
        }
    }

    /// True if a running sequence is about to come to where this one can then go on from the cache: a page, or with
    /// recurrent states a checkpoint.
    fn is_prefix_in_progress(&self, index: usize) -> bool {
        let sequence = &self.sequences[index];
        let cacheable = sequence.cacheable_pages() as usize * PAGE_TOKENS;
        self.sequences.iter().filter(|other| other.running && !other.skip_cache).any(|other| {
            let next = other.next_border() as usize;
            next <= cacheable.min(other.prompt as usize) && other.tokens[..next] == sequence.tokens[..next]
        })
    }

    /// Starts a waiting sequence: takes the longest cached prefix, then pages for its other tokens and the next one, so
    /// that it can produce at least one token. One page is left for every running sequence that may grow, so that
    /// none is preempted at once. False if there are too few pages.
    fn start(&mut self, index: usize) -> bool {
        let growing = self.sequences.iter().filter(|other| other.running && other.can_grow()).count() as u32;
        let sequence = &mut self.sequences[index];
        let cacheable = sequence.cacheable_pages();
        let cached = self.kv.acquire_prefix(&mut sequence.pages, &sequence.tokens, cacheable);
        let pages = pages_of(sequence.len().saturating_add(1).min(sequence.limit));
        let fits = self.kv.can_grow(core::iter::once((&sequence.pages, pages)), growing);
        if !fits || !self.kv.grow(&mut sequence.pages, pages) {
            self.kv.release(&mut sequence.pages);
            return false;
        }
        match self.kv.start_state(&mut sequence.pages) {
            Ok(copy) => self.batch.state_copies.extend(copy),
            Err(NoState) => {
                self.kv.release(&mut sequence.pages);
                return false;
            }
        }
        sequence.computed = cached * PAGE_TOKENS as u32;
        sequence.running = true;
        if sequence.preemptions == 0 {
            sequence.cached_tokens = sequence.computed;
            self.batch.admitted.push(sequence.id);
        }
        true
    }
}
