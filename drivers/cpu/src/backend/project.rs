//! Projections: one or more matrices over the same input, each with its epilogue.

use super::context::RowPosition;
use super::inputs::{Inputs, Layouts, Source};
use super::local::OwnActivations;
use super::step::Step;
use crate::elementwise::{GatedPairs, HeadNorm, Heads, Rotation, sigmoid};
use crate::phase::{Cut, Cuts, Phase, Phases, Share};
use crate::product::OUT_COLS;
use crate::simd::STRIP;
use core::ops::Range;
use doorbell_core::plan::{Epilogue, Glu, KvSlot, Matrix, Norm, Part, Project, RopeId, TensorId};
use doorbell_core::reference;

/// The treatment of the rows of a head, and their target.
#[derive(Clone, Copy)]
pub(super) struct HeadRule {
    /// The tensor whose rows these are.
    pub(super) input: TensorId,
    pub(super) norm: Option<Norm>,
    pub(super) rope: Option<RopeId>,
    pub(super) head_dim: usize,
    pub(super) target: HeadTarget,
}

/// A part of a projection and one of its results.
#[derive(Clone, Copy)]
struct Target<'p> {
    part: &'p Part,
    half: Half,
}

/// The result of a part; the second one is the gates that lie between the queries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    First,
    Second,
}

/// The results of a part.
fn targets(part: &Part) -> impl Iterator<Item = Target<'_>> {
    let gated = matches!(part.epilogue, Epilogue::Query { gate: Some(_), .. });
    let halves = if gated { &[Half::First, Half::Second][..] } else { &[Half::First] };
    halves.iter().map(move |&half| Target { part, half })
}

/// The target of a finished head.
#[derive(Clone, Copy)]
pub(super) enum HeadTarget {
    Tensor,
    Keys(KvSlot),
    Values(KvSlot),
}

/// The matrices of a gated feed-forward.
#[derive(Clone, Copy)]
struct Gate<'x> {
    gate: &'x Matrix,
    up: &'x Matrix,
    glu: Glu,
}

/// A part of `products`: rows of a matrix, or of one of a stack, and the columns that they are.
#[derive(Clone)]
pub(super) struct Adjusted {
    /// Matrix of the stack.
    pub(super) expert: usize,
    /// First row of the matrix.
    pub(super) first: usize,
    /// Columns of the products.
    pub(super) columns: Range<usize>,
    /// Rows of the products.
    pub(super) rows: usize,
}

impl Step<'_, '_> {
    /// One phase over the tasks of all parts.
    pub(super) fn project(&mut self, phases: &mut Phases<'_>, own: &mut OwnActivations<'_>, op: &Project) {
        let ups = op.parts.iter().filter_map(|part| match &part.epilogue {
            Epilogue::Gate { up, .. } => Some(up),
            _ => None,
        });
        let layouts = Layouts::of(self.context, op.parts.iter().map(|part| &part.matrix).chain(ups));
        let source = Source { input: op.input, norm: op.norm };
        self.share_inputs(phases, source, &layouts);
        let (mut cuts, mut tasks) = (Cuts::new(), 0);
        let targets = || op.parts.iter().flat_map(targets);
        for target in targets() {
            let cut = self.part_cut(target).at_task(tasks);
            tasks += cut.units();
            cuts.push(cut);
        }
        let phase = phases.open(&cuts);
        let inputs = self.inputs(&phase, own, source, &layouts);
        while let Some(mut task) = phase.next_task() {
            for (index, target) in targets().enumerate() {
                if let Some(unit) = task.unit(index) {
                    self.part(&phase, &inputs, target, op.input, unit, &mut task.share(index));
                    break;
                }
            }
        }
        phase.end();
    }

