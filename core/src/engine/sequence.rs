//! One live request: its tokens, how many are computed, its pages and its sampler.

use super::event::{FinishReason, RequestId, Usage};
use crate::heap::Vec;
use crate::plan::PageId;
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
    pub(super) pages: Vec<'a, PageId>,
    pub(super) sampler: Sampler<'a>,
    pub(super) usage: Usage,
    /// Set when the request is over but rows of it are still in flight.
    pub(super) ending: Option<FinishReason>,
}

impl Sequence<'_> {
    /// Tokens not yet computed.
    pub(super) fn pending(&self) -> u32 {
        self.len() - self.computed
    }

    /// Whether the next step of it is a decode row.
    pub(super) fn decodes(&self) -> bool {
        self.computed >= self.prompt
    }

    pub(super) fn len(&self) -> u32 {
        // Bounded by `limit`.
        self.tokens.len() as u32
    }
}
