//! The reference backend: walks a plan operation by operation, row by row.

use super::attend::{Heads, attend_row};
use super::elementwise::{glu, rms_norm, rotate, sigmoid, soft_cap};
use super::mixture::route_row;
use super::product::{Products, product};
use super::state::Pool;
use crate::backend::{Backend, KvType, Output};
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::model::Model;
use crate::plan::{
    Attend, Batch, BatchError, BatchLimits, Epilogue, Experts, Head, HeadResult, KvSlot, Norm, Op, Part,
    Plan, Project, RopeId, Route, Rows, TensorId,
};
use crate::quant;
use crate::token::TokenId;
use core::fmt;

/// Why a reference step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The heap refused.
    Memory(OutOfMemory),
    /// The batch breaks a rule.
    Batch(BatchError),
}

impl From<OutOfMemory> for ReferenceError {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for ReferenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Batch(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ReferenceError {}

/// Executes plans with scalar code.
pub struct Reference<'m, 'a> {
    model: &'m Model<'a>,
    heap: Heap<'m>,
    products: Products,
    pages: u32,
    pools: Vec<'m, Pool<'m>>,
    arena: Vec<'m, f32>,
    logits: Vec<'m, f32>,
    tokens: Vec<'m, TokenId>,
    finished: Option<HeadResult>,
}

impl<'m, 'a> Reference<'m, 'a> {
    /// A backend with `pages` KV pages per group.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the pools can't be had.
    pub fn new(
        model: &'m Model<'a>,
        pages: u32,
        kv: KvType,
        products: Products,
        heap: Heap<'m>,
    ) -> Result<Self, OutOfMemory> {
        let mut pools = heap::with_capacity(heap, model.groups.len())?;
        for group in &model.groups {
            pools.push(Pool::new(*group, pages, kv, heap)?);
        }
        let (arena, logits, tokens) = (Vec::new_in(heap), Vec::new_in(heap), Vec::new_in(heap));
        Ok(Self { model, heap, products, pages, pools, arena, logits, tokens, finished: None })
    }
}

impl Backend for Reference<'_, '_> {
    type Error = ReferenceError;

    fn supports(&self, _op: &Op) -> bool {
        true
    }

    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> Result<(), ReferenceError> {
        self.finished = None;
        let limits = BatchLimits {
            shape: plan.shape,
            vocabulary: self.model.vocabulary,
            groups: self.model.groups.len(),
            pages: self.pages,
        };
        batch.check(&limits).map_err(ReferenceError::Batch)?;
        let missing = plan.arena.saturating_sub(self.arena.len());
        heap::reserve(&mut self.arena, missing)?;
        self.arena.resize(self.arena.len() + missing, 0.0);
        let mut step = Step { backend: self, plan, batch };
        for op in &plan.ops {
            step.run(op)?;
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Output<'_>>, ReferenceError> {
        Ok(self.finished.take().map(|result| match result {
            HeadResult::Logits => Output::Logits(&self.logits),
            HeadResult::ArgMax => Output::Tokens(&self.tokens),
        }))
    }
}

/// One plan over one batch.
struct Step<'s, 'm, 'a, 'p, 'b> {
    backend: &'s mut Reference<'m, 'a>,
    plan: &'s Plan<'p>,
    batch: &'s Batch<'b>,
}

impl<'m> Step<'_, 'm, '_, '_, '_> {
    fn run(&mut self, op: &Op) -> Result<(), OutOfMemory> {
        match op {
            Op::Embed { table, scale, out } => self.embed(*table, *scale, *out),
            Op::Select { input, out } => self.select(*input, *out),
            Op::Project(op) => self.project(op),
            Op::Attend(op) => self.attend(op),
            Op::Route(op) => self.route(op),
            Op::Experts(op) => self.experts(op),
            Op::NormAdd { input, norm, to } => self.norm_add(*input, *norm, *to),
            Op::Head(op) => self.head(op),
        }
    }

    /// Rows of a tensor in this batch.
    fn rows(&self, id: TensorId) -> usize {
        match self.plan.tensor(id).rows {
            Rows::Batch => self.batch.rows(),
            Rows::Outputs => self.batch.outputs.len(),
        }
    }

    /// The batch row behind a tensor's row.
    fn batch_row(&self, id: TensorId, row: usize) -> u32 {
        match self.plan.tensor(id).rows {
            Rows::Batch => row as u32,
            Rows::Outputs => self.batch.outputs[row],
        }
    }

    fn range(&self, id: TensorId, row: usize) -> core::ops::Range<usize> {
        let tensor = self.plan.tensor(id);
        let width = tensor.width as usize;
        tensor.offset + row * width..tensor.offset + (row + 1) * width
    }

    fn row(&self, id: TensorId, row: usize) -> &[f32] {
        &self.backend.arena[self.range(id, row)]
    }

    fn row_mut(&mut self, id: TensorId, row: usize) -> &mut [f32] {
        let range = self.range(id, row);
        &mut self.backend.arena[range]
    }

    /// A copy of a row, normalised if asked.
    fn input(&self, id: TensorId, row: usize, norm: Option<Norm>) -> Result<Vec<'m, f32>, OutOfMemory> {
        let x = self.row(id, row);
        let mut copy = heap::copied(self.backend.heap, x)?;
        if let Some(norm) = norm {
            rms_norm(x, self.backend.model.vector(norm.weight), norm.eps, &mut copy);
        }
        Ok(copy)
    }

    fn product(
        &self,
        matrix: &crate::plan::Matrix,
        expert: usize,
        x: &[f32],
    ) -> Result<Vec<'m, f32>, OutOfMemory> {
        let backend = &*self.backend;
        let mut y = heap::filled(backend.heap, matrix.rows as usize, 0f32)?;
        product(backend.model, matrix, expert, x, backend.products, &mut y, backend.heap)?;
        Ok(y)
    }

