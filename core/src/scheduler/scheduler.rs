//! The scheduler's state and the formation of batches. Admission is in `admission`, the search for pages in
//! `preemption`.

use super::batch::{BatchBuffers, StepBatch, StepKind};
use super::config::Config;
use super::pacing::Pacing;
use super::sequence::{Checkpoint, NewSequence, RequestId, Sequence, is_before_checkpoint};
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::kv::{KvManager, KvPools};
use crate::plan::{PAGE_TOKENS, pages_of};
use crate::token::TokenId;

/// Sequences, their pages, and the batch of the current step. `T` is the caller's data of a sequence.
pub struct Scheduler<'m, T = ()> {
    pub(super) config: Config,
    /// Live sequences, running and waiting, in order of arrival.
    pub(super) sequences: Vec<'m, Sequence<'m, T>>,
    pub(super) kv: KvManager<'m>,
    pub(super) batch: BatchBuffers<'m>,
    pacing: Pacing,
    /// True if the last step was a pooling step.
    pooled_last: bool,
}

impl<'m, T> Scheduler<'m, T> {
    /// A scheduler without sequences for a model with `groups` KV groups. Afterwards only [`Self::submit`] allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn new(
        config: Config,
        groups: usize,
        kv: KvManager<'m>,
        heap: Heap<'m>,
    ) -> Result<Self, OutOfMemory> {
        let batch = BatchBuffers::new(&config, groups, kv.pools().count(), heap)?;
        let sequences = heap::with_capacity(heap, config.live_requests())?;
        let pacing = Pacing::new(config.step_target);
        Ok(Self { config, sequences, kv, batch, pacing, pooled_last: false })
    }

    /// Bytes of heap that a scheduler takes with all live sequences at full context, and with these pools of pages.
    pub fn bytes(config: &Config, groups: usize, pools: &KvPools) -> usize {
        let pages = pages_of(config.context);
        let per_sequence = size_of::<Sequence<'_, T>>()
            .saturating_add(size_of::<TokenId>().saturating_mul(config.context as usize))
            .saturating_add(KvManager::sequence_bytes(pools, pages));
        per_sequence
            .saturating_mul(config.live_requests())
            .saturating_add(BatchBuffers::bytes(config, groups, pools.count()))
            .saturating_add(KvManager::bytes(pools))
    }

    /// The limits that it was made for.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The KV pages.
    pub fn kv(&self) -> &KvManager<'m> {
        &self.kv
    }

    /// The KV pages, for prefixes that leave and come back.
    pub(crate) fn kv_mut(&mut self) -> &mut KvManager<'m> {
        &mut self.kv
    }

    /// Live sequences, running and waiting, in order of arrival.
    pub fn sequences(&self) -> &[Sequence<'m, T>] {
        &self.sequences
    }

    /// A live sequence.
    pub fn get_mut(&mut self, id: RequestId) -> Option<&mut Sequence<'m, T>> {
        self.sequences.iter_mut().find(|sequence| sequence.id == id)
    }

    /// The live sequences with rows in the last batch, in order of arrival.
    pub fn in_step_mut(&mut self) -> impl Iterator<Item = &mut Sequence<'m, T>> {
        let requests = &self.batch.requests;
        self.sequences.iter_mut().filter(|sequence| requests.contains(&sequence.id))
    }

    /// True if no further sequence can be submitted.
    pub fn is_full(&self) -> bool {
        self.sequences.len() >= self.config.live_requests()
    }

    /// Adds a waiting sequence. Its pages are taken when it is admitted.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing has changed then.
    pub fn submit(&mut self, new: NewSequence<'m, T>) -> Result<(), OutOfMemory> {
        let pages = self.kv.empty_tables(pages_of(new.limit))?;
        heap::push(&mut self.sequences, Sequence::new(new, pages))
    }

    /// Takes the pages of a sequence, by its index in [`Self::sequences`], and those of its prefix out of the prefix cache:
    /// their contents are not what the tokens say. Sequences that hold them keep them.
    pub fn disown_pages(&mut self, index: usize) {
        if let Some(sequence) = self.sequences.get(index) {
            self.kv.evict_prefix(&sequence.tokens);
        }
    }

    /// Removes a sequence by its index in [`Self::sequences`] and releases its pages; none of its rows may be in flight.
    pub fn remove(&mut self, index: usize) -> Option<Sequence<'m, T>> {
        let sequence = self.sequences.get_mut(index)?;
        self.kv.release(&mut sequence.pages);
        Some(self.sequences.remove(index))
    }

    /// Admits waiting sequences and forms the next batch, which stays until the next call.
    ///
    /// Up to `max_steps` steps are scheduled at once if `feeds_itself` is true for every running sequence, that is, if
    /// its next tokens follow from the logits alone. Pooling steps alternate with the others.
    pub fn schedule(
        &mut self,
        max_steps: u32,
        feeds_itself: &dyn Fn(&Sequence<'m, T>) -> bool,
    ) -> StepBatch<'_> {
        self.batch.clear();
        self.slide();
        self.checkpoint();
        self.admit_waiting();
        if !self.form_pooling_step() {
            self.batch.steps = self.reserve_steps(max_steps, feeds_itself);
            self.form_generation_step();
            if self.batch.rows() == 0 {
                // no page is left for those that generate; they get some when the pooling requests end
                self.batch.steps = 1;
                self.form_pooling_step();
            }
        }
        self.batch.view()
    }

    /// The batch of the last call of [`Self::schedule`].
    pub fn batch(&self) -> StepBatch<'_> {
        self.batch.view()
    }

    /// Adds the pages that the last batch has filled to the prefix cache. For each step of several.
    pub fn register_computed(&mut self) {
        for sequence in &mut self.sequences {
            if self.batch.requests.contains(&sequence.id) {
                self.kv.insert_computed(&mut sequence.pages, &sequence.tokens, sequence.computed);
            }
        }
    }

    /// Records the time that the last batch took, all steps together, in ns.
    pub fn record_time(&mut self, time: u64) {
        let batch = self.batch.view();
        let (steps, rows) = (batch.steps, self.batch.rows());
        match batch.kind {
            StepKind::Pooling => {}
            StepKind::Generate if batch.is_decode() => self.pacing.record_steps(steps, time),
            StepKind::Generate => self.pacing.record_rows(rows, time),
        }
    }

    /// Gives back the pages that are behind the windows of all running sequences. No step is in flight that reads them.
    fn slide(&mut self) {
        for sequence in self.sequences.iter_mut().filter(|sequence| sequence.running) {
            let (computed, borders) = (sequence.computed, sequence.borders());
            let is_kept = |window, page| is_before_checkpoint(borders, window, page);
            self.kv.slide(&mut sequence.pages, computed, is_kept);
        }
    }

    /// Makes checkpoints of the recurrent states that the last step has brought to where one is wanted.
    fn checkpoint(&mut self) {
        for sequence in self.sequences.iter_mut().filter(|sequence| sequence.running) {
            let Some(kind) = sequence.checkpoint() else { continue };
            let trailing = kind == Checkpoint::Trailing;
            self.batch.state_copies.extend(self.kv.checkpoint(&mut sequence.pages, trailing));
        }
    }

    /// Forms a step of the earliest running pooling request; false if there is none, or if it is the others' turn.
    fn form_pooling_step(&mut self) -> bool {
        let others = self.sequences.iter().any(|other| other.running && !other.pooling);
        if core::mem::take(&mut self.pooled_last) && others {
            return false;
        }
        let Some(sequence) = self.sequences.iter_mut().find(|sequence| sequence.running && sequence.pooling)
        else {
            return false;
        };
        self.batch.add(sequence, &mut self.kv, self.config.pooling_rows);
        self.batch.pool();
        self.pooled_last = true;
        true
    }

    /// Number of steps that can be scheduled at once, with pages for all of them; 1 is a single step.
    fn reserve_steps(&mut self, max_steps: u32, feeds_itself: &dyn Fn(&Sequence<'m, T>) -> bool) -> u32 {
        let mut steps = max_steps.min(self.pacing.steps());
        let running = || self.sequences.iter().filter(|sequence| sequence.running);
        for sequence in running() {
            if steps <= 1 || !sequence.decodes() || !feeds_itself(sequence) {
                return 1;
            }
            steps = steps.min(sequence.limit.saturating_sub(sequence.len()));
            if sequence.pages.state().is_some() {
                // a checkpoint is made between steps only
                steps = steps.min(PAGE_TOKENS as u32 - sequence.computed % PAGE_TOKENS as u32);
            }
        }
        let pages = |sequence: &Sequence<'_, T>| pages_of(sequence.computed.saturating_add(steps));
        let wanted = running().map(|sequence| (&sequence.pages, pages(sequence)));
        let windows = running().map(|sequence| (&sequence.pages, pages(sequence)));
        if steps <= 1 || running().next().is_none() || !self.kv.can_grow(wanted, 0) {
            return 1;
        }
        if !self.kv.can_grow_windows(windows) {
            return 1;
        }
        for sequence in self.sequences.iter_mut().filter(|sequence| sequence.running) {
            let pages = pages_of(sequence.computed.saturating_add(steps));
            self.kv.grow(&mut sequence.pages, pages);
            self.kv.grow_windows(&mut sequence.pages, pages);
        }
        steps
    }

    /// Adds a decode row of every sequence that has a page for it, then prompt rows in the rows that are left.
    fn form_generation_step(&mut self) {
        for index in 0..self.sequences.len() {
            let sequence = &self.sequences[index];
            if sequence.running && sequence.decodes() && self.make_room(index) {
                self.batch.add(&mut self.sequences[index], &mut self.kv, 1);
            }
        }
        let rows = self.batch.rows();
        let room = self.config.largest_shape().rows.saturating_sub(rows);
        self.add_prompts(self.pacing.prompt_rows(rows > 0, room));
    }

    /// Shares `room` rows among prompts. The earliest prompt gets at least half of them, so that it ends even if others
    /// keep arriving; the rest go to the others, the shortest first, so that a short prompt does not wait for a long
    /// one.
    fn add_prompts(&mut self, mut room: u32) {
        let Some(earliest) = self.sequences.iter().position(Sequence::prefills) else { return };
        let later = earliest + 1;
        let others = self.sequences[later..].iter().filter(|sequence| sequence.prefills());
        let wanted = others.fold(0, |sum: u32, sequence| sum.saturating_add(sequence.pending()));
        let mut next = Some((earliest, room.saturating_sub(wanted).max(room.div_ceil(2))));
        while let Some((index, most)) = next.filter(|_| room > 0) {
            room -= self.batch.add(&mut self.sequences[index], &mut self.kv, most.min(room));
            // A prompt that has stopped at a checkpoint of its recurrent state goes on in the next step.
            let others = self.sequences[later..]
                .iter()
                .enumerate()
                .filter(|(_, sequence)| sequence.prefills() && !self.batch.requests.contains(&sequence.id));
            let shortest = others.min_by_key(|(_, sequence)| sequence.pending());
            next = shortest.map(|(index, _)| (later + index, room));
        }
    }
}
