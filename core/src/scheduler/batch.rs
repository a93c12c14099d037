//! The batch of one step, in buffers that are reserved once.

use super::config::Config;
use super::sequence::{RequestId, Sequence};
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::kv::{KvManager, StateCopy};
use crate::plan::{
    Batch, GroupId, MAX_GROUPS, PAGE_TOKENS, PageId, PageSpan, PageTables, RowRun, StateId, pages_of,
};
use crate::token::TokenId;

/// The kind of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum StepKind {
    /// Decode rows and prompt rows; outputs are the rows behind which a token is picked.
    #[default]
    Generate,
    /// Rows of one pooling request; all are outputs.
    Pooling,
}

/// The next batch to run.
#[derive(Clone, Copy, Debug)]
pub struct StepBatch<'b> {
    /// The kind of step.
    pub kind: StepKind,
    /// Number of steps to run, of which each but the first reads the tokens that the one before it picked; 1 is a
    /// single step.
    pub steps: u32,
    /// Rows and page tables; empty if there is nothing to run.
    pub input: Batch<'b>,
    /// `[runs]`: the request of each run.
    pub requests: &'b [RequestId],
    /// `[outputs]`: the request of each output row; empty in a pooling step.
    pub owners: &'b [RequestId],
    /// Requests that run for the first time, in order of arrival.
    pub admitted: &'b [RequestId],
    /// Copies of recurrent states to make first, in order.
    pub state_copies: &'b [StateCopy],
}

impl StepBatch<'_> {
    /// True if there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.input.tokens.is_empty()
    }

    /// True if each sequence has one row, as all decode rows have.
    pub fn is_decode(&self) -> bool {
        self.input.tokens.len() == self.input.runs.len()
    }
}

/// Storage of a [`StepBatch`].
pub(super) struct BatchBuffers<'m> {
    pub(super) kind: StepKind,
    pub(super) steps: u32,
    groups: usize,
    tokens: Vec<'m, TokenId>,
    runs: Vec<'m, RowRun>,
    outputs: Vec<'m, u32>,
    pub(super) requests: Vec<'m, RequestId>,
    owners: Vec<'m, RequestId>,
    pages: Vec<'m, PageId>,
    spans: Vec<'m, PageSpan>,
    pub(super) admitted: Vec<'m, RequestId>,
    states: Vec<'m, StateId>,
    pub(super) state_copies: Vec<'m, StateCopy>,
}

impl<'m> BatchBuffers<'m> {
    /// Buffers for any step under these limits, of a model with `groups` KV groups in `pools` pools.
    pub(super) fn new(
        config: &Config,
        groups: usize,
        pools: usize,
        heap: Heap<'m>,
    ) -> Result<Self, OutOfMemory> {
        let sequences = config.sequences as usize;
        let pages = (config.full_pages() as usize).saturating_mul(pools);
        Ok(Self {
            kind: StepKind::Generate,
            steps: 1,
            groups,
            tokens: heap::with_capacity(heap, config.widest_step() as usize)?,
            runs: heap::with_capacity(heap, sequences)?,
            outputs: heap::with_capacity(heap, sequences.max(config.pooling_rows as usize))?,
            requests: heap::with_capacity(heap, sequences)?,
            owners: heap::with_capacity(heap, sequences)?,
            pages: heap::with_capacity(heap, pages)?,
            spans: heap::with_capacity(heap, sequences.saturating_mul(groups))?,
            admitted: heap::with_capacity(heap, sequences)?,
            states: heap::with_capacity(heap, sequences)?,
            state_copies: heap::with_capacity(heap, 2 * sequences)?,
        })
    }

