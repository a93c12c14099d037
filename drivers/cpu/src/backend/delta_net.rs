//! Linear attention: a task takes one value head through all runs of the batch; then the convolution's inputs are kept.

use super::context::Context;
use super::step::Step;
use crate::delta_net::{
    BLOCK, Convolve, GatedNorm, PART_COLUMNS, Recurrence, UnitLength, factors, head_state,
};
use crate::phase::{Phase, Phases, Task};
use doorbell_core::plan::{DeltaNet, RowRun};

/// Most tokens that a convolution sees, as the binder allows.
const MAX_TAPS: usize = 64;

/// Channels of a task that keeps inputs.
const CHANNELS: usize = 1024;

/// A block of tokens of one run, and the value head that they are computed for.
#[derive(Clone, Copy)]
struct Block<'s> {
    op: &'s DeltaNet,
    run: RowRun,
    state: usize,
    head: usize,
    /// Token of the run that the block begins with, and tokens.
    first: usize,
    tokens: usize,
}

impl Step<'_, '_> {
    pub(super) fn delta_net(&mut self, phases: &mut Phases<'_>, op: &DeltaNet) {
        let context = self.context;
        let shape = op.shape;
        let states = context.states.expect("states of a model with recurrent layers");
        let (heads, dim) = (shape.value_heads as usize, shape.value_dim as usize);
        let floats = head_state(shape.key_dim as usize, dim);
        let cuts = [
            context.region(op.out).by_columns(heads * dim, dim),
            states.heads(op.state).by_parts(heads, floats, floats),
        ];
        let phase = phases.open(&cuts);
        while let Some(mut task) = phase.next_task() {
            let head = task.first();
            for &run in context.batch.runs {
                let state = context.batch.tables.states[run.sequence as usize].0 as usize;
                for first in (0..run.rows as usize).step_by(BLOCK) {
                    let tokens = BLOCK.min(run.rows as usize - first);
                    self.delta_block(&phase, &mut task, Block { op, run, state, head, first, tokens });
                }
            }
        }
        phase.end();
        self.keep_inputs(phases, op);
    }

    /// Convolution, recurrence and gated norm of a block.
    fn delta_block(&mut self, phase: &Phase<'_>, task: &mut Task<'_>, block: Block<'_>) {
        let context = self.context;
        let Block { op, run, state, head, first, tokens } = block;
        let shape = op.shape;
        let (key_dim, value_dim) = (shape.key_dim as usize, shape.value_dim as usize);
        let padded = value_dim.next_multiple_of(PART_COLUMNS);
        let key_head = shape.key_head(head as u32) as usize;
        let memory = &mut self.work.delta.floats_mut()[..BLOCK * (2 * key_dim + 2 * padded)];
        let (queries, rest) = memory.split_at_mut(BLOCK * key_dim);
        let (keys, rest) = rest.split_at_mut(BLOCK * key_dim);
        let (values, out) = rest.split_at_mut(BLOCK * padded);
        values.fill(0.0);
        let mut rules = [(0.0, 0.0); BLOCK];
        let model = context.model;
        let [rates, biases] = [op.decay, op.step_bias].map(|id| model.vector(id));
        for token in 0..tokens {
            let row = run.first_row as usize + first + token;
            let query = &mut queries[token * key_dim..(token + 1) * key_dim];
            convolve(context, phase, block, token, key_head * key_dim, query);
            let scale = 1.0 / libm::sqrtf(key_dim as f32);
            context.isa.run(UnitLength { x: query, eps: op.norm.eps, scale });
            let key = &mut keys[token * key_dim..(token + 1) * key_dim];
            convolve(context, phase, block, token, shape.key_width() + key_head * key_dim, key);
            context.isa.run(UnitLength { x: key, eps: op.norm.eps, scale: 1.0 });
            let value = &mut values[token * padded..][..value_dim];
            convolve(context, phase, block, token, 2 * shape.key_width() + head * value_dim, value);
            let columns = op.gates.columns(&shape, head as u32);
            let [beta, alpha] = op.gates.tensors().map(|id| context.read(phase, id, row));
            rules[token] = factors(rates[head], alpha[columns[1]] + biases[head], beta[columns[0]]);
        }
        let mut share = task.share(1);
        let cells = share.floats(state);
        if run.position == 0 && first == 0 {
            cells.fill(0.0);
        }
        context.isa.run(Recurrence {
            queries: &queries[..tokens * key_dim],
            keys: &keys[..tokens * key_dim],
            values: &values[..tokens * padded],
            factors: &rules[..tokens],
            key_dim,
            state: cells,
            out: &mut out[..tokens * padded],
        });
        let mut share = task.share(0);
        for token in 0..tokens {
            let row = run.first_row as usize + first + token;
            let gate = &context.read(phase, op.gate, row)[head * value_dim..(head + 1) * value_dim];
            let x = &out[token * padded..][..value_dim];
            let weight = model.vector(op.norm.weight);
            context.isa.run(GatedNorm { x, weight, eps: op.norm.eps, gate, out: share.floats(row) });
        }
    }

    /// Keeps the inputs of each run's last tokens for the convolutions of the next step.
    fn keep_inputs(&self, phases: &mut Phases<'_>, op: &DeltaNet) {
        let context = self.context;
        let states = context.states.expect("states of a model with recurrent layers");
        let (channels, taps) = (op.shape.channels(), op.shape.taps as usize);
        let cuts = [states.inputs(op.state).by_columns(channels, CHANNELS)];
        let phase = phases.open(&cuts);
        while let Some(mut task) = phase.next_task() {
            let first = task.first() * CHANNELS;
            let mut share = task.share(0);
            for run in context.batch.runs {
                let state = context.batch.tables.states[run.sequence as usize].0 as usize;
                let rows = run.rows as usize;
                for token in rows.saturating_sub(taps)..rows {
                    let position = run.position as usize + token;
                    let input = context.read(&phase, op.mixed, run.first_row as usize + token);
                    let kept = share.floats(state * taps + position % taps);
                    kept.copy_from_slice(&input[first..first + kept.len()]);
                }
            }
        }
        phase.end();
    }
}

/// The convolution of some channels, from `channel` on, of a token of a block.
fn convolve(
    context: &Context<'_>,
    phase: &Phase<'_>,
    block: Block<'_>,
    token: usize,
    channel: usize,
    out: &mut [f32],
) {
    let Block { op, run, state, first, .. } = block;
    let states = context.states.expect("states of a model with recurrent layers");
    let (channels, taps) = (op.shape.channels(), op.shape.taps as usize);
    let kernel = context.model.vector(op.convolution);
    let position = run.position as usize + first + token;
    let (mut weights, mut inputs): ([&[f32]; MAX_TAPS], [&[f32]; MAX_TAPS]) =
        ([&[]; MAX_TAPS], [&[]; MAX_TAPS]);
    // positions before the first have no input
    let begin = (taps - 1).saturating_sub(position);
    for tap in begin..taps {
        let at = position + tap + 1 - taps;
        weights[tap] = &kernel[tap * channels + channel..][..out.len()];
        inputs[tap] = if at >= run.position as usize {
            let row = run.first_row as usize + at - run.position as usize;
            &context.read(phase, op.mixed, row)[channel..channel + out.len()]
        } else {
            let row = states.inputs_start(op.state, state) + at % taps * channels;
            phase.floats(states.convolution, row + channel, out.len())
        };
    }
    context.isa.run(Convolve { kernel: &weights[begin..taps], inputs: &inputs[begin..taps], out });
}
