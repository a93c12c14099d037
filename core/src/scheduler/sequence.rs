//! A live request as the scheduler sees it: its tokens, the number of computed ones, and its pages.

use crate::heap::Vec;
use crate::kv::SequencePages;
use crate::plan::{PAGE_TOKENS, pages_of};
use crate::token::TokenId;

/// Identifies a request; chosen by the caller, who keeps it unique among live requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RequestId(pub u64);

/// Tokens between the checkpoints of a long prompt. After a change in the middle of a conversation at most as many are
/// computed again before it.
pub(super) const CHECKPOINT_SPACING: u32 = 2048;

/// True if a page is seen within `window` positions behind one of the places where checkpoints are made in a sequence with
/// these [`Sequence::borders`]: there a later request can go on only if the page is there.
pub(super) fn is_before_checkpoint(borders: [u32; 2], window: u32, page: u32) -> bool {
    let end = page.saturating_add(1).saturating_mul(PAGE_TOKENS as u32);
    let seen = |border: u32| border >= end && border.saturating_add(1).saturating_sub(window) < end;
    end.checked_next_multiple_of(CHECKPOINT_SPACING).is_some_and(seen) || borders.into_iter().any(seen)
}

/// Kinds of checkpoints of a recurrent state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checkpoint {
    /// In a prompt, where it leaves what others have computed, or at its end.
    Prompt,
    /// Behind a page of generated tokens; a later one of the same sequence replaces it, and the last one serves the next
    /// turn of the conversation.
    Trailing,
}

/// A request to schedule.
pub struct NewSequence<'a, T> {
    /// Its id.
    pub id: RequestId,
    /// The prompt, at least one token, with capacity for `limit` tokens.
    pub tokens: Vec<'a, TokenId>,
    /// Most tokens of the sequence, prompt and output together.
    pub limit: u32,
    /// True if every row's output is wanted and no token is generated.
    pub pooling: bool,
    /// True to compute the whole prompt, even if the cache holds a prefix of it.
    pub skip_cache: bool,
    /// The caller's data.
    pub state: T,
}

/// A live request. `T` is the caller's data, which the scheduler does not look at.
pub struct Sequence<'a, T> {
    pub(super) id: RequestId,
    /// Prompt and generated tokens.
    pub(super) tokens: Vec<'a, TokenId>,
    pub(super) prompt: u32,
    /// Tokens whose keys and values are computed or in the step in flight.
    pub(super) computed: u32,
    pub(super) limit: u32,
    pub(super) pooling: bool,
    pub(super) skip_cache: bool,
    /// None while waiting.
    pub(super) pages: SequencePages<'a>,
    /// False while waiting.
    pub(super) running: bool,
    /// True if a token was appended since the sequence was admitted; only then it can be preempted.
    pub(super) produced: bool,
    pub(super) preemptions: u32,
    pub(super) cached_tokens: u32,
    /// The caller's data.
    pub state: T,
}

impl<'a, T> Sequence<'a, T> {
    /// A waiting sequence with empty page tables.
    pub(super) fn new(new: NewSequence<'a, T>, pages: SequencePages<'a>) -> Self {
        let NewSequence { id, tokens, limit, pooling, skip_cache, state } = new;
        Self {
            id,
            prompt: tokens.len() as u32,
            tokens,
            computed: 0,
            limit,
            pooling,
            skip_cache,
            pages,
            running: false,
            produced: false,
            preemptions: 0,
            cached_tokens: 0,
            state,
        }
    }
}

