//! Preemption: a sequence that needs a page takes those of the latest arrival when none is left.

use super::scheduler::Scheduler;
use crate::plan::pages_of;

impl<T> Scheduler<'_, T> {
    /// Makes sure that a decoding sequence has a page for its next row. If none is left, the latest of the later
    /// arrivals that have produced a token since their admission is preempted; it waits and is computed again. False if
    /// there is none: the sequence then has no row in this step.
    pub(super) fn make_room(&mut self, index: usize) -> bool {
        if self.grow(index) {
            return true;
        }
        let later = self.sequences.iter().enumerate().skip(index + 1).rev();
        let victim = later.into_iter().find(|(_, other)| other.running && other.produced);
        let Some(victim) = victim.map(|(victim, _)| victim) else { return false };
        self.preempt(victim);
        self.grow(index)
    }

    /// Takes pages for a sequence's next row in every pool; false if one has none.
    fn grow(&mut self, index: usize) -> bool {
        let sequence = &mut self.sequences[index];
        let pages = pages_of(sequence.computed.saturating_add(1));
        self.kv.grow(&mut sequence.pages, pages) && self.kv.grow_windows(&mut sequence.pages, pages) >= pages
    }

    /// Takes the pages of a running sequence and lets it wait.
    fn preempt(&mut self, index: usize) {
        let sequence = &mut self.sequences[index];
        self.kv.release(&mut sequence.pages);
        sequence.running = false;
        sequence.produced = false;
        sequence.computed = 0;
        sequence.preemptions += 1;
    }
}
