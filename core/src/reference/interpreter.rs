//! Runs the operations of a plan one by one, row by row. Activations, keys and values are the caller's: the reference
//! backend keeps them in host memory, the GPU driver in device memory.
//!
//! Not here: the backend around it (`run`), the arithmetic of single rows (`attention`, `elementwise`, `moe`, `product`).

use super::attention::{AttendBuffers, Cache, Cached, Heads, attend_row};
use super::delta_net::{DeltaBuffers, DeltaGateValues, DeltaInputs, DeltaState, DeltaWeights, delta_step};
use super::elementwise::{activation, glu, layer_norm, rms_norm, rotate, sigmoid, soft_cap};
use super::moe::route_row;
use super::product::{Products, product};
use super::scratch::{ProductScratch, Scratch, Sizes, clear};
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::model::Model;
use crate::plan::{
    Attend, Batch, DeltaNet, Epilogue, Experts, Head, HeadResult, HeadTarget, KvSlot, Matrix, Norm, NormAdd,
    NormKind, Op, PageId, Part, Plan, Project, RopeId, Rotate, Route, StateId, StateSlot, TensorId, Update,
    WeightId,
};
use crate::quant;
use crate::token::TokenId;
use core::ops::Range;

/// Keys and values of all sequences, in any memory.
pub trait KvStore {
    /// Writes the keys or values of all heads at one position of the sequence with these pages, `[heads, dim]`.
    fn write(&mut self, which: Cached, slot: KvSlot, pages: &[PageId], position: u32, heads: &[f32]);

    /// Reads the key or value of one head at `position` into `to`, which has its length.
    fn read(&self, which: Cached, slot: KvSlot, pages: &[PageId], position: u32, head: usize, to: &mut [f32]);

    /// The recurrent state of a sequence in one layer, `[convolution, recurrent]` of [`crate::plan::DeltaShape`].
    fn state(&mut self, state: StateId, slot: StateSlot) -> &mut [f32];
}

/// The keys and values of one sequence in one layer.
struct Slot<'s> {
    kv: &'s dyn KvStore,
    slot: KvSlot,
    pages: &'s [PageId],
}

impl Cache for Slot<'_> {
    fn read(&self, which: Cached, position: u32, head: usize, to: &mut [f32]) {
        self.kv.read(which, self.slot, self.pages, position, head, to);
    }
}

/// Runs operations with scalar code.
pub struct Interpreter<'m, 'a> {
    model: &'m Model<'a>,
    products: Products,
    scratch: Scratch<'m>,
    logits: Vec<'m, f32>,
    tokens: Vec<'m, TokenId>,
}

/// Elements of one output row of a head.
fn result_width(head: &Head, plan: &Plan<'_>) -> usize {
    match head.result {
        HeadResult::Hidden => plan.tensor(head.input).width as usize,
        HeadResult::Logits | HeadResult::ArgMax => head.matrix.rows as usize,
    }
}

/// The head among the operations.
fn head_of(ops: &[Op]) -> Option<&Head> {
    ops.iter().find_map(|op| if let Op::Head(head) = op { Some(head) } else { None })
}

impl<'m, 'a> Interpreter<'m, 'a> {
    /// For sequences of up to `pages` KV pages.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn new(
        model: &'m Model<'a>,
        pages: u32,
        products: Products,
        heap: Heap<'m>,
    ) -> Result<Self, OutOfMemory> {
        let scratch = Scratch::new(&Sizes::new(model, pages), heap)?;
        Ok(Self { model, products, scratch, logits: Vec::new_in(heap), tokens: Vec::new_in(heap) })
    }

    /// Reserves the memory for the results of a plan.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), OutOfMemory> {
        let outputs = plan.shape.outputs as usize;
        let width = head_of(&plan.ops).map_or(0, |head| result_width(head, plan));
        heap::grow(&mut self.logits, outputs.saturating_mul(width))?;
        heap::grow(&mut self.tokens, outputs)
    }

    /// Runs operations over an arena that is laid out as the plan's. They are the plan's own or operate on its tensors;
    /// the batch has been checked.
    pub fn run(
        &mut self,
        plan: &Plan<'_>,
        batch: &Batch<'_>,
        ops: &[Op],
        arena: &mut [f32],
        kv: &mut dyn KvStore,
    ) {
        let width = head_of(ops).map_or(0, |head| result_width(head, plan));
        clear(&mut self.logits, batch.outputs.len() * width);
        self.tokens.clear();
        let mut step = Step {
            model: self.model,
            products: self.products,
            plan,
            batch,
            arena,
            kv,
            scratch: &mut self.scratch,
            logits: &mut self.logits,
            tokens: &mut self.tokens,
        };
        ops.iter().for_each(|op| step.run(op));
    }

    /// Logits or hidden values of the head that the last run had, `[outputs, width]`; empty without one.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// Tokens that the head of the last run chose; empty unless its result is [`HeadResult::ArgMax`].
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }
}