    /// The cells that a part writes; a unit is a task.
    fn part_cut(&self, Target { part, half }: Target<'_>) -> Cut {
        let (context, rows) = (self.context, part.matrix.rows as usize);
        match part.epilogue {
            Epilogue::Store { out } => context.region(out).by_columns(rows, OUT_COLS),
            Epilogue::Add { to } | Epilogue::AddGated { to, .. } => {
                context.region(to).by_columns(rows, OUT_COLS)
            }
            Epilogue::Gate { out, .. } => context.region(out).by_columns(rows, STRIP),
            Epilogue::GateBy { out, .. } | Epilogue::Activate { out, .. } => {
                context.region(out).by_columns(rows, OUT_COLS)
            }
            Epilogue::Query { head_dim, out, gate, .. } => match (gate, half) {
                (None, _) => context.region(out).by_columns(rows, head_dim as usize),
                (Some(_), Half::First) => context.region(out).by_columns(rows / 2, head_dim as usize),
                (Some(gate), Half::Second) => context.region(gate).by_columns(rows / 2, head_dim as usize),
            },
            Epilogue::Key { kv, .. } => self.key_cut(kv, rows),
            Epilogue::Value { kv, .. } => {
                let pool = context.pool(kv.group);
                let shape = pool.layout.shape();
                let (heads, bytes) = (rows / shape.value_dim, shape.head_bytes - shape.values);
                pool.layer(kv.layer, shape.values).by_parts(heads, shape.head_bytes, bytes)
            }
        }
    }

    /// The cells of all keys of a layer, by head; `width` is the elements of all heads.
    pub(super) fn key_cut(&self, kv: KvSlot, width: usize) -> Cut {
        let pool = self.context.pool(kv.group);
        let shape = pool.layout.shape();
        pool.layer(kv.layer, 0).by_parts(width / shape.key_dim, shape.head_bytes, shape.values)
    }

    fn part(
        &mut self,
        phase: &Phase<'_>,
        inputs: &Inputs<'_>,
        Target { part, half }: Target<'_>,
        input: TensorId,
        task: usize,
        out: &mut Share<'_>,
    ) {
        let matrix = &part.matrix;
        let head = |norm, rope, head_dim, target| HeadRule { input, norm, rope, head_dim, target };
        match part.epilogue {
            Epilogue::Store { .. } => self.store(matrix, inputs, task, out, |y| y),
            Epilogue::Activate { activation, .. } => {
                self.store(matrix, inputs, task, out, |y| reference::activation(activation, y));
            }
            Epilogue::Add { .. } => {
                let rows = self.pair(matrix, inputs, task);
                self.each_row(rows, |row, y| {
                    out.floats(row).iter_mut().zip(y).for_each(|(to, y)| *to += y);
                });
            }
            Epilogue::AddGated { gate, .. } => {
                let rows = self.pair(matrix, inputs, task);
                let context = self.context;
                self.each_row(rows, |row, y| {
                    let factor = sigmoid(context.read(phase, gate, row)[0]);
                    out.floats(row).iter_mut().zip(y).for_each(|(to, y)| *to += factor * y);
                });
            }
            Epilogue::Gate { up, glu, .. } => {
                self.gate(Gate { gate: matrix, up: &up, glu }, inputs, task, out)
            }
            Epilogue::GateBy { by, column, glu, .. } => {
                let rows = self.pair(matrix, inputs, task);
                let context = self.context;
                let first = column as usize + OUT_COLS * task;
                self.each_row(rows, |row, y| {
                    let out = out.floats(row);
                    let by = &context.read(phase, by, row)[first..first + out.len()];
                    let pairs = out.iter_mut().zip(y).zip(by);
                    pairs.for_each(|((out, &gate), &by)| *out = reference::glu(glu, gate, by));
                });
            }
            Epilogue::Query { norm, rope, head_dim, gate, .. } => {
                // with gates, each head's rows are followed by as many of its gate
                let (norm, rope) = if half == Half::First { (norm, rope) } else { (None, None) };
                let rule = head(norm, rope, head_dim as usize, HeadTarget::Tensor);
                let of_matrix = match gate {
                    None => task,
                    Some(_) => 2 * task + usize::from(half == Half::Second),
                };
                self.head_rows(phase, matrix, rule, inputs, of_matrix, out);
            }
            Epilogue::Key { norm, rope, kv } => {
                let dim = self.context.pool(kv.group).layout.shape().key_dim;
                let rule = head(norm, rope, dim, HeadTarget::Keys(kv));
                self.head_rows(phase, matrix, rule, inputs, task, out);
            }
            Epilogue::Value { norm, kv } => {
                let dim = self.context.pool(kv.group).layout.shape().value_dim;
                let rule = head(norm, None, dim, HeadTarget::Values(kv));
                self.head_rows(phase, matrix, rule, inputs, task, out);
            }
        }
    }

