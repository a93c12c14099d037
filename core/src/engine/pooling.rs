//! Pooling requests: texts that are computed and not continued, for the hidden state or the logits of every token.
//!
//! A pooling request is admitted and has pages like any other. All its rows are outputs, so that they come in steps of
//! their own, of few rows, which alternate with the steps that generate.

use super::engine::Engine;
use super::event::{Event, FinishReason, Nanos};
use super::request::{PoolingOutput, PoolingRequest, SubmitError};
use super::state::{Live, RequestState};
use crate::backend::{Backend, Output};
use crate::heap;
use crate::model::Model;
use crate::sample::{Sampler, SamplerParams, SamplerScope};
use crate::scheduler::{NewSequence, StepKind};

impl<B: Backend> Engine<'_, '_, B> {
    /// Accepts a pooling request. Its output is reported as [`Event::Pooled`] for each token, its end as
    /// [`Event::Finished`].
    ///
    /// # Errors
    /// [`SubmitError`]; nothing has changed then.
    pub fn submit_pooling(&mut self, request: &PoolingRequest<'_>, now: Nanos) -> Result<(), SubmitError> {
        if self.plans.pooling.is_none() {
            return Err(SubmitError::PoolingDisabled);
        }
        let limit = self.check_text(request.tokens)?;
        self.check_pages(limit)?;
        // never used, so that it needs no memory
        let vocab_len = self.model.vocabulary as usize;
        let scope = SamplerScope { request: 0, vocab_len, context_len: 0, breakers: None };
        let sampler = Sampler::new(&SamplerParams::default(), &[], scope, self.heap);
        let sampler = sampler.map_err(SubmitError::Sampler)?;
        let state = RequestState { pooling: Some(request.output), ..RequestState::new(sampler, limit, now) };
        let tokens = heap::copied(self.heap, request.tokens)?;
        let new = NewSequence { id: request.id, tokens, limit, pooling: true, skip_cache: true, state };
        Ok(self.scheduler.submit(new)?)
    }

    /// The output that the request of the scheduler's batch asks for, if it is a pooling step.
    pub(super) fn pooling_output(&self) -> Option<PoolingOutput> {
        let batch = self.scheduler.batch();
        let request = batch.requests.first().filter(|_| batch.kind == StepKind::Pooling)?;
        let live = self.scheduler.sequences().iter().find(|live| live.id() == *request)?;
        live.state.pooling
    }

    /// Reports the output of a pooling step of `rows` rows.
    pub(super) fn collect_pooling(
        live: &mut Live<'_>,
        model: &Model<'_>,
        output: Output<'_>,
        rows: u32,
        sink: &mut dyn FnMut(Event<'_>),
    ) {
        let (values, width) = match output {
            Output::Hidden(values) => (values, model.hparams.width),
            Output::Logits(values) => (values, model.vocabulary),
            // the backend returned another kind of output than the plan's
            Output::Tokens(_) => {
                live.state.ending = Some(FinishReason::DeviceFailed);
                return;
            }
        };
        let first = live.computed().saturating_sub(rows);
        for (position, row) in (first..).zip(values.chunks_exact(width as usize)) {
            sink(Event::Pooled { request: live.id(), position, row });
        }
        if live.pending() == 0 {
            live.state.ending = Some(FinishReason::Pooled);
        }
    }
}