    fn embed(&mut self, table: crate::plan::WeightId, scale: f32, out: TensorId) -> Result<(), OutOfMemory> {
        let weight = *self.backend.model.weight(table);
        for row in 0..self.batch.rows() {
            let token = self.batch.tokens[row].0 as usize;
            let target = self.row_mut(out, row);
            // The binder has checked type and length.
            let _ = quant::dequantize(weight.kind, weight.slice(0, token, 1), target);
            target.iter_mut().for_each(|x| *x *= scale);
        }
        Ok(())
    }

    fn select(&mut self, input: TensorId, out: TensorId) -> Result<(), OutOfMemory> {
        for row in 0..self.batch.outputs.len() {
            let from = self.batch.outputs[row] as usize;
            let copy = self.input(input, from, None)?;
            self.row_mut(out, row).copy_from_slice(&copy);
        }
        Ok(())
    }

    fn project(&mut self, op: &Project) -> Result<(), OutOfMemory> {
        for row in 0..self.rows(op.input) {
            let x = self.input(op.input, row, op.norm)?;
            for part in &op.parts {
                self.part(part, &x, row, self.batch_row(op.input, row))?;
            }
        }
        Ok(())
    }

    fn part(&mut self, part: &Part, x: &[f32], row: usize, batch_row: u32) -> Result<(), OutOfMemory> {
        let mut y = self.product(&part.matrix, 0, x)?;
        match part.epilogue {
            Epilogue::Store { out } => self.row_mut(out, row).copy_from_slice(&y),
            Epilogue::Add { to } => self.row_mut(to, row).iter_mut().zip(&y).for_each(|(to, y)| *to += y),
            Epilogue::AddGated { to, gate } => {
                let factor = sigmoid(self.row(gate, row)[0]);
                self.row_mut(to, row).iter_mut().zip(&y).for_each(|(to, y)| *to += factor * y);
            }
            Epilogue::Gate { up, glu: kind, out } => {
                let up = self.product(&up, 0, x)?;
                let out = self.row_mut(out, row);
                out.iter_mut().zip(y.iter().zip(&up)).for_each(|(out, (&y, &up))| *out = glu(kind, y, up));
            }
            Epilogue::Query { norm, rope, head_dim, out } => {
                self.heads(&mut y, head_dim, norm, rope, batch_row)?;
                self.row_mut(out, row).copy_from_slice(&y);
            }
            Epilogue::Key { norm, rope, kv } => {
                let head_dim = self.backend.model.groups[kv.group.index()].key_dim;
                self.heads(&mut y, head_dim, norm, rope, batch_row)?;
                self.cache(true, kv, batch_row, &y);
            }
            Epilogue::Value { kv } => self.cache(false, kv, batch_row, &y),
        }
        Ok(())
    }

    /// Per-head norm, then rotation, in place.
    fn heads(
        &self,
        y: &mut [f32],
        head_dim: u32,
        norm: Option<Norm>,
        rope: Option<RopeId>,
        batch_row: u32,
    ) -> Result<(), OutOfMemory> {
        let model = self.backend.model;
        let rope = rope.map(|id| &model.ropes[id.index()]);
        let pairs = rope.map_or(0, |rope| rope.frequencies.len());
        let mut angles = heap::filled(self.backend.heap, 2 * pairs, 0f32)?;
        let (cos, sin) = angles.split_at_mut(pairs);
        if let Some(rope) = rope {
            let (_, position) = self.batch.place(batch_row).unwrap_or_default();
            rope.angles(position, cos, sin);
        }
        for head in y.chunks_exact_mut(head_dim as usize) {
            if let Some(norm) = norm {
                let copy = heap::copied(self.backend.heap, head)?;
                rms_norm(&copy, model.vector(norm.weight), norm.eps, head);
            }
            if let Some(rope) = rope {
                rotate(rope.pairing, head, cos, sin);
            }
        }
        Ok(())
    }

