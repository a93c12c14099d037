//! Readings: texts that are read and not continued, for the hidden state or the scores behind every token.
//!
//! A reading has a place and pages as a request for text has. Its rows are all wanted, so they come in steps of their
//! own, of few rows, which take turns with the steps of the others.

use super::admit::Engine;
use super::config::{Config, pages_of};
use super::event::{Event, FinishReason, Nanos};
use super::request::{PoolingOutput, PoolingRequest, SubmitError};
use super::sequence::Sequence;
use crate::backend::{Backend, Output};
use crate::heap::{self, Heap};
use crate::model::Model;
use crate::plan::{HeadResult, Plan, PlanError, Shape};
use crate::sample::{Sampler, SamplerParams, SamplerScope};

/// The plans of readings, where an engine takes them.
pub(super) struct PoolingPlans<'m> {
    hidden: Plan<'m>,
    logits: Plan<'m>,
}

impl<'m> PoolingPlans<'m> {
    /// `None` where no readings are taken.
    pub(super) fn new(config: &Config, model: &Model<'_>, heap: Heap<'m>) -> Result<Option<Self>, PlanError> {
        let Some(shape) = config.pooling_shape() else { return Ok(None) };
        let hidden = model.plan(shape, HeadResult::Hidden, heap)?;
        let logits = model.plan(shape, HeadResult::Logits, heap)?;
        Ok(Some(Self { hidden, logits }))
    }

    pub(super) fn of(&self, wanted: PoolingOutput) -> &Plan<'m> {
        match wanted {
            PoolingOutput::Hidden => &self.hidden,
            PoolingOutput::Logits => &self.logits,
        }
    }

    /// Bytes of both, and floats of the larger arena.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let bytes = self.hidden.heap_bytes().saturating_add(self.logits.heap_bytes());
        (bytes, self.hidden.arena.max(self.logits.arena))
    }

    pub(super) fn both(&self) -> [&Plan<'m>; 2] {
        [&self.hidden, &self.logits]
    }
}

impl Config {
    /// The shape of a step of a reading.
    pub(super) fn pooling_shape(&self) -> Option<Shape> {
        (self.pooling_rows > 0).then_some(Shape { rows: self.pooling_rows, outputs: self.pooling_rows })
    }
}

impl<B: Backend> Engine<'_, '_, B> {
    /// Takes a reading. What came of it is told token by token, the end as that of a request.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing has changed then.
    pub fn submit_pooling(&mut self, reading: &PoolingRequest<'_>, now: Nanos) -> Result<(), SubmitError> {
        if self.pooling_plans.is_none() {
            return Err(SubmitError::PoolingDisabled);
        }
        let tokens = self.acceptable(reading.tokens)?;
        let needed = pages_of(tokens);
        let total = self.pool.total();
        if needed > total {
            return Err(SubmitError::NeverFits { needed, total });
        }
        // never asked, so it remembers nothing
        let scope = SamplerScope {
            request: 0,
            vocab_len: self.model.vocabulary as usize,
            context_len: 0,
            breakers: None,
        };
        let sampler = Sampler::new(&SamplerParams::default(), &[], scope, self.heap);
        let sampler = sampler.map_err(SubmitError::Sampler)?;
        let pages = heap::with_capacity(self.heap, needed as usize)?;
        let lists = (heap::copied(self.heap, reading.tokens)?, pages);
        self.sequences.push(Sequence {
            ignore_end: true,
            reading: Some(reading.output),
            skip_cache: true,
            ..Sequence::waiting(reading.id, lists, tokens, sampler, now)
        });
        Ok(())
    }

    /// Forms a step of the earliest reading, if it is a reading's turn; whether it did.
    pub(super) fn form_reading(&mut self) -> bool {
        let others = self.sequences.iter().any(|other| other.running && other.reading.is_none());
        if core::mem::take(&mut self.step.read_last) && others {
            return false;
        }
        let reading = self.sequences.iter_mut().find(|other| other.running && other.reading.is_some());
        let Some(sequence) = reading else { return false };
        let count = sequence.pending().min(self.config.pooling_rows);
        self.step.add(sequence, 0, count, self.model.groups.len());
        self.step.outputs.clear();
        self.step.outputs.extend(0..count);
        self.step.owners.clear();
        self.step.reading = sequence.reading;
        self.step.read_last = true;
        true
    }

    /// Tells what a step of a reading gave.
    pub(super) fn collect_reading(
        sequence: &mut Sequence<'_>,
        model: &Model<'_>,
        output: Output<'_>,
        rows: u32,
        sink: &mut dyn FnMut(Event<'_>),
    ) {
        let (values, width) = match output {
            Output::Hidden(values) => (values, model.hparams.width),
            Output::Logits(values) => (values, model.vocabulary),
            // the plan asked for something else
            Output::Tokens(_) => {
                sequence.ending = Some(FinishReason::DeviceFailed);
                return;
            }
        };
        let first = sequence.computed.saturating_sub(rows);
        for (position, row) in (first..).zip(values.chunks_exact(width as usize)) {
            sink(Event::Pooled { request: sequence.id, position, row });
        }
        if sequence.pending() == 0 {
            sequence.ending = Some(FinishReason::Pooled);
        }
    }
}