/// Operations of one plan over one batch.
struct Step<'s, 'm, 'a, 'p, 'b> {
    model: &'m Model<'a>,
    products: Products,
    plan: &'s Plan<'p>,
    batch: &'s Batch<'b>,
    arena: &'s mut [f32],
    kv: &'s mut dyn KvStore,
    scratch: &'s mut Scratch<'m>,
    logits: &'s mut [f32],
    /// Has room for a token per output.
    tokens: &'s mut Vec<'m, TokenId>,
}

impl Step<'_, '_, '_, '_, '_> {
    fn run(&mut self, op: &Op) {
        match op {
            Op::Embed { table, scale, out } => self.embed(*table, *scale, *out),
            Op::Select { input, out } => self.select(*input, *out),
            Op::Project(op) => self.project(op),
            Op::Rotate(op) => self.rotate(op),
            Op::Attend(op) => self.attention(op),
            Op::DeltaNet(op) => self.delta_net(op),
            Op::Route(op) => self.route(op),
            Op::Experts(op) => self.experts(op),
            Op::NormAdd(op) => self.norm_add(op),
            Op::Head(op) => self.head(op),
        }
    }

    /// Rows of a tensor in this batch.
    fn rows(&self, id: TensorId) -> usize {
        self.batch.rows_of(self.plan.tensor(id).rows)
    }

    /// The batch row of a tensor's row.
    fn batch_row(&self, id: TensorId, row: usize) -> u32 {
        self.batch.batch_row(self.plan.tensor(id).rows, row)
    }

    /// The arena's cells of a tensor's row.
    fn cells(&self, id: TensorId, row: usize) -> Range<usize> {
        let tensor = self.plan.tensor(id);
        let width = tensor.width as usize;
        tensor.offset + row * width..tensor.offset + (row + 1) * width
    }

    fn row_mut(&mut self, id: TensorId, row: usize) -> &mut [f32] {
        let cells = self.cells(id, row);
        &mut self.arena[cells]
    }

    /// Copies a row into the scratch, normalized if there is a norm.
    fn load(&mut self, id: TensorId, row: usize, norm: Option<Norm>) {
        let x = &self.arena[self.cells(id, row)];
        let input = &mut self.scratch.input;
        input.clear();
        input.extend_from_slice(x);
        if let Some(norm) = norm {
            let weight = self.model.vector(norm.weight);
            let bias = norm.bias.map(|id| self.model.vector(id));
            for (x, out) in x.chunks_exact(weight.len()).zip(input.chunks_exact_mut(weight.len())) {
                match norm.kind {
                    NormKind::Rms => rms_norm(x, weight, norm.eps, out),
                    NormKind::Layer => layer_norm(x, weight, bias, norm.eps, out),
                }
            }
        }
    }

    /// Adds the first row of products to a row.
    fn add_first(&mut self, to: TensorId, row: usize, factor: f32) {
        let cells = self.cells(to, row);
        self.arena[cells].iter_mut().zip(&self.scratch.first).for_each(|(to, y)| *to += factor * y);
    }

    fn embed(&mut self, table: WeightId, scale: f32, out: TensorId) {
        let weight = *self.model.weight(table);
        for row in 0..self.batch.rows() {
            let token = self.batch.tokens[row].0 as usize;
            let target = self.row_mut(out, row);
            // The binder has checked type and length.
            let _ = quant::dequantize(weight.ty, weight.slice(0, token, 1), target);
            target.iter_mut().for_each(|x| *x *= scale);
        }
    }

    fn select(&mut self, input: TensorId, out: TensorId) {
        for row in 0..self.batch.outputs.len() {
            let from = self.cells(input, self.batch.outputs[row] as usize);
            let to = self.cells(out, row).start;
            self.arena.copy_within(from, to);
        }
    }

    fn project(&mut self, op: &Project) {
        for row in 0..self.rows(op.input) {
            self.load(op.input, row, op.norm);
            for part in &op.parts {
                self.part(part, row, self.batch_row(op.input, row));
            }
        }
    }

    fn part(&mut self, part: &Part, row: usize, batch_row: u32) {
        let (model, products) = (self.model, self.products);
        let Scratch { input, first, second, product: room, .. } = &mut *self.scratch;
        multiply(model, &part.matrix, 0, input, products, first, room);
        match part.epilogue {
            Epilogue::Store { out } => self.store_first(out, row),
            Epilogue::Activate { activation: kind, out } => {
                first.iter_mut().for_each(|x| *x = activation(kind, *x));
                self.store_first(out, row);
            }
            Epilogue::Add { to } => self.add_first(to, row, 1.0),
            Epilogue::AddGated { to, gate } => {
                let factor = sigmoid(self.row_mut(gate, row)[0]);
                self.add_first(to, row, factor);
            }
            Epilogue::Gate { up, glu: kind, out } => {
                multiply(model, &up, 0, input, products, second, room);
                first.iter_mut().zip(second.iter()).for_each(|(gate, &up)| *gate = glu(kind, *gate, up));
                self.store_first(out, row);
            }
            Epilogue::GateBy { by, column, glu: kind, out } => {
                let start = self.cells(by, row).start + column as usize;
                let by = &self.arena[start..start + part.matrix.rows as usize];
                let first = &mut self.scratch.first;
                first.iter_mut().zip(by).for_each(|(gate, &by)| *gate = glu(kind, *gate, by));
                self.store_first(out, row);
            }
            Epilogue::Query { norm, rope, head_dim, out, gate } => {
                if let Some(gate) = gate {
                    self.split_gate(head_dim as usize, gate, row);
                }
                self.heads(head_dim, norm, rope, batch_row);
                self.store_first(out, row);
            }
            Epilogue::Key { norm, rope, kv } => {
                self.heads(model.groups[kv.group.index()].key_dim, norm, rope, batch_row);
                self.cache(Cached::Key, kv, batch_row);
            }
            Epilogue::Value { norm, kv } => {
                self.heads(model.groups[kv.group.index()].value_dim, norm, None, batch_row);
                self.cache(Cached::Value, kv, batch_row);
            }
        }
    }

    /// Takes the gate behind each head out of the first row of products.
    fn split_gate(&mut self, head_dim: usize, gate: TensorId, row: usize) {
        let cells = self.cells(gate, row);
        let first = &mut self.scratch.first;
        for (head, gate) in self.arena[cells].chunks_exact_mut(head_dim).enumerate() {
            let at = 2 * head * head_dim;
            gate.copy_from_slice(&first[at + head_dim..at + 2 * head_dim]);
            first.copy_within(at..at + head_dim, head * head_dim);
        }
        first.truncate(first.len() / 2);
    }

    fn store_first(&mut self, out: TensorId, row: usize) {
        let cells = self.cells(out, row);
        self.arena[cells].copy_from_slice(&self.scratch.first);
    }

    /// Per-head norm, then rotation, of the first row of products.
    fn heads(&mut self, head_dim: u32, norm: Option<Norm>, rope: Option<RopeId>, batch_row: u32) {
        let rope = rope.map(|id| &self.model.ropes[id.index()]);
        let pairs = rope.map_or(0, |rope| rope.frequencies.len());
        let Scratch { first, angles, head: copy, .. } = &mut *self.scratch;
        clear(angles, 2 * pairs);
        let (cos, sin) = angles.split_at_mut(pairs);
        if let Some(rope) = rope {
            let (_, position) = self.batch.locate(batch_row).unwrap_or_default();
            rope.angles(position, cos, sin);
        }
        for head in first.chunks_exact_mut(head_dim as usize) {
            if let Some(norm) = norm {
                copy.clear();
                copy.extend_from_slice(head);
                rms_norm(copy, self.model.vector(norm.weight), norm.eps, head);
            }
            if let Some(rope) = rope {
                rotate(rope.pairing, head, cos, sin);
            }
        }
    }

    fn rotate(&mut self, op: &Rotate) {
        let model = self.model;
        for row in 0..self.rows(op.input) {
            let batch_row = self.batch_row(op.input, row);
            self.load(op.input, row, None);
            let Scratch { input, first, .. } = &mut *self.scratch;
            core::mem::swap(input, first);
            let head_dim = match op.target {
                HeadTarget::Query { head_dim, .. } => head_dim,
                HeadTarget::Key(kv) => model.groups[kv.group.index()].key_dim,
            };
            self.heads(head_dim, None, op.rope, batch_row);
            self.heads(head_dim, op.norm, None, batch_row);
            if let Some(temperature) = op.temperature {
                let (_, position) = self.batch.locate(batch_row).unwrap_or_default();
                let factor = temperature.factor(position);
                self.scratch.first.iter_mut().for_each(|x| *x *= factor);
            }
            match op.target {
                HeadTarget::Query { out, .. } => self.store_first(out, row),
                HeadTarget::Key(kv) => self.cache(Cached::Key, kv, batch_row),
            }
        }
    }

    /// Caches the first row of products.
    fn cache(&mut self, which: Cached, kv: KvSlot, batch_row: u32) {
        let (sequence, position) = self.batch.locate(batch_row).unwrap_or_default();
        let pages = self.batch.tables.of(sequence, kv.group);
        self.kv.write(which, kv, pages, position, &self.scratch.first);
    }

    fn attention(&mut self, op: &Attend) {
        for row in 0..self.rows(op.query) {
            let (sequence, position) = self.batch.locate(self.batch_row(op.query, row)).unwrap_or_default();
            let pages = self.batch.tables.of(sequence, op.kv.group);
            self.load(op.query, row, None);
            let group = self.model.groups[op.kv.group.index()];
            let heads = Heads {
                query: op.heads as usize,
                kv: group.heads as usize,
                key_dim: group.key_dim as usize,
                value_dim: group.value_dim as usize,
            };
            let Scratch { input, first, scores, head, .. } = &mut *self.scratch;
            clear(first, heads.query * heads.value_dim);
            clear(scores, position as usize + 1);
            clear(head, heads.key_dim.max(heads.value_dim));
            let sinks = op.sinks.map(|id| self.model.vector(id));
            let buffers = AttendBuffers { scores, vector: head, out: first };
            attend_row(
                op,
                heads,
                position,
                input,
                &Slot { kv: &*self.kv, slot: op.kv, pages },
                sinks,
                buffers,
            );
            if let Some(gate) = op.gate {
                let gates = self.cells(gate, row);
                let gates = self.arena[gates].iter();
                self.scratch.first.iter_mut().zip(gates).for_each(|(y, &gate)| *y *= sigmoid(gate));
            }
            self.store_first(op.out, row);
        }
    }

    fn delta_net(&mut self, op: &DeltaNet) {
        let model = self.model;
        let weights = DeltaWeights {
            convolution: model.vector(op.convolution),
            decay: model.vector(op.decay),
            step_bias: model.vector(op.step_bias),
            norm: model.vector(op.norm.weight),
        };
        for run in self.batch.runs {
            let Some(&state) = self.batch.tables.states.get(run.sequence as usize) else { continue };
            if run.position == 0 {
                self.kv.state(state, op.state).fill(0.0);
            }
            for (row, position) in (run.first_row..run.first_row + run.rows).zip(run.position..) {
                let row = row as usize;
                let (mixed, gate) = (self.cells(op.mixed, row), self.cells(op.gate, row));
                let [beta, alpha] = op.gates.tensors().map(|id| self.cells(id, row));
                let Scratch { first, second, head, .. } = &mut *self.scratch;
                clear(first, op.shape.channels());
                clear(second, op.shape.value_width());
                clear(head, op.shape.value_dim as usize);
                let gates = GateColumns { op, beta: &self.arena[beta], alpha: &self.arena[alpha] };
                let inputs =
                    DeltaInputs { mixed: &self.arena[mixed], gate: &self.arena[gate], gates: &gates };
                let state = self.kv.state(state, op.state);
                let (convolution, recurrent) = state.split_at_mut(op.shape.convolution_state());
                let buffers = DeltaBuffers { mixed: first, change: head, out: second };
                delta_step(op, position, weights, inputs, DeltaState { convolution, recurrent }, buffers);
                let cells = self.cells(op.out, row);
                self.arena[cells].copy_from_slice(&self.scratch.second);
            }
        }
    }

    fn route(&mut self, op: &Route) {
        let bias = op.selection_bias.map(|id| self.model.vector(id));
        for row in 0..self.rows(op.input) {
            self.load(op.input, row, op.norm);
            let Scratch { input, first, ids, weights, product: room, .. } = &mut *self.scratch;
            multiply(self.model, &op.router, 0, input, self.products, first, room);
            clear(ids, op.top_k as usize);
            clear(weights, op.top_k as usize);
            route_row(op, bias, first, ids, weights);
            let (id_cells, weight_cells) = (self.cells(op.ids, row), self.cells(op.weights, row));
            bytemuck::cast_slice_mut(&mut self.arena[id_cells]).copy_from_slice(&self.scratch.ids);
            self.arena[weight_cells].copy_from_slice(&self.scratch.weights);
        }
    }

    fn experts(&mut self, op: &Experts) {
        let (model, products) = (self.model, self.products);
        for row in 0..self.rows(op.input) {
            self.load(op.input, row, op.norm);
            let (ids, weights) = (self.cells(op.ids, row), self.cells(op.weights, row));
            let Scratch { input, first, second, sum, product: room, .. } = &mut *self.scratch;
            clear(sum, op.down.rows as usize);
            for (id, weight) in self.arena[ids].iter().zip(&self.arena[weights]) {
                let expert = id.to_bits() as usize;
                multiply(model, &op.gate, expert, input, products, first, room);
                multiply(model, &op.up, expert, input, products, second, room);
                first.iter_mut().zip(second.iter()).for_each(|(gate, &up)| *gate = glu(op.glu, *gate, up));
                multiply(model, &op.down, expert, first, products, second, room);
                sum.iter_mut().zip(second.iter()).for_each(|(sum, down)| *sum += weight * down);
            }
            let to = self.cells(op.to, row);
            for (to, sum) in self.arena[to].iter_mut().zip(&self.scratch.sum) {
                *to = if op.update == Update::Add { *to + sum } else { *sum };
            }
        }
    }

    fn norm_add(&mut self, op: &NormAdd) {
        for row in 0..self.rows(op.input) {
            self.load(op.input, row, Some(op.norm));
            let cells = self.cells(op.to, row);
            for (to, y) in self.arena[cells].iter_mut().zip(&self.scratch.input) {
                let sum = if op.update == Update::Add { *to + y } else { *y };
                *to = op.scale * sum;
            }
        }
    }

    fn head(&mut self, op: &Head) {
        let width = op.matrix.rows as usize;
        for row in 0..self.batch.outputs.len() {
            self.load(op.input, row, Some(op.norm));
            if op.result == HeadResult::Hidden {
                let hidden = &self.scratch.input;
                self.logits[row * hidden.len()..(row + 1) * hidden.len()].copy_from_slice(hidden);
                continue;
            }
            let logits = &mut self.logits[row * width..(row + 1) * width];
            let Scratch { input, product: room, .. } = &mut *self.scratch;
            product(self.model, &op.matrix, 0, input, self.products, logits, room);
            for logit in logits.iter_mut() {
                *logit *= op.scale;
                if let Some(cap) = op.soft_cap {
                    *logit = soft_cap(*logit, cap);
                }
            }
            if op.result == HeadResult::ArgMax {
                self.tokens.push(arg_max(logits));
            }
        }
    }
}