    /// Bytes of heap of the buffers.
    pub(super) fn bytes(config: &Config, groups: usize, pools: usize) -> usize {
        let states = size_of::<StateId>() + 2 * size_of::<StateCopy>();
        let per_sequence = size_of::<RowRun>() + 3 * size_of::<RequestId>() + states;
        let per_sequence = per_sequence.saturating_add(size_of::<PageSpan>().saturating_mul(groups));
        let outputs = size_of::<u32>().saturating_mul(config.sequences.max(config.pooling_rows) as usize);
        let rows = size_of::<TokenId>().saturating_mul(config.widest_step() as usize);
        let pages = size_of::<PageId>().saturating_mul(config.full_pages() as usize).saturating_mul(pools);
        let sequences = per_sequence.saturating_mul(config.sequences as usize);
        [outputs, rows, pages].into_iter().fold(sequences, usize::saturating_add)
    }

    pub(super) fn clear(&mut self) {
        self.kind = StepKind::Generate;
        self.steps = 1;
        self.tokens.clear();
        self.runs.clear();
        self.outputs.clear();
        self.requests.clear();
        self.owners.clear();
        self.pages.clear();
        self.spans.clear();
        self.admitted.clear();
        self.states.clear();
        self.state_copies.clear();
    }

    /// Number of rows so far.
    pub(super) fn rows(&self) -> u32 {
        self.tokens.len() as u32
    }

    /// Adds up to `most` pending tokens of a sequence as rows, as far as it gets pages for them, and returns their number.
    /// The last pending row is an output.
    pub(super) fn add<T>(
        &mut self,
        sequence: &mut Sequence<'_, T>,
        kv: &mut KvManager<'_>,
        most: u32,
    ) -> u32 {
        let count = sequence.pending().min(most).min(sequence.rows_to_checkpoint());
        let ready = kv.grow_windows(&mut sequence.pages, pages_of(sequence.computed.saturating_add(count)));
        let count = count.min((ready.saturating_mul(PAGE_TOKENS as u32)).saturating_sub(sequence.computed));
        if count == 0 {
            return 0;
        }
        let (from, first_row) = (sequence.computed as usize, self.rows());
        self.tokens.extend_from_slice(&sequence.tokens[from..from + count as usize]);
        let index = self.requests.len() as u32;
        self.runs.push(RowRun { sequence: index, first_row, rows: count, position: sequence.computed });
        self.requests.push(sequence.id);
        self.add_tables(sequence, kv);
        self.states.extend(sequence.pages.state());
        sequence.computed += count;
        if sequence.pending() == 0 {
            self.outputs.push(first_row + count - 1);
            self.owners.push(sequence.id);
        }
        count
    }

    /// Adds a sequence's page tables: one per pool, and for each group the span of its pool's.
    fn add_tables<T>(&mut self, sequence: &Sequence<'_, T>, kv: &KvManager<'_>) {
        let mut pools = [PageSpan::default(); MAX_GROUPS + 1];
        for (span, pages) in pools.iter_mut().zip(sequence.pages.tables()) {
            *span = PageSpan { start: self.pages.len() as u32, len: pages.len() as u32 };
            self.pages.extend_from_slice(pages);
        }
        let groups = (0..self.groups).map(|group| GroupId(u8::try_from(group).unwrap_or(u8::MAX)));
        self.spans.extend(groups.map(|group| pools[kv.pools().pool_of(group)]));
    }

    /// Makes the rows so far a pooling step: every row is an output.
    pub(super) fn pool(&mut self) {
        self.kind = StepKind::Pooling;
        self.outputs.clear();
        self.outputs.extend(0..self.tokens.len() as u32);
        self.owners.clear();
    }

    pub(super) fn view(&self) -> StepBatch<'_> {
        let tables =
            PageTables { pages: &self.pages, spans: &self.spans, groups: self.groups, states: &self.states };
        StepBatch {
            kind: self.kind,
            steps: self.steps,
            input: Batch { tokens: &self.tokens, runs: &self.runs, outputs: &self.outputs, tables },
            requests: &self.requests,
            owners: &self.owners,
            admitted: &self.admitted,
            state_copies: &self.state_copies,
        }
    }
}
