//! One thread's walk through a plan, and the phases of the simple operations.

use super::context::Context;
use super::local::{Local, OwnActivations, Work};
use super::sizes::OWN_ROWS;
use crate::elementwise::{NormAdd, SigmoidGate};
use crate::phase::{Phases, Region};
use crate::product::Weights;
use doorbell_core::plan::{self, Matrix, Op, TensorId, Update, WeightId};
use doorbell_core::quant;

/// One thread's part in a step.
pub(super) struct Step<'s, 'h> {
    pub(super) context: &'s Context<'s>,
    pub(super) work: &'s mut Work<'h>,
}

/// Runs the operations of a step on this thread.
pub(super) fn run(context: &Context<'_>, phases: &mut Phases<'_>, local: &mut Local<'_>) {
    let Local { own, work } = local;
    Step { context, work }.run(phases, own);
}

impl<'s> Step<'s, '_> {
    fn run(&mut self, phases: &mut Phases<'_>, own: &mut OwnActivations<'_>) {
        self.angles(phases);
        let ops = &self.context.plan.ops[self.context.ops.clone()];
        let mut deferred = None;
        for (index, op) in ops.iter().enumerate() {
            match op {
                Op::Embed { table, scale, out } => self.embed(phases, *table, *scale, *out),
                Op::Select { input, out } => self.select(phases, *input, *out),
                Op::Project(op) => self.project(phases, own, op),
                Op::Rotate(op) => self.rotate(phases, op),
                Op::Attend(op) => {
                    self.attend(phases, op);
                    if let Some(gate) = op.gate {
                        self.gate_rows(phases, op.out, gate);
                    }
                }
                Op::DeltaNet(op) => self.delta_net(phases, op),
                Op::Route(op) => {
                    self.router_products(phases, own, op);
                    match ops.get(index + 1) {
                        Some(Op::Experts(next)) if self.defers_choice(op, next) => deferred = Some(op),
                        _ => self.route(phases, op),
                    }
                }
                Op::Experts(op) => self.experts(phases, own, op, deferred.take()),
                Op::NormAdd(op) => self.norm_add(phases, op),
                Op::Head(op) => self.head(phases, own, op),
            }
        }
    }

    /// Cosines and sines of every rotary embedding at every row's position, once per step.
    fn angles(&self, phases: &mut Phases<'_>) {
        let context = self.context;
        let floats = context.angle_floats();
        let rows = Region::floats(context.buffers.angles, 0, context.positions.len(), floats);
        let cuts = [rows.by_rows(floats)];
        let phase = phases.open(&cuts);
        while let Some(mut task) = phase.next_task() {
            let row = task.first();
            let mut share = task.share(0);
            let mut rest = share.floats(0);
            for rope in &context.model.ropes {
                let pairs = rope.frequencies.len();
                let (angles, after) = rest.split_at_mut(2 * pairs);
                let (cos, sin) = angles.split_at_mut(pairs);
                rope.angles(context.positions[row].position, cos, sin);
                rest = after;
            }
        }
        phase.end();
    }

    fn embed(&self, phases: &mut Phases<'_>, table: WeightId, scale: f32, out: TensorId) {
        let context = self.context;
        let weight = context.model.weight(table);
        let cuts = [context.region(out).by_rows(weight.cols)];
        let phase = phases.open(&cuts);
        while let Some(mut task) = phase.next_task() {
            let token = context.batch.tokens[task.first()].0 as usize;
            let mut share = task.share(0);
            let to = share.floats(0);
            // The binder has checked type and length, the batch its tokens.
            let _ = quant::dequantize(weight.ty, weight.slice(0, token, 1), to);
            to.iter_mut().for_each(|x| *x *= scale);
        }
        phase.end();
    }

    fn select(&self, phases: &mut Phases<'_>, input: TensorId, out: TensorId) {
        let context = self.context;
        let cuts = [context.region(out).by_rows(context.width(input))];
        let phase = phases.open(&cuts);
        while let Some(mut task) = phase.next_task() {
            let from = context.read(&phase, input, context.batch.outputs[task.first()] as usize);
            task.share(0).floats(0).copy_from_slice(from);
        }
        phase.end();
    }

    /// A task is a part of a row when there are few rows.
    fn norm_add(&self, phases: &mut Phases<'_>, op: &plan::NormAdd) {
        const PART: usize = 256;
        let context = self.context;
        let (rows, width) = (context.rows(op.input), context.width(op.input));
        let weight = context.model.vector(op.norm.weight);
        // a norm that is shorter than the row applies to each part of the row that is as long
        let group = weight.len();
        let part = if rows <= OWN_ROWS && group == width { PART } else { width };
        let cuts = [context.region(op.to).by_cells(width, part)];
        let phase = phases.open(&cuts);
        while let Some(mut task) = phase.next_task() {
            let (row, first) = (task.first() % rows, task.first() / rows * part);
            let x = context.read(&phase, op.input, row);
            let mut share = task.share(0);
            let (eps, scale, adds) = (op.norm.eps, op.scale, op.update == Update::Add);
            for (x, to) in x.chunks_exact(group).zip(share.floats(0).chunks_mut(group)) {
                context.isa.run(NormAdd { x, weight, eps, first, to, adds, scale });
            }
        }
        phase.end();
    }

    /// Multiplies rows by the sigmoid of others.
    fn gate_rows(&self, phases: &mut Phases<'_>, out: TensorId, gate: TensorId) {
        const PART: usize = 256;
        let context = self.context;
        let (rows, width) = (context.rows(out), context.width(out));
        let cuts = [context.region(out).by_cells(width, PART)];
        let phase = phases.open(&cuts);
        while let Some(mut task) = phase.next_task() {
            let (row, first) = (task.first() % rows, task.first() / rows * PART);
            let mut share = task.share(0);
            let to = share.floats(0);
            let gate = &context.read(&phase, gate, row)[first..first + to.len()];
            context.isa.run(SigmoidGate { gate, to });
        }
        phase.end();
    }

    /// The rows of a matrix; of a stack, those of matrix `expert`.
    pub(super) fn weights(&self, matrix: &Matrix, expert: usize) -> Weights<'s> {
        let weight = self.context.model.weight(matrix.weight);
        let rows = weight.slice(expert, matrix.first_row as usize, matrix.rows as usize);
        let weights = Weights::new(weight.ty, weight.cols, rows);
        // `CpuBackend::new` has made the same call for every weight.
        weights.expect("a weight that the backend has accepted")
    }
}
