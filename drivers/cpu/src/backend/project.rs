//! Projections: one or more matrices over the same input, each with its epilogue.
#![expect(unsafe_code, reason = "tasks of a phase write disjoint cells of shared buffers")]

use super::step::{Panel, Step};
use crate::elementwise::{GatedPairs, Heads, sigmoid};
use crate::product::{OUT_COLS, Weights};
use crate::simd::STRIP;
use doorbell_core::plan::{Epilogue, Glu, KvSlot, Matrix, Norm, Part, Project, RopeId, TensorId};

/// What is done to a head before it is stored.
#[derive(Clone, Copy)]
struct HeadRule {
    norm: Option<Norm>,
    rope: Option<RopeId>,
    head_dim: usize,
}

/// Where a finished head goes.
#[derive(Clone, Copy)]
enum HeadTarget {
    Tensor(TensorId),
    Keys(KvSlot),
}

impl<'s> Step<'s, '_> {
    /// One phase over the tasks of all parts.
    pub(super) fn project(&mut self, op: &Project) {
        let ups = op.parts.iter().filter_map(|part| match &part.epilogue {
            Epilogue::Gate { up, .. } => Some(up),
            _ => None,
        });
        let panels = self.panels(op.input, op.norm, op.parts.iter().map(|part| &part.matrix).chain(ups));
        let total = op.parts.iter().map(|part| self.part_tasks(part)).sum();
        for task in self.team.tasks(total) {
            let mut task = task;
            for part in &op.parts {
                let tasks = self.part_tasks(part);
                if task < tasks {
                    self.part(part, op.input, &panels, task);
                    break;
                }
                task -= tasks;
            }
        }
        self.team.barrier();
    }

    /// Heads, gate strips, or pairs of strips.
    fn part_tasks(&self, part: &Part) -> usize {
        let rows = part.matrix.rows as usize;
        match part.epilogue {
            Epilogue::Query { head_dim, .. } => rows / head_dim as usize,
            Epilogue::Key { kv, .. } => rows / self.context.model.groups[kv.group.index()].key_dim as usize,
            Epilogue::Gate { .. } => rows.div_ceil(STRIP),
            _ => rows.div_ceil(OUT_COLS),
        }
    }

    fn part(&mut self, part: &Part, input: TensorId, panels: &[Option<Panel<'s>>; 4], task: usize) {
        let matrix = &part.matrix;
        match part.epilogue {
            Epilogue::Store { out } => {
                let rows = self.pair(matrix, panels, task);
                self.each_row(matrix, task, rows, |step, row, first, y| {
                    // SAFETY: this task's columns.
                    unsafe { step.write(out, row, first, y.len()) }.copy_from_slice(y);
                });
            }
            Epilogue::Add { to } => {
                let rows = self.pair(matrix, panels, task);
                self.each_row(matrix, task, rows, |step, row, first, y| {
                    // SAFETY: this task's columns.
                    let to = unsafe { step.write(to, row, first, y.len()) };
                    to.iter_mut().zip(y).for_each(|(to, y)| *to += y);
                });
            }
            Epilogue::AddGated { to, gate } => {
                let rows = self.pair(matrix, panels, task);
                self.each_row(matrix, task, rows, |step, row, first, y| {
                    // SAFETY: this task's columns; the gate is not written in this phase.
                    let (to, gate) =
                        unsafe { (step.write(to, row, first, y.len()), step.read(gate, row)[0]) };
                    let factor = sigmoid(gate);
                    to.iter_mut().zip(y).for_each(|(to, y)| *to += factor * y);
                });
            }
            Epilogue::Gate { up, glu, out } => self.gate((matrix, &up), glu, out, panels, task),
            Epilogue::Query { norm, rope, head_dim, out } => {
                let rule = HeadRule { norm, rope, head_dim: head_dim as usize };
                self.head_rows(matrix, rule, (input, HeadTarget::Tensor(out)), panels, task);
            }
            Epilogue::Key { norm, rope, kv } => {
                let head_dim = self.context.model.groups[kv.group.index()].key_dim as usize;
                let rule = HeadRule { norm, rope, head_dim };
                self.head_rows(matrix, rule, (input, HeadTarget::Keys(kv)), panels, task);
            }
            Epilogue::Value { kv } => {
                let rows = self.pair(matrix, panels, task);
                let dim = self.context.pools[kv.group.index()].shape().value_dim;
                self.each_row(matrix, task, rows, |step, row, first, y| {
                    step.cache_values(kv, dim, (input, row, first), y)
                });
            }
        }
    }

    /// Products of strips `2 task` and `2 task + 1` of a matrix with all rows, scaled and biased, in
    /// `local.products`; returns how many rows.
    pub(super) fn pair(&mut self, matrix: &Matrix, panels: &[Option<Panel<'s>>; 4], task: usize) -> usize {
        let weights = self.weights(matrix, 0);
        let products = self.products(panels, &weights);
        let right = (2 * task + 1 < weights.strips()).then(|| weights.strip(2 * task + 1));
        let out = self.local.products.floats_mut();
        products.pair(weights.strip(2 * task), right, &mut self.local.scratch, out);
        let rows = products.rows();
        self.adjust(matrix, 0, OUT_COLS * task, (0, OUT_COLS), rows);
        rows
    }

    /// Applies a matrix's factor and bias to columns `at .. at + count` of `local.products`, which are its rows from
    /// `first` on.
    pub(super) fn adjust(
        &mut self,
        matrix: &Matrix,
        expert: usize,
        first: usize,
        (at, count): (usize, usize),
        rows: usize,
    ) {
        if matrix.scale.is_none() && matrix.bias.is_none() {
            return;
        }
        let model = self.context.model;
        let scale = matrix.scale.map_or(1.0, |id| {
            let values = model.vector(id);
            values[expert.min(values.len() - 1)]
        });
        let len = matrix.rows as usize;
        let bias = matrix.bias.map(|id| &model.vector(id)[expert * len..(expert + 1) * len][first..]);
        for row in self.local.products.floats_mut().as_chunks_mut::<OUT_COLS>().0.iter_mut().take(rows) {
            for (column, y) in row[at..at + count].iter_mut().enumerate() {
                let bias = bias.and_then(|bias| bias.get(column)).copied().unwrap_or(0.0);
                *y = *y * scale + bias;
            }
        }
    }

    /// Calls `f` with row, first column and products for every row in `local.products`.
    fn each_row(&self, matrix: &Matrix, task: usize, rows: usize, f: impl Fn(&Self, usize, usize, &[f32])) {
        let first = task * OUT_COLS;
        let count = OUT_COLS.min(matrix.rows as usize - first);
        let products = self.local.products.floats().as_chunks::<OUT_COLS>().0;
        for (row, y) in products.iter().enumerate().take(rows) {
            f(self, row, first, &y[..count]);
        }
    }

    /// A strip of the gate matrix with the same rows of the other.
    fn gate(
        &mut self,
        (gate, up): (&Matrix, &Matrix),
        glu: Glu,
        out: TensorId,
        panels: &[Option<Panel<'s>>; 4],
        task: usize,
    ) {
        let (left, right) = (self.weights(gate, 0), self.weights(up, 0));
        let rows = self.gate_products((left, right), panels, task);
        self.adjust(gate, 0, STRIP * task, (0, STRIP), rows);
        self.adjust(up, 0, STRIP * task, (STRIP, STRIP), rows);
        let products = &mut self.local.products.floats_mut()[..rows * OUT_COLS];
        self.context.isa.run(GatedPairs { kind: glu, rows: products });
        let first = STRIP * task;
        let count = STRIP.min(gate.rows as usize - first);
        for (row, y) in self.local.products.floats().as_chunks::<OUT_COLS>().0.iter().enumerate().take(rows) {
            // SAFETY: this task's columns.
            unsafe { self.write(out, row, first, count) }.copy_from_slice(&y[..count]);
        }
    }

    /// The two strips side by side in `local.products`; their activations may differ in format.
    fn gate_products(
        &mut self,
        (left, right): (Weights<'s>, Weights<'s>),
        panels: &[Option<Panel<'s>>; 4],
        task: usize,
    ) -> usize {
        let first = self.products(panels, &left);
        let rows = first.rows();
        let out = self.local.products.floats_mut();
        if left.activation() == right.activation() {
            first.pair(left.strip(task), Some(right.strip(task)), &mut self.local.scratch, out);
            return rows;
        }
        first.pair(left.strip(task), None, &mut self.local.scratch, out);
        let second = self.products(panels, &right);
        let out = self.local.products.floats_mut();
        second.right(right.strip(task), &mut self.local.scratch, out);
        rows
    }

    /// All rows of one head: norm, rotation, and away.
    fn head_rows(
        &mut self,
        matrix: &Matrix,
        rule: HeadRule,
        (input, target): (TensorId, HeadTarget),
        panels: &[Option<Panel<'s>>; 4],
        head: usize,
    ) {
        let dim = rule.head_dim;
        let part = Matrix { first_row: matrix.first_row + (head * dim) as u32, rows: dim as u32, ..*matrix };
        let rows = self.rows(input);
        for task in 0..dim.div_ceil(OUT_COLS) {
            let weights = self.weights(&part, 0);
            let products = self.products(panels, &weights);
            let right = (2 * task + 1 < weights.strips()).then(|| weights.strip(2 * task + 1));
            let out = self.local.products.floats_mut();
            products.pair(weights.strip(2 * task), right, &mut self.local.scratch, out);
            // Factor and bias are the whole matrix's.
            self.adjust(matrix, 0, head * dim + OUT_COLS * task, (0, OUT_COLS), rows);
            let count = OUT_COLS.min(dim - OUT_COLS * task);
            let block = self.local.block.floats_mut();
            let products = self.local.products.floats().as_chunks::<OUT_COLS>().0;
            for (row, y) in block.chunks_exact_mut(dim).zip(products).take(rows) {
                row[OUT_COLS * task..][..count].copy_from_slice(&y[..count]);
            }
        }
        for row in 0..rows {
            self.finish_head(rule, (input, row), head, target);
        }
    }

    fn finish_head(
        &mut self,
        rule: HeadRule,
        (input, row): (TensorId, usize),
        head: usize,
        target: HeadTarget,
    ) {
        let (context, dim) = (self.context, rule.head_dim);
        let batch_row = self.batch_row(input, row);
        let norm = rule.norm.map(|norm| (context.model.vector(norm.weight), norm.eps));
        let rotation = rule.rope.map(|rope| {
            let (cos, sin) = self.rotation(rope, batch_row);
            (context.model.ropes[rope.index()].pairing, cos, sin)
        });
        let block = &mut self.local.block.floats_mut()[row * dim..(row + 1) * dim];
        context.isa.run(Heads { row: block, head_dim: dim, norm, rotation });
        match target {
            HeadTarget::Tensor(out) => {
                let block = &self.local.block.floats()[row * dim..(row + 1) * dim];
                // SAFETY: this task's head.
                unsafe { self.write(out, row, head * dim, dim) }.copy_from_slice(block);
            }
            HeadTarget::Keys(kv) => {
                let (sequence, position) = context.places[batch_row];
                let pages = context.batch.tables.of(sequence, kv.group);
                let block = &self.local.block.floats()[row * dim..(row + 1) * dim];
                // SAFETY: this task's head at this row's position; no two rows share one.
                unsafe {
                    context.pools[kv.group.index()].write_key(context.isa, pages, kv, (position, head), block)
                };
            }
        }
    }

    /// Columns of a value row, which may reach over several heads.
    fn cache_values(&self, kv: KvSlot, dim: usize, (input, row, first): (TensorId, usize, usize), y: &[f32]) {
        let context = self.context;
        let (sequence, position) = context.places[self.batch_row(input, row)];
        let pages = context.batch.tables.of(sequence, kv.group);
        let mut done = 0;
        while done < y.len() {
            let (head, at) = ((first + done) / dim, (first + done) % dim);
            let count = (dim - at).min(y.len() - done);
            let part = &y[done..done + count];
            // SAFETY: this task's columns at this row's position; no two rows share one.
            unsafe {
                context.pools[kv.group.index()].write_value(
                    context.isa,
                    pages,
                    kv,
                    (position, head, at),
                    part,
                )
            };
            done += count;
        }
    }
}
