//! Chains: steps that the device runs one after another, feeding itself the tokens that it picks.
//!
//! Only greedy requests without a grammar can go that way: what is picked follows from the logits alone. Tokens come
//! back one step at a time; what ends a request is found here, and what the device picked beyond that is dropped.

use super::admit::Engine;
use super::config::pages_of;
use super::constraints::TokenConstraints;
use super::event::{Event, FinishReason, Nanos};
use super::sequence::Sequence;
use super::step::extend;
use crate::backend::{Backend, Output, UNPICKED};
use crate::sample::{SampleError, Sampled};
use crate::token::TokenId;

impl Sequence<'_> {
    /// Whether its next tokens follow from the logits alone.
    fn can_chain(&self, constraints: &dyn TokenConstraints) -> bool {
        self.decodes()
            && self.ending.is_none()
            && self.sampler.is_greedy()
            && !constraints.is_constrained(self.id)
    }
}

impl<B: Backend> Engine<'_, '_, B> {
    /// Steps that the next batch can run in a chain, with pages for all of them; 1 is a step by itself.
    pub(super) fn take_chain(&mut self, constraints: &dyn TokenConstraints) -> u32 {
        let Some(plan) = &self.chain_plan else { return 1 };
        let mut steps = self.backend.max_steps(plan).min(self.pacing.steps());
        for sequence in self.sequences.iter().filter(|sequence| sequence.running) {
            if !sequence.can_chain(constraints) {
                return 1;
            }
            steps = steps.min(sequence.limit.saturating_sub(sequence.len()));
        }
        if steps <= 1 {
            return 1;
        }
        let running = || self.sequences.iter().filter(|sequence| sequence.running);
        let missing: u32 = running().map(|sequence| sequence.missing_pages(steps)).sum();
        if running().next().is_none() || missing > self.pool.available() {
            return 1;
        }
        for sequence in self.sequences.iter_mut().filter(|sequence| sequence.running) {
            let missing = sequence.missing_pages(steps);
            sequence.pages.extend((0..missing).map_while(|_| self.pool.allocate()));
        }
        steps
    }

    /// Tells the tokens that one step of a chain has picked.
    pub(super) fn collect_chained(
        sequence: &mut Sequence<'_>,
        row: usize,
        output: Output<'_>,
        (end_tokens, more): (&[TokenId], bool),
        now: Nanos,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Option<TokenId> {
        let picked = if let Output::Tokens(tokens) = output { tokens.get(row) } else { None };
        let Some(&token) = picked else {
            // The plan asked for something else.
            sequence.ending = Some(FinishReason::DeviceFailed);
            return None;
        };
        if token == UNPICKED {
            sequence.ending = Some(FinishReason::Sampling(SampleError::Unpicked));
            return None;
        }
        let sampled = Sampled { token, probability: 1.0, logprobs: None };
        extend(sequence, &sampled, end_tokens, now, sink);
        if more && sequence.ending.is_none() {
            // The step that reads it is in flight.
            sequence.computed += 1;
        }
        Some(token)
    }
}

impl Sequence<'_> {
    /// Pages that it lacks for so many steps of one row.
    fn missing_pages(&self, steps: u32) -> u32 {
        pages_of(self.computed.saturating_add(steps)).saturating_sub(self.pages.len() as u32)
    }
}
