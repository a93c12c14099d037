//! One step: collect what the device has finished, then form and submit the next batch.

use super::admit::Engine;
use super::config::EngineError;
use super::constraints::{TokenConstraints, Unconstrained};
use super::event::{Event, FinishReason, Nanos, Progress};
use super::sequence::Sequence;
use crate::backend::{Backend, Output};
use crate::plan::{Batch, PageSpan, PageTables, RowRun};
use crate::sample::Sampled;
use crate::token::TokenId;

impl<B: Backend> Engine<'_, '_, B> {
    /// Collects the step in flight if it is done, reports what happened to `sink`, and starts the next step.
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

    /// As [`Engine::poll`]; `constraints` is asked which tokens may be picked, and told which were.
    ///
    /// # Errors
    /// As [`Engine::poll`].
    pub fn poll_constrained(
        &mut self,
        now: Nanos,
        constraints: &mut dyn TokenConstraints,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<Progress, EngineError<B::Error>> {
        if self.step.in_flight && !self.collect(now, constraints, sink)? {
            return Ok(Progress::Waiting);
        }
        self.retire(now, sink);
        self.form_batch(now, constraints, sink);
        if self.step.tokens.is_empty() {
            return Ok(Progress::Idle);
        }
        let reading = self.step.reading.zip(self.pooling_plans.as_ref());
        let chain = self.chain_plan.as_ref().filter(|_| self.step.steps > 1);
        let plan = if let Some((wanted, plans)) = reading {
            plans.of(wanted)
        } else if let Some(plan) = chain {
            plan
        } else if self.step.tokens.len() > self.decode_plan.shape.rows as usize {
            &self.full_plan
        } else {
            &self.decode_plan
        };
        let step = &self.step;
        let tables = PageTables { pages: &step.pages, spans: &step.spans, groups: self.model.groups.len() };
        let batch = Batch { tokens: &step.tokens, runs: &step.runs, outputs: &step.outputs, tables };
        let submitted = match step.steps {
            0 | 1 => self.backend.submit(plan, &batch),
            steps => self.backend.submit_multi_step(plan, &batch, steps),
        };
        if let Err(error) = submitted {
            return Err(self.fail(error));
        }
        self.step.in_flight = true;
        self.step.left = self.step.steps;
        self.step.submitted = now;
        Ok(Progress::Waiting)
    }

    /// Ends all requests with rows in the failed step.
    fn fail(&mut self, error: B::Error) -> EngineError<B::Error> {
        self.step.in_flight = false;
        self.step.left = 0;
        for sequence in self.sequences.iter_mut().filter(|sequence| self.step.requests.contains(&sequence.id))
        {
            sequence.ending = Some(FinishReason::DeviceFailed);
        }
        EngineError::Backend(error)
    }

    /// Samples the finished step's outputs; `false` while it, or another of its chain, runs.
    fn collect(
        &mut self,
        now: Nanos,
        constraints: &mut dyn TokenConstraints,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<bool, EngineError<B::Error>> {
        let output = match self.backend.poll() {
            Ok(None) => return Ok(false),
            Ok(Some(output)) => output,
            Err(error) => return Err(self.fail(error)),
        };
        self.step.left = self.step.left.saturating_sub(1);
        self.step.in_flight = self.step.left > 0;
        let (rows, chained) = (self.step.tokens.len() as u32, self.step.steps > 1);
        let time = now.0.saturating_sub(self.step.submitted.0);
        if self.step.reading.is_none() && !self.step.in_flight {
            // a run of one row is a decode row, or counts like one
            if rows as usize == self.step.runs.len() {
                self.pacing.record_steps(self.step.steps, time);
            } else {
                self.pacing.record_rows(rows, time);
            }
        }
        let vocabulary = self.model.vocabulary as usize;
        for sequence in self.sequences.iter_mut().filter(|sequence| self.step.requests.contains(&sequence.id))
        {
            sequence.register(&mut self.pool);
            if sequence.computed <= sequence.prompt {
                let (request, total) = (sequence.id, sequence.prompt);
                sink(Event::Prefill { request, done: sequence.computed, total });
            }
            if self.step.reading.is_some() && sequence.ending.is_none() {
                Self::collect_reading(sequence, self.model, output, rows, sink);
            }
        }
        for (row, &owner) in self.step.owners.iter().enumerate() {
            let Some(sequence) = self.sequences.iter_mut().find(|sequence| sequence.id == owner) else {
                continue;
            };
            if sequence.ending.is_some() {
                continue;
            }
            if chained {
                let ends = (&self.end_tokens[..], self.step.in_flight);
                let token = Self::collect_chained(sequence, row, output, ends, now, sink);
                token.into_iter().for_each(|token| constraints.accept(owner, token));
                continue;
            }
            let Some(logits) = logits_of(output, row, vocabulary) else {
                // the plan asked for something else
                sequence.ending = Some(FinishReason::DeviceFailed);
                continue;
            };
            let position = sequence.len();
            match sequence.sampler.sample(logits, position, constraints.mask(owner), &mut self.scratch) {
                Ok(sampled) => {
                    constraints.accept(owner, sampled.token);
                    extend(sequence, &sampled, &self.end_tokens, now, sink);
                }
                Err(error) => sequence.ending = Some(FinishReason::Sampling(error)),
            }
        }
        Ok(!self.step.in_flight)
    }

    /// Reports and drops the requests that are over.
    fn retire(&mut self, now: Nanos, sink: &mut dyn FnMut(Event<'_>)) {
        let mut index = 0;
        while let Some(sequence) = self.sequences.get_mut(index) {
            let Some(reason) = sequence.ending else {
                index += 1;
                continue;
            };
            sequence.usage.finished = now;
            sequence.vacate(&mut self.pool);
            sink(Event::Finished { request: sequence.id, reason, usage: sequence.usage });
            self.sequences.remove(index);
        }
    }

    /// Decode rows of all sequences first, then prompt rows while there is room.
    fn form_batch(
        &mut self,
        now: Nanos,
        constraints: &dyn TokenConstraints,
        sink: &mut dyn FnMut(Event<'_>),
    ) {
        self.step.clear();
        self.seat(now, sink);
        if self.form_reading() {
            return;
        }
        self.step.steps = self.take_chain(constraints);
        self.form_text_batch();
        if self.step.tokens.is_empty() {
            // whoever waits for pages gets them when the readings are done
            self.step.steps = 1;
            self.form_reading();
        }
    }

    fn form_text_batch(&mut self) {
        let room = self.config.largest_shape().rows;
        let mut rows = 0;
        for index in 0..self.sequences.len() {
            let sequence = &self.sequences[index];
            if sequence.running && sequence.decodes() && self.make_room(index) {
                rows += self.add_rows(index, rows, 1);
            }
        }
        self.add_prompts(rows, self.pacing.prompt_rows(rows > 0, room - rows));
    }

    /// Shares `room` rows among prompts. The earliest gets half of them, so that it ends whoever comes; the others get
    /// the rest by what they lack, so that a short prompt does not wait for the end of a long one.
    fn add_prompts(&mut self, mut rows: u32, mut room: u32) {
        let wants = |sequence: &Sequence<'_>| {
            sequence.running && sequence.reading.is_none() && !sequence.decodes() && sequence.pending() > 0
        };
        let Some(earliest) = self.sequences.iter().position(wants) else { return };
        let later = earliest + 1;
        let others = self.sequences[later..].iter().filter(|sequence| wants(sequence));
        let wanted = others.fold(0, |sum: u32, sequence| sum.saturating_add(sequence.pending()));
        let mut next = Some((earliest, room.saturating_sub(wanted).max(room.div_ceil(2))));
        while let Some((index, most)) = next.filter(|_| room > 0) {
            let added = self.add_rows(index, rows, most.min(room));
            rows += added;
            room -= added;
            let others = self.sequences[later..].iter().enumerate().filter(|(_, sequence)| wants(sequence));
            let shortest = others.min_by_key(|(_, sequence)| sequence.pending());
            next = shortest.map(|(index, _)| (later + index, room));
        }
    }

    /// Adds up to `most` pending tokens of a sequence to the batch; gives how many.
    fn add_rows(&mut self, index: usize, first_row: u32, most: u32) -> u32 {
        let sequence = &mut self.sequences[index];
        let count = sequence.pending().min(most);
        if count > 0 {
            self.step.add(sequence, first_row, count, self.model.groups.len());
        }
        count
    }
}

/// Appends a picked token, or ends the request.
pub(super) fn extend(
    sequence: &mut Sequence<'_>,
    sampled: &Sampled,
    end_tokens: &[TokenId],
    now: Nanos,
    sink: &mut dyn FnMut(Event<'_>),
) {
    let token = sampled.token;
    if sequence.usage.generated_tokens == 0 {
        sequence.usage.first_token = now;
    }
    if !sequence.ignore_end && end_tokens.binary_search(&token).is_ok() {
        sequence.ending = Some(FinishReason::EndOfGeneration(token));
        return;
    }
    if sequence.len() < sequence.limit {
        sequence.tokens.push(token);
        sequence.sampler.accept(token);
        sequence.usage.generated_tokens += 1;
        sequence.produced = true;
        sink(Event::Token { request: sequence.id, token, logprobs: sampled.logprobs.as_ref() });
    }
    if sequence.len() >= sequence.limit {
        let reason =
            if sequence.limited_by_context { FinishReason::ContextFull } else { FinishReason::MaxTokens };
        sequence.ending = Some(reason);
    }
}

impl super::admit::StepBuffers<'_> {
    fn clear(&mut self) {
        self.reading = None;
        self.steps = 1;
        self.tokens.clear();
        self.runs.clear();
        self.outputs.clear();
        self.owners.clear();
        self.requests.clear();
        self.pages.clear();
        self.spans.clear();
    }

    /// Adds the next `count` tokens of a sequence as rows from `first_row`; buffers have room for all sequences.
    pub(super) fn add(&mut self, sequence: &mut Sequence<'_>, first_row: u32, count: u32, groups: usize) {
        let from = sequence.computed as usize;
        self.tokens.extend_from_slice(&sequence.tokens[from..from + count as usize]);
        let run = RowRun {
            sequence: self.requests.len() as u32,
            first_row,
            rows: count,
            position: sequence.computed,
        };
        self.runs.push(run);
        self.requests.push(sequence.id);
        let span = PageSpan { start: self.pages.len() as u32, len: sequence.pages.len() as u32 };
        self.pages.extend_from_slice(&sequence.pages);
        self.spans.extend((0..groups).map(|_| span));
        sequence.computed += count;
        if sequence.pending() == 0 {
            self.outputs.push(first_row + count - 1);
            self.owners.push(sequence.id);
        }
    }
}

/// A row of the logits, `[vocabulary]`, if the device gave it.
fn logits_of(output: Output<'_>, row: usize, vocabulary: usize) -> Option<&[f32]> {
    let Output::Logits(logits) = output else { return None };
    logits.get(row * vocabulary..(row + 1) * vocabulary)
}