    fn cache(&mut self, keys: bool, kv: KvSlot, batch_row: u32, y: &[f32]) {
        let (sequence, position) = self.batch.place(batch_row).unwrap_or_default();
        let pages = self.batch.tables.of(sequence, kv.group);
        self.backend.pools[kv.group.index()].write(keys, kv, pages, position, y);
    }

    fn attend(&mut self, op: &Attend) -> Result<(), OutOfMemory> {
        for row in 0..self.rows(op.query) {
            let (sequence, position) = self.batch.place(self.batch_row(op.query, row)).unwrap_or_default();
            let pages = self.batch.tables.of(sequence, op.kv.group);
            let query = self.input(op.query, row, None)?;
            let pool = &self.backend.pools[op.kv.group.index()];
            let group = *pool.group();
            let heads = Heads {
                query: op.heads as usize,
                kv: group.heads as usize,
                key_dim: group.key_dim as usize,
                value_dim: group.value_dim as usize,
            };
            let mut out = heap::filled(self.backend.heap, heads.query * heads.value_dim, 0f32)?;
            let mut scores = heap::filled(self.backend.heap, position as usize + 1, 0f32)?;
            let cached = |at, head| (pool.key(op.kv, pages, at, head), pool.value(op.kv, pages, at, head));
            let sinks = op.sinks.map(|id| self.backend.model.vector(id));
            attend_row(op, heads, position, &query, &cached, sinks, (&mut scores, &mut out));
            self.row_mut(op.out, row).copy_from_slice(&out);
        }
        Ok(())
    }

    fn route(&mut self, op: &Route) -> Result<(), OutOfMemory> {
        let bias = op.selection_bias.map(|id| self.backend.model.vector(id));
        for row in 0..self.rows(op.input) {
            let x = self.input(op.input, row, op.norm)?;
            let mut products = self.product(&op.router, 0, &x)?;
            let mut ids = heap::filled(self.backend.heap, op.top_k as usize, 0u32)?;
            let mut weights = heap::filled(self.backend.heap, op.top_k as usize, 0f32)?;
            route_row(op, bias, &mut products, &mut ids, &mut weights);
            bytemuck::cast_slice_mut(self.row_mut(op.ids, row)).copy_from_slice(&ids);
            self.row_mut(op.weights, row).copy_from_slice(&weights);
        }
        Ok(())
    }

    fn experts(&mut self, op: &Experts) -> Result<(), OutOfMemory> {
        for row in 0..self.rows(op.input) {
            let x = self.input(op.input, row, op.norm)?;
            let ids = heap::copied(self.backend.heap, self.row(op.ids, row))?;
            let weights = heap::copied(self.backend.heap, self.row(op.weights, row))?;
            let mut sum = heap::filled(self.backend.heap, op.down.rows as usize, 0f32)?;
            for (id, weight) in ids.iter().zip(&weights) {
                let expert = id.to_bits() as usize;
                let mut hidden = self.product(&op.gate, expert, &x)?;
                let up = self.product(&op.up, expert, &x)?;
                hidden.iter_mut().zip(&up).for_each(|(gate, &up)| *gate = glu(op.glu, *gate, up));
                let down = self.product(&op.down, expert, &hidden)?;
                sum.iter_mut().zip(&down).for_each(|(sum, down)| *sum += weight * down);
            }
            self.row_mut(op.to, row).iter_mut().zip(&sum).for_each(|(to, sum)| *to += sum);
        }
        Ok(())
    }

    fn norm_add(&mut self, input: TensorId, norm: Norm, to: TensorId) -> Result<(), OutOfMemory> {
        for row in 0..self.rows(input) {
            let y = self.input(input, row, Some(norm))?;
            self.row_mut(to, row).iter_mut().zip(&y).for_each(|(to, y)| *to += y);
        }
        Ok(())
    }

    fn head(&mut self, op: &Head) -> Result<(), OutOfMemory> {
        self.backend.logits.clear();
        self.backend.tokens.clear();
        for row in 0..self.batch.outputs.len() {
            let x = self.input(op.input, row, Some(op.norm))?;
            let mut logits = self.product(&op.matrix, 0, &x)?;
            for logit in logits.iter_mut() {
                *logit *= op.scale;
                if let Some(cap) = op.soft_cap {
                    *logit = soft_cap(*logit, cap);
                }
            }
            match op.result {
                HeadResult::Logits => heap::extend(&mut self.backend.logits, &logits)?,
                HeadResult::ArgMax => heap::push(&mut self.backend.tokens, arg_max(&logits))?,
            }
        }
        self.backend.finished = Some(op.result);
        Ok(())
    }
}

/// The token of the largest logit, the lowest id on ties.
fn arg_max(logits: &[f32]) -> TokenId {
    let best = (0..logits.len()).reduce(|best, id| if logits[id] > logits[best] { id } else { best });
    TokenId(best.unwrap_or(0) as u32)
}
