//! One step: collect the output of the last batch, report, then schedule and submit the next batch.

use super::constraints::{TokenConstraints, Unconstrained};
use super::engine::{Engine, InFlight};
use super::error::EngineError;
use super::event::{Event, FinishReason, Nanos, Progress};
use super::state::extend;
use crate::backend::{Backend, Output};
use crate::scheduler::StepKind;

impl<B: Backend> Engine<'_, '_, B> {
    /// Collects the step in flight if it is done, reports events to `sink`, and starts the next step.
    ///
    /// Bounded work: at most one step is collected and one submitted. A blocking backend computes within the call.
    ///
    /// # Errors
    /// [`EngineError::Backend`]: requests with rows in flight are lost; the next poll reports their end.
    pub fn poll(
        &mut self,
        now: Nanos,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<Progress, EngineError<B::Error>> {
        self.poll_constrained(now, &mut Unconstrained, sink)
    }

    /// As [`Engine::poll`]; `constraints` restrict the tokens of some requests and are updated with those picked.
    ///
    /// # Errors
    /// As [`Engine::poll`].
    pub fn poll_constrained(
        &mut self,
        now: Nanos,
        constraints: &mut dyn TokenConstraints,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<Progress, EngineError<B::Error>> {
        if self.in_flight.is_some() && !self.collect(now, constraints, sink)? {
            return Ok(Progress::Waiting);
        }
        self.retire(now, sink);
        let max_steps = self.plans.max_steps(&self.backend);
        let constraints = &*constraints;
        self.scheduler.schedule(max_steps, &|live| {
            live.state.sampler.is_greedy() && !constraints.is_constrained(live.id())
        });
        self.report_admitted(now, sink);
        if self.scheduler.batch().is_empty() {
            return Ok(Progress::Idle);
        }
        self.submit_batch(now)?;
        Ok(Progress::Waiting)
    }

    /// Reports the requests that the scheduler has just admitted for the first time.
    fn report_admitted(&mut self, now: Nanos, sink: &mut dyn FnMut(Event<'_>)) {
        for index in 0..self.scheduler.batch().admitted.len() {
            let request = self.scheduler.batch().admitted[index];
            let Some(live) = self.scheduler.get_mut(request) else { continue };
            live.state.usage.started = now;
            live.state.usage.cached_tokens = live.cached_tokens();
            sink(Event::Prefill { request, done: live.cached_tokens(), total: live.prompt_len() });
        }
    }

    /// Starts the scheduler's batch on the backend.
    fn submit_batch(&mut self, now: Nanos) -> Result<(), EngineError<B::Error>> {
        let pooling = self.pooling_output();
        let batch = self.scheduler.batch();
        for copy in batch.state_copies {
            self.backend.copy_state(copy.from, copy.to);
        }
        let plan = self.plans.of(&batch, pooling);
        let submitted = match batch.steps {
            0 | 1 => self.backend.submit(plan, &batch.input),
            steps => self.backend.submit_multi_step(plan, &batch.input, steps),
        };
        let steps_left = batch.steps;
        if let Err(error) = submitted {
            return Err(self.fail(error));
        }
        self.in_flight = Some(InFlight { steps_left, submitted: now });
        Ok(())
    }

    /// Ends all requests with rows in the failed step.
    fn fail(&mut self, error: B::Error) -> EngineError<B::Error> {
        self.in_flight = None;
        self.scheduler.in_step_mut().for_each(|live| live.state.ending = Some(FinishReason::DeviceFailed));
        EngineError::Backend(error)
    }

    /// Collects the output of the step in flight: reports progress and samples. False while the step, or a further one
    /// of the same batch, is in flight.
    fn collect(
        &mut self,
        now: Nanos,
        constraints: &mut dyn TokenConstraints,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<bool, EngineError<B::Error>> {
        let Some(InFlight { steps_left, submitted }) = self.in_flight else { return Ok(true) };
        let output = match self.backend.poll() {
            Ok(None) => return Ok(false),
            Ok(Some(output)) => output,
            Err(error) => return Err(self.fail(error)),
        };
        let steps_left = steps_left.saturating_sub(1);
        let is_last = steps_left == 0;
        self.in_flight = (!is_last).then_some(InFlight { steps_left, submitted });
        if is_last {
            self.scheduler.record_time(now.0.saturating_sub(submitted.0));
        }
        self.scheduler.register_computed();
        let batch = self.scheduler.batch();
        let (kind, steps, rows) = (batch.kind, batch.steps, batch.input.rows() as u32);
        for live in self.scheduler.in_step_mut() {
            let (request, total) = (live.id(), live.prompt_len());
            if live.computed() <= total {
                sink(Event::Prefill { request, done: live.computed(), total });
            }
            if kind == StepKind::Pooling && live.state.ending.is_none() {
                Self::collect_pooling(live, self.model, output, rows, sink);
            }
        }
        for row in 0..self.scheduler.batch().owners.len() {
            let owner = self.scheduler.batch().owners[row];
            let Some(live) = self.scheduler.get_mut(owner).filter(|live| live.state.ending.is_none()) else {
                continue;
            };
            if steps > 1 {
                let token = Self::collect_multi_step(live, row, output, &self.end_tokens, now, sink);
                token.into_iter().for_each(|token| constraints.accept(owner, token));
                if !is_last && live.state.ending.is_none() {
                    // the step that reads the token is in flight
                    live.advance();
                }
                continue;
            }
            let Some(logits) = logits_of(output, row, self.model.vocabulary as usize) else {
                // the backend returned another kind of output than the plan's
                live.state.ending = Some(FinishReason::DeviceFailed);
                continue;
            };
            let position = live.len();
            match live.state.sampler.sample(logits, position, constraints.mask(owner), &mut self.scratch) {
                Ok(sampled) => {
                    constraints.accept(owner, sampled.token);
                    extend(live, &sampled, &self.end_tokens, now, sink);
                }
                Err(error) => live.state.ending = Some(FinishReason::Sampling(error)),
            }
        }
        Ok(is_last)
    }

    /// Reports and removes the requests that are over.
    fn retire(&mut self, now: Nanos, sink: &mut dyn FnMut(Event<'_>)) {
        let mut index = 0;
        while let Some(live) = self.scheduler.sequences().get(index) {
            let Some(reason) = live.state.ending else {
                index += 1;
                continue;
            };
            if let FinishReason::Sampling(error) = reason
                && error.is_of_the_model()
            {
                // nobody knows which keys and values are wrong, and others would get them from the cache
                self.scheduler.disown_pages(index);
            }
            let Some(live) = self.scheduler.remove(index) else { break };
            let usage =
                super::event::Usage { preemptions: live.preemptions(), finished: now, ..live.state.usage };
            sink(Event::Finished { request: live.id(), reason, usage });
        }
    }
}

/// A row of the logits, `[vocabulary]`; `None` if the output is something else.
fn logits_of(output: Output<'_>, row: usize, vocabulary: usize) -> Option<&[f32]> {
    let Output::Logits(logits) = output else { return None };
    logits.get(row * vocabulary..(row + 1) * vocabulary)
}