    /// Products of strips `2 task` and `2 task + 1` of a matrix with all rows, scaled and biased, in
    /// `work.products`; returns the number of rows.
    pub(super) fn pair(&mut self, matrix: &Matrix, inputs: &Inputs<'_>, task: usize) -> usize {
        let rows = self.plain_pair(matrix, inputs, task);
        let adjusted = Adjusted { expert: 0, first: OUT_COLS * task, columns: 0..OUT_COLS, rows };
        self.adjust(matrix, adjusted);
        rows
    }

    /// As [`Self::pair`], without factor and bias.
    fn plain_pair(&mut self, matrix: &Matrix, inputs: &Inputs<'_>, task: usize) -> usize {
        let weights = self.weights(matrix, 0);
        let products = inputs.products(self.context, &weights);
        let right = (2 * task + 1 < weights.strips()).then(|| weights.strip(2 * task + 1));
        let out = self.work.products.floats_mut();
        products.pair(weights.strip(2 * task), right, &mut self.work.scratch, out);
        products.rows()
    }

    /// Applies a matrix's factor and bias to a part of `work.products`.
    pub(super) fn adjust(&mut self, matrix: &Matrix, part: Adjusted) {
        if matrix.scale.is_none() && matrix.bias.is_none() {
            return;
        }
        let Adjusted { expert, first, columns, rows } = part;
        let model = self.context.model;
        let scale = matrix.scale.map_or(1.0, |id| {
            let values = model.vector(id);
            values[expert.min(values.len() - 1)]
        });
        let len = matrix.rows as usize;
        let bias = matrix.bias.map(|id| &model.vector(id)[expert * len..(expert + 1) * len][first..]);
        for row in self.work.products.floats_mut().as_chunks_mut::<OUT_COLS>().0.iter_mut().take(rows) {
            for (column, y) in row[columns.clone()].iter_mut().enumerate() {
                let bias = bias.and_then(|bias| bias.get(column)).copied().unwrap_or(0.0);
                *y = *y * scale + bias;
            }
        }
    }

    /// Writes `f` of the products of strips `2 task` and `2 task + 1`.
    fn store(
        &mut self,
        matrix: &Matrix,
        inputs: &Inputs<'_>,
        task: usize,
        out: &mut Share<'_>,
        f: impl Fn(f32) -> f32,
    ) {
        let rows = self.pair(matrix, inputs, task);
        self.each_row(rows, |row, y| {
            out.floats(row).iter_mut().zip(y).for_each(|(out, &y)| *out = f(y));
        });
    }

    /// Calls `f` with the number and the products of every row in `work.products`.
    fn each_row(&self, rows: usize, mut f: impl FnMut(usize, &[f32; OUT_COLS])) {
        let products = self.work.products.floats().as_chunks::<OUT_COLS>().0;
        for (row, y) in products.iter().enumerate().take(rows) {
            f(row, y);
        }
    }

    /// A strip of the gate matrix with the same rows of the other.
    fn gate(&mut self, op: Gate<'_>, inputs: &Inputs<'_>, task: usize, out: &mut Share<'_>) {
        let rows = self.gate_products(op, inputs, task);
        let part = |columns| Adjusted { expert: 0, first: STRIP * task, columns, rows };
        self.adjust(op.gate, part(0..STRIP));
        self.adjust(op.up, part(STRIP..OUT_COLS));
        let products = &mut self.work.products.floats_mut()[..rows * OUT_COLS];
        self.context.isa.run(GatedPairs { glu: op.glu, rows: products });
        self.each_row(rows, |row, y| {
            let out = out.floats(row);
            out.copy_from_slice(&y[..out.len()]);
        });
    }

