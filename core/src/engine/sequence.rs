//! One live request: its tokens, how many are computed, its pages and its sampler.

use super::config::pages_of;
use super::event::{FinishReason, Nanos, Usage};
use super::request::{PoolingOutput, RequestId};
use crate::heap::Vec;
use crate::kv::{BlockPool, PrefixKey};
use crate::plan::{PAGE_TOKENS, PageId};
use crate::sample::Sampler;
use crate::token::TokenId;

/// A live request.
pub(super) struct Sequence<'a> {
    pub(super) id: RequestId,
    /// Prompt and generated tokens.
    pub(super) tokens: Vec<'a, TokenId>,
    pub(super) prompt: u32,
    /// Tokens whose keys and values are cached or in the step in flight.
    pub(super) computed: u32,
    /// Tokens that the sequence may hold.
    pub(super) limit: u32,
    /// Whether `limit` is the context's and not the request's.
    pub(super) limited_by_context: bool,
    pub(super) ignore_end: bool,
    /// What is wanted of every token, if it is read and not continued.
    pub(super) reading: Option<PoolingOutput>,
    /// Whether it takes nothing from the cache.
    pub(super) skip_cache: bool,
    /// Pages held, in order of position; none while waiting.
    pub(super) pages: Vec<'a, PageId>,
    /// Whether it has a place; if not, it waits for one.
    pub(super) running: bool,
    /// Whether a token came since it got its place; before that it does not give way.
    pub(super) produced: bool,
    /// Leading pages that the pool knows by their tokens.
    pub(super) known_pages: u32,
    /// The chain that they form.
    pub(super) chain: Option<PrefixKey>,
    pub(super) sampler: Sampler<'a>,
    pub(super) usage: Usage,
    /// Set when the request is over but rows of it are still in flight.
    pub(super) ending: Option<FinishReason>,
}

impl<'a> Sequence<'a> {
    /// A request that waits for a place; its lists have room for all that it may hold.
    pub(super) fn waiting(
        id: RequestId,
        (tokens, pages): (Vec<'a, TokenId>, Vec<'a, PageId>),
        limit: u32,
        sampler: Sampler<'a>,
        now: Nanos,
    ) -> Self {
        let prompt = tokens.len() as u32;
        Self {
            id,
            tokens,
            prompt,
            computed: 0,
            limit,
            limited_by_context: false,
            ignore_end: false,
            reading: None,
            skip_cache: false,
            pages,
            running: false,
            produced: false,
            known_pages: 0,
            chain: None,
            sampler,
            usage: Usage { prompt_tokens: prompt, submitted: now, ..Usage::default() },
            ending: None,
        }
    }
}

impl Sequence<'_> {
    /// Tokens not yet computed.
    pub(super) fn pending(&self) -> u32 {
        self.len() - self.computed
    }

    /// Whether the next step of it is a decode row.
    pub(super) fn decodes(&self) -> bool {
        self.reading.is_none() && self.computed >= self.prompt && self.pending() == 1
    }

    /// Pages that it may find in the cache. The last token is always computed, since its logits are wanted; of a reading
    /// all are.
    pub(super) fn findable(&self) -> u32 {
        if self.skip_cache { 0 } else { (self.len() - 1) / PAGE_TOKENS as u32 }
    }

    /// Whether it may come to need another page.
    pub(super) fn grows(&self) -> bool {
        (self.pages.len() as u32) < pages_of(self.limit)
    }

    pub(super) fn len(&self) -> u32 {
        // Bounded by `limit`.
        self.tokens.len() as u32
    }

    /// The tokens of a full page.
    pub(super) fn page_tokens(&self, page: u32) -> Option<&[TokenId; PAGE_TOKENS]> {
        let start = page as usize * PAGE_TOKENS;
        self.tokens.get(start..)?.first_chunk()
    }

    /// Lets the pool know the pages that are full and computed.
    pub(super) fn register(&mut self, pool: &mut BlockPool<'_>) {
        while (self.known_pages + 1) * PAGE_TOKENS as u32 <= self.computed {
            let Some(tokens) = self.page_tokens(self.known_pages) else { return };
            let page = self.pages[self.known_pages as usize];
            self.chain = Some(pool.insert(page, self.chain, tokens));
            self.known_pages += 1;
        }
    }

    /// Gives all pages back, tails first, and waits for a place.
    pub(super) fn vacate(&mut self, pool: &mut BlockPool<'_>) {
        while let Some(page) = self.pages.pop() {
            pool.release(page);
        }
        self.running = false;
        self.produced = false;
        self.computed = 0;
        self.known_pages = 0;
        self.chain = None;
    }
}