#[expect(clippy::len_without_is_empty, reason = "a sequence has at least one token")]
impl<T> Sequence<'_, T> {
    /// Its id.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Number of tokens, prompt and output together; at most the limit.
    pub fn len(&self) -> u32 {
        self.tokens.len() as u32
    }

    /// Number of prompt tokens.
    pub fn prompt_len(&self) -> u32 {
        self.prompt
    }

    /// Most tokens of the sequence.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Number of tokens whose keys and values are computed or in the step in flight.
    pub fn computed(&self) -> u32 {
        self.computed
    }

    /// Number of tokens that are not computed yet.
    pub fn pending(&self) -> u32 {
        self.len() - self.computed
    }

    /// True if the sequence has pages and takes part in steps; false while it waits.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// True if every row's output is wanted and no token is generated.
    pub fn is_pooling(&self) -> bool {
        self.pooling
    }

    /// Number of times that the sequence lost its pages to others and was computed again.
    pub fn preemptions(&self) -> u32 {
        self.preemptions
    }

    /// Number of prompt tokens that were in the prefix cache when the sequence was first admitted.
    pub fn cached_tokens(&self) -> u32 {
        self.cached_tokens
    }

    /// Its page tables.
    pub fn pages(&self) -> &SequencePages<'_> {
        &self.pages
    }

    /// Appends a generated token; ignored if the sequence is at its limit.
    pub fn append(&mut self, token: TokenId) {
        if self.len() < self.limit {
            self.tokens.push(token);
            self.produced = true;
        }
    }

    /// Counts the last token as computed, after a step of several of which a later one is still in flight.
    pub fn advance(&mut self) {
        self.computed = self.computed.saturating_add(1).min(self.len());
    }

    /// Page borders behind which others will go on, beside those at regular distances: the last one in the prompt, since at
    /// least one token is always computed; and the one where the prompt leaves what earlier requests have in common with
    /// it, such as a system message.
    pub(super) fn borders(&self) -> [u32; 2] {
        let page = PAGE_TOKENS as u32;
        let prompt = self.prompt.saturating_sub(1) / page;
        [prompt, self.pages.shared().min(prompt)].map(|pages| pages * page)
    }

    /// Most rows of its next step: with a recurrent state, those up to the next checkpoint.
    pub(super) fn rows_to_checkpoint(&self) -> u32 {
        if self.pages.state().is_none() || self.pooling {
            return u32::MAX;
        }
        let next = (self.computed / CHECKPOINT_SPACING + 1) * CHECKPOINT_SPACING;
        let ahead = self.borders().into_iter().filter(|&border| border > self.computed);
        ahead.fold(next, u32::min) - self.computed
    }

    /// The kind of checkpoint that its computed tokens call for, if any.
    pub(super) fn checkpoint(&self) -> Option<Checkpoint> {
        let computed = self.computed;
        if self.pages.state().is_none()
            || self.pooling
            || computed == 0
            || !computed.is_multiple_of(PAGE_TOKENS as u32)
        {
            return None;
        }
        if computed >= self.prompt {
            return Some(Checkpoint::Trailing);
        }
        let kept = self.borders().contains(&computed) || computed.is_multiple_of(CHECKPOINT_SPACING);
        kept.then_some(Checkpoint::Prompt)
    }

    /// The next position behind which another request can go on, when it is computed.
    pub(super) fn next_border(&self) -> u32 {
        match self.rows_to_checkpoint() {
            u32::MAX => (self.computed / PAGE_TOKENS as u32 + 1) * PAGE_TOKENS as u32,
            rows => self.computed + rows,
        }
    }

    /// True if its next step is one decode row.
    pub(super) fn decodes(&self) -> bool {
        !self.pooling && self.computed >= self.prompt && self.pending() == 1
    }

    /// True if its next rows are prompt rows, or rows to be computed again after a preemption.
    pub(super) fn prefills(&self) -> bool {
        self.running && !self.pooling && !self.decodes() && self.pending() > 0
    }

    /// Number of pages that it may take from the cache. The last token is always computed, because its logits are
    /// needed; a sequence that skips the cache computes all.
    pub(super) fn cacheable_pages(&self) -> u32 {
        if self.skip_cache { 0 } else { (self.len() - 1) / PAGE_TOKENS as u32 }
    }

    /// True if it may need another page.
    pub(super) fn can_grow(&self) -> bool {
        self.pages.len() < pages_of(self.limit)
    }
}
