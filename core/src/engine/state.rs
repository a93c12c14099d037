//! The engine's data of one live request, beside what the scheduler has of it.

use super::event::{Event, FinishReason, Nanos, Usage};
use super::request::PoolingOutput;
use crate::sample::{Sampled, Sampler};
use crate::scheduler::Sequence;
use crate::token::TokenId;

/// Sampler, counts and end of a live request.
pub(super) struct RequestState<'a> {
    /// True if the sequence's limit is the context's and not the request's.
    pub(super) limited_by_context: bool,
    /// True if the request generates past tokens that end a turn.
    pub(super) ignore_end: bool,
    /// The output of a pooling request.
    pub(super) pooling: Option<PoolingOutput>,
    pub(super) sampler: Sampler<'a>,
    pub(super) usage: Usage,
    /// Set when the request is over; the next poll removes it.
    pub(super) ending: Option<FinishReason>,
}

impl<'a> RequestState<'a> {
    pub(super) fn new(sampler: Sampler<'a>, prompt_tokens: u32, now: Nanos) -> Self {
        Self {
            limited_by_context: false,
            ignore_end: false,
            pooling: None,
            sampler,
            usage: Usage { prompt_tokens, submitted: now, ..Usage::default() },
            ending: None,
        }
    }
}

/// A live request.
pub(super) type Live<'a> = Sequence<'a, RequestState<'a>>;

/// Appends a picked token and reports it, or ends the request.
pub(super) fn extend(
    live: &mut Live<'_>,
    sampled: &Sampled,
    end_tokens: &[TokenId],
    now: Nanos,
    sink: &mut dyn FnMut(Event<'_>),
) {
    let token = sampled.token;
    if live.state.usage.generated_tokens == 0 {
        live.state.usage.first_token = now;
    }
    if !live.state.ignore_end && end_tokens.binary_search(&token).is_ok() {
        live.state.ending = Some(FinishReason::EndOfGeneration(token));
        return;
    }
    if live.len() < live.limit() {
        live.append(token);
        live.state.sampler.accept(token);
        live.state.usage.generated_tokens += 1;
        sink(Event::Token { request: live.id(), token, logprobs: sampled.logprobs.as_ref() });
    }
    if live.len() >= live.limit() {
        let context = live.state.limited_by_context;
        let reason = if context { FinishReason::ContextFull } else { FinishReason::MaxTokens };
        live.state.ending = Some(reason);
    }
}
