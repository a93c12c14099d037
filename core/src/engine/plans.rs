//! The plans of an engine, one per kind of step.

use super::error::EngineError;
use super::request::PoolingOutput;
use crate::backend::Backend;
use crate::heap::Heap;
use crate::model::Model;
use crate::plan::{HeadResult, Plan, PlanError};
use crate::scheduler::{Config, StepBatch};

/// The plans of steps that generate.
pub(super) struct StepPlans<'m> {
    /// Decode rows only.
    pub(super) decode: Plan<'m>,
    /// Any rows.
    pub(super) full: Plan<'m>,
    /// Steps that feed each other, if the device supports them.
    pub(super) multi_step: Option<Plan<'m>>,
    /// Steps of pooling requests, if they are accepted.
    pub(super) pooling: Option<PoolingPlans<'m>>,
}

/// The plans of pooling steps, one for each output.
pub(super) struct PoolingPlans<'m> {
    hidden: Plan<'m>,
    logits: Plan<'m>,
}

impl<'m> PoolingPlans<'m> {
    /// `None` if the limits accept no pooling requests.
    pub(super) fn new(config: &Config, model: &Model<'_>, heap: Heap<'m>) -> Result<Option<Self>, PlanError> {
        let Some(shape) = config.pooling_shape() else { return Ok(None) };
        let hidden = model.plan(shape, HeadResult::Hidden, heap)?;
        let logits = model.plan(shape, HeadResult::Logits, heap)?;
        Ok(Some(Self { hidden, logits }))
    }

    fn of(&self, output: PoolingOutput) -> &Plan<'m> {
        match output {
            PoolingOutput::Hidden => &self.hidden,
            PoolingOutput::Logits => &self.logits,
        }
    }

    /// Bytes of heap of both plans.
    pub(super) fn heap_bytes(&self) -> usize {
        self.hidden.heap_bytes().saturating_add(self.logits.heap_bytes())
    }

    /// Cells (4 bytes each) of the larger arena.
    pub(super) fn arena(&self) -> usize {
        self.hidden.arena.max(self.logits.arena)
    }
}

impl<'m> StepPlans<'m> {
    /// The plans of steps under these limits, without the multi-step plan, which only the backend can allow.
    pub(super) fn new(config: &Config, model: &Model<'_>, heap: Heap<'m>) -> Result<Self, PlanError> {
        Ok(Self {
            decode: model.plan(config.decode_shape(), HeadResult::Logits, heap)?,
            full: model.plan(config.largest_shape(), HeadResult::Logits, heap)?,
            pooling: PoolingPlans::new(config, model, heap)?,
            multi_step: None,
        })
    }

    /// Reserves the backend's memory for all plans so far.
    pub(super) fn reserve<B: Backend>(&self, backend: &mut B) -> Result<(), B::Error> {
        backend.reserve(&self.full)?;
        backend.reserve(&self.decode)?;
        for plan in self.pooling.iter().flat_map(|plans| [&plans.hidden, &plans.logits]) {
            backend.reserve(plan)?;
        }
        Ok(())
    }

    /// Makes and reserves the multi-step plan if the backend supports it.
    pub(super) fn add_multi_step<B: Backend>(
        &mut self,
        backend: &mut B,
        config: &Config,
        model: &Model<'_>,
        heap: Heap<'m>,
    ) -> Result<(), EngineError<B::Error>> {
        if backend.supports_multi_step() {
            let plan = model.plan(config.decode_shape(), HeadResult::ArgMax, heap)?;
            backend.reserve(&plan).map_err(EngineError::Backend)?;
            self.multi_step = (backend.max_steps(&plan) > 1).then_some(plan);
        }
        Ok(())
    }

    /// Most steps that can be submitted at once.
    pub(super) fn max_steps<B: Backend>(&self, backend: &B) -> u32 {
        self.multi_step.as_ref().map_or(1, |plan| backend.max_steps(plan))
    }

    /// The plan of a batch; `pooling` is the output of its request if it is a pooling step.
    pub(super) fn of(&self, batch: &StepBatch<'_>, pooling: Option<PoolingOutput>) -> &Plan<'m> {
        if let Some((output, plans)) = pooling.zip(self.pooling.as_ref()) {
            return plans.of(output);
        }
        match &self.multi_step {
            Some(plan) if batch.steps > 1 => plan,
            _ if batch.input.rows() > self.decode.shape.rows as usize => &self.full,
            _ => &self.decode,
        }
    }
}
