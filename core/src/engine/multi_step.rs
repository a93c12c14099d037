//! Multi-step batches: the device runs several steps in a row and feeds itself the tokens that it picks.
//!
//! Only greedy requests without a constraint can run so, because their next tokens follow from the logits alone. Tokens
//! come back one step at a time. The end of a request is found here; tokens that the device picked beyond it are
//! dropped.

use super::engine::Engine;
use super::event::{Event, FinishReason, Nanos};
use super::state::{Live, extend};
use crate::backend::{Backend, Output, UNPICKED};
use crate::sample::{SampleError, Sampled};
use crate::token::TokenId;

impl<B: Backend> Engine<'_, '_, B> {
    /// Takes the token that one step has picked for an output row, and returns it.
    pub(super) fn collect_multi_step(
        live: &mut Live<'_>,
        row: usize,
        output: Output<'_>,
        end_tokens: &[TokenId],
        now: Nanos,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Option<TokenId> {
        let picked = if let Output::Tokens(tokens) = output { tokens.get(row) } else { None };
        let Some(&token) = picked else {
            // the backend returned another kind of output than the plan's
            live.state.ending = Some(FinishReason::DeviceFailed);
            return None;
        };
        if token == UNPICKED {
            live.state.ending = Some(FinishReason::Sampling(SampleError::Unpicked));
            return None;
        }
        let sampled = Sampled { token, probability: 1.0, logprobs: None };
        extend(live, &sampled, end_tokens, now, sink);
        Some(token)
    }
}