    /// The two strips side by side in `work.products`; their activations may differ in format.
    fn gate_products(&mut self, op: Gate<'_>, inputs: &Inputs<'_>, task: usize) -> usize {
        let (left, right) = (self.weights(op.gate, 0), self.weights(op.up, 0));
        let first = inputs.products(self.context, &left);
        let out = self.work.products.floats_mut();
        if left.activation() == right.activation() {
            first.pair(left.strip(task), Some(right.strip(task)), &mut self.work.scratch, out);
        } else {
            first.pair(left.strip(task), None, &mut self.work.scratch, out);
            let second = inputs.products(self.context, &right);
            second.right(right.strip(task), &mut self.work.scratch, out);
        }
        first.rows()
    }

    /// All rows of one head: products, norm, rotation, then to their target.
    fn head_rows(
        &mut self,
        phase: &Phase<'_>,
        matrix: &Matrix,
        rule: HeadRule,
        inputs: &Inputs<'_>,
        head: usize,
        out: &mut Share<'_>,
    ) {
        let dim = rule.head_dim;
        let part = Matrix { first_row: matrix.first_row + (head * dim) as u32, rows: dim as u32, ..*matrix };
        let rows = self.context.rows(rule.input);
        for task in 0..dim.div_ceil(OUT_COLS) {
            self.plain_pair(&part, inputs, task);
            // Factor and bias are the whole matrix's.
            let first = head * dim + OUT_COLS * task;
            self.adjust(matrix, Adjusted { expert: 0, first, columns: 0..OUT_COLS, rows });
            let count = OUT_COLS.min(dim - OUT_COLS * task);
            let products = self.work.products.floats().as_chunks::<OUT_COLS>().0;
            let block = self.work.block.floats_mut();
            for (row, y) in block.chunks_exact_mut(dim).zip(products).take(rows) {
                row[OUT_COLS * task..][..count].copy_from_slice(&y[..count]);
            }
        }
        for row in 0..rows {
            self.finish_head(phase, rule, row, out);
        }
    }

    fn finish_head(&mut self, phase: &Phase<'_>, rule: HeadRule, row: usize, out: &mut Share<'_>) {
        self.norm_head(rule.norm, row, rule.head_dim);
        self.rotate_head(phase, rule, row);
        self.store_head(rule, row, out);
    }

    /// Normalizes one row's head in `work.block`.
    pub(super) fn norm_head(&mut self, norm: Option<Norm>, row: usize, dim: usize) {
        let Some(norm) = norm else { return };
        let context = self.context;
        let norm = HeadNorm { weight: context.model.vector(norm.weight), eps: norm.eps };
        let head = &mut self.work.block.floats_mut()[row * dim..(row + 1) * dim];
        context.isa.run(Heads { row: head, head_dim: dim, norm: Some(norm), rotation: None });
    }

    /// Rotates one row's head in `work.block`.
    pub(super) fn rotate_head(&mut self, phase: &Phase<'_>, rule: HeadRule, row: usize) {
        let (context, dim) = (self.context, rule.head_dim);
        let Some(rope) = rule.rope else { return };
        let angles = context.angles(phase, rope, context.batch_row(rule.input, row));
        let pairing = context.model.ropes[rope.index()].pairing;
        let rotation = Some(Rotation { pairing, cos: angles.cos, sin: angles.sin });
        let head = &mut self.work.block.floats_mut()[row * dim..(row + 1) * dim];
        context.isa.run(Heads { row: head, head_dim: dim, norm: None, rotation });
    }

    /// Takes one row's head from `work.block` to its target.
    pub(super) fn store_head(&mut self, rule: HeadRule, row: usize, out: &mut Share<'_>) {
        let (context, dim) = (self.context, rule.head_dim);
        let head = &self.work.block.floats()[row * dim..(row + 1) * dim];
        let at: RowPosition = context.position(rule.input, row);
        match rule.target {
            HeadTarget::Tensor => out.floats(row).copy_from_slice(head),
            HeadTarget::Keys(kv) => {
                let (page, column) = context.page(at, kv);
                let shape = context.pool(kv.group).layout.shape();
                shape.write_key(context.isa, out.bytes(page.0 as usize), column, head);
            }
            HeadTarget::Values(kv) => {
                let (page, column) = context.page(at, kv);
                let shape = context.pool(kv.group).layout.shape();
                shape.write_value(context.isa, out.bytes(page.0 as usize), column, head);
            }
        }
    }
}