/// One row's betas and alphas.
#[derive(Debug)]
struct GateColumns<'s> {
    op: &'s DeltaNet,
    beta: &'s [f32],
    alpha: &'s [f32],
}

impl DeltaGateValues for GateColumns<'_> {
    fn of(&self, head: usize) -> (f32, f32) {
        let [beta, alpha] = self.op.gates.columns(&self.op.shape, head as u32);
        (self.beta[beta], self.alpha[alpha])
    }
}

/// [`product`] into a row of the scratch.
fn multiply(
    model: &Model<'_>,
    matrix: &Matrix,
    expert: usize,
    x: &[f32],
    products: Products,
    out: &mut Vec<'_, f32>,
    scratch: &mut ProductScratch<'_>,
) {
    clear(out, matrix.rows as usize);
    product(model, matrix, expert, x, products, out, scratch);
}

/// The token of the largest logit, the lowest id on ties; NaN loses.
fn arg_max(logits: &[f32]) -> TokenId {
    let better =
        |id: usize, best: usize| logits[id] > logits[best] || (logits[best].is_nan() && !logits[id].is_nan());
    let best = (0..logits.len()).reduce(|best, id| if better(id, best) { id } else { best });
    TokenId(best.unwrap_or(0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_token_is_a_number_wherever_there_is_one() {
        assert_eq!(arg_max(&[1.0, 3.0, 3.0, 2.0]), TokenId(1));
        assert_eq!(arg_max(&[f32::NAN, -1.0, f32::NAN, -2.0]), TokenId(1));
        assert_eq!(arg_max(&[f32::NAN, f32::NEG_INFINITY]), TokenId(1));
        assert_eq!(arg_max(&[f32::NAN, f32::NAN]), TokenId(0));
    }
}
