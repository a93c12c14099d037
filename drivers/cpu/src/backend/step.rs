//! One thread's walk through a plan: the phases of the simple operations, and inputs of matrices.
#![expect(unsafe_code, reason = "tasks of a phase write disjoint cells of shared buffers")]

use super::local::Local;
use super::shared::Cells;
use crate::activations::{Layout, Quantize};
use crate::elementwise::{NormAdd, RmsNorm};
use crate::features::Isa;
use crate::kv::KvPool;
use crate::pool::Team;
use crate::product::{Products, Selection, Weights, activation};
use core::ops::Range;
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, Matrix, Norm, Op, Plan, RopeId, TensorId, WeightId};
use doorbell_core::quant::{self, Activation};

/// Up to so many rows every thread normalizes and quantizes for itself.
pub(super) const OWN_ROWS: usize = 4;

/// Up to so many hidden rows of experts every thread quantizes for itself.
pub(super) const OWN_CHOICES: usize = 32;

/// What all threads of a step share.
pub(super) struct Context<'s> {
    pub(super) isa: Isa,
    pub(super) model: &'s Model<'s>,
    pub(super) plan: &'s Plan<'s>,
    /// The operations to run.
    pub(super) ops: Range<usize>,
    pub(super) batch: &'s Batch<'s>,
    pub(super) pools: &'s [KvPool<'s>],
    /// Sequence and position of each batch row.
    pub(super) places: &'s [(u32, u32)],
    /// The plan's tensors.
    pub(super) arena: Cells,
    /// `[ropes, rows, cosines and sines]`
    pub(super) angles: Cells,
    /// Quantized rows, by format.
    pub(super) panels: [Cells; 4],
    /// `[choices, hidden]` of experts.
    pub(super) hidden: Cells,
    /// The same, quantized.
    pub(super) hidden_panel: Cells,
    /// `[rows, experts]`
    pub(super) router: Cells,
    /// `[outputs, vocabulary]`
    pub(super) logits: Cells,
    /// `[threads, outputs]` values and tokens.
    pub(super) best: Cells,
    /// Partial attention: `[rows, heads, chunks]`.
    pub(super) partials: Cells,
    /// Partial results that fit.
    pub(super) partial_floats: usize,
}

/// A quantized input of matrices: its layout and rows.
pub(super) type Panel<'s> = (Layout, &'s [u8]);

/// One thread's part in a step.
pub(super) struct Step<'s, 'h> {
    pub(super) context: &'s Context<'s>,
    pub(super) team: &'s Team<'s>,
    pub(super) local: &'s mut Local<'h>,
}

impl<'s> Step<'s, '_> {
    /// All operations that are to be run.
    pub(super) fn run(&mut self) {
        self.local.moe.routed = None;
        self.angles();
        let ops = &self.context.plan.ops[self.context.ops.clone()];
        for (index, op) in ops.iter().enumerate() {
            match op {
                Op::Embed { table, scale, out } => self.embed(*table, *scale, *out),
                Op::Select { input, out } => self.select(*input, *out),
                Op::Project(op) => self.project(op),
                Op::Attend(op) => self.attend(op),
                Op::Route(op) => self.route(op, ops.get(index + 1)),
                Op::Experts(op) => self.experts(op),
                Op::NormAdd { input, norm, to } => self.norm_add(*input, *norm, *to),
                Op::Head(op) => self.head(op),
            }
        }
    }

    /// Rows of a tensor in this batch.
    pub(super) fn rows(&self, id: TensorId) -> usize {
        self.context.batch.rows_of(self.context.plan.tensor(id).rows)
    }

    /// The batch row behind a tensor's row.
    pub(super) fn batch_row(&self, id: TensorId, row: usize) -> usize {
        self.context.batch.batch_row(self.context.plan.tensor(id).rows, row) as usize
    }

    /// A tensor's row, to read.
    ///
    /// # Safety
    /// No task of this phase writes it.
    pub(super) unsafe fn read(&self, id: TensorId, row: usize) -> &'s [f32] {
        let tensor = self.context.plan.tensor(id);
        let width = tensor.width as usize;
        // SAFETY: the caller's promise.
        unsafe { self.context.arena.read(tensor.offset + row * width, width) }
    }

    /// Columns of a tensor's row, to write.
    ///
    /// # Safety
    /// No other task of this phase uses them.
    pub(super) unsafe fn write(&self, id: TensorId, row: usize, first: usize, count: usize) -> &'s mut [f32] {
        let tensor = self.context.plan.tensor(id);
        let width = tensor.width as usize;
        debug_assert!(first + count <= width, "columns of a tensor");
        // SAFETY: the caller's promise.
        unsafe { self.context.arena.write(tensor.offset + row * width + first, count) }
    }

    /// Cosines and sines of every rotary embedding at every row's position, once per step.
    fn angles(&self) {
        let context = self.context;
        for row in self.team.tasks(context.places.len()) {
            for (index, rope) in context.model.ropes.iter().enumerate() {
                let pairs = rope.frequencies.len();
                // SAFETY: this task's row only.
                let angles = unsafe { context.angles.write(self.angle_cells(index, row), 2 * pairs) };
                let (cos, sin) = angles.split_at_mut(pairs);
                rope.angles(context.places[row].1, cos, sin);
            }
        }
        self.team.barrier();
    }

    fn angle_cells(&self, rope: usize, row: usize) -> usize {
        let ropes = &self.context.model.ropes;
        let before: usize = ropes[..rope].iter().map(|rope| 2 * rope.frequencies.len()).sum();
        before * self.context.places.len() + row * 2 * ropes[rope].frequencies.len()
    }

    /// Cosines and sines of a rotary embedding for a batch row.
    pub(super) fn rotation(&self, rope: RopeId, row: usize) -> (&'s [f32], &'s [f32]) {
        let pairs = self.context.model.ropes[rope.index()].frequencies.len();
        // SAFETY: written in the step's first phase only.
        let angles = unsafe { self.context.angles.read(self.angle_cells(rope.index(), row), 2 * pairs) };
        angles.split_at(pairs)
    }

    fn embed(&self, table: WeightId, scale: f32, out: TensorId) {
        let weight = self.context.model.weight(table);
        for row in self.team.tasks(self.context.batch.rows()) {
            let token = self.context.batch.tokens[row].0 as usize;
            // SAFETY: this task's row only.
            let target = unsafe { self.write(out, row, 0, weight.cols) };
            // The binder has checked type and length, the batch its tokens.
            let _ = quant::dequantize(weight.ty, weight.slice(0, token, 1), target);
            target.iter_mut().for_each(|x| *x *= scale);
        }
        self.team.barrier();
    }

    fn select(&self, input: TensorId, out: TensorId) {
        for row in self.team.tasks(self.context.batch.outputs.len()) {
            // SAFETY: the input is not written in this phase; the output row is this task's.
            unsafe {
                let from = self.read(input, self.context.batch.outputs[row] as usize);
                self.write(out, row, 0, from.len()).copy_from_slice(from);
            }
        }
        self.team.barrier();
    }

    /// A task is a part of a row, since there is mostly one row.
    fn norm_add(&self, input: TensorId, norm: Norm, to: TensorId) {
        const PART: usize = 256;
        let width = self.context.plan.tensor(input).width as usize;
        let parts = width.div_ceil(PART);
        let weight = self.context.model.vector(norm.weight);
        for task in self.team.tasks(self.rows(input) * parts) {
            let (row, first) = (task / parts, task % parts * PART);
            let count = PART.min(width - first);
            // SAFETY: the input is not written in this phase; the part is this task's.
            let (x, to) = unsafe { (self.read(input, row), self.write(to, row, first, count)) };
            self.context.isa.run(NormAdd { x, weight, eps: norm.eps, first, to });
        }
        self.team.barrier();
    }

    /// Rows of an input, normalized and in the formats that `matrices` take. One phase when rows are many, none when
    /// they are few.
    pub(super) fn panels<'x>(
        &mut self,
        input: TensorId,
        norm: Option<Norm>,
        matrices: impl Iterator<Item = &'x Matrix>,
    ) -> [Option<Panel<'s>>; 4] {
        let (rows, model) = (self.rows(input), self.context.model);
        let mut layouts = [None; 4];
        for matrix in matrices {
            let weight = model.weight(matrix.weight);
            // The backend has refused weights without a kernel.
            let format = activation(weight.ty).unwrap_or(Activation::F32);
            layouts[format as usize] = Layout::new(format, weight.cols);
        }
        let own = rows <= OWN_ROWS;
        if own {
            (0..rows).for_each(|row| self.quantize_row(input, norm, &layouts, row, true));
        } else {
            for row in self.team.tasks(rows) {
                self.quantize_row(input, norm, &layouts, row, false);
            }
            self.team.barrier();
        }
        let mut panels = [None; 4];
        for (format, layout) in layouts.into_iter().enumerate() {
            let Some(layout) = layout else { continue };
            let bytes = rows * layout.stride;
            let cells = if own { self.local.panels[format].cells() } else { self.context.panels[format] };
            // SAFETY: nobody writes the panel before the operation's last barrier.
            panels[format] = Some((layout, unsafe { cells.read_bytes(0, bytes) }));
        }
        panels
    }

    fn quantize_row(
        &mut self,
        input: TensorId,
        norm: Option<Norm>,
        layouts: &[Option<Layout>; 4],
        row: usize,
        own: bool,
    ) {
        let isa = self.context.isa;
        // SAFETY: inputs are not written while they are read.
        let x = unsafe { self.read(input, row) };
        let values = match norm {
            None => x,
            Some(norm) => {
                let out = &mut self.local.row.floats_mut()[..x.len()];
                let weight = self.context.model.vector(norm.weight);
                isa.run(RmsNorm { x, weight, eps: norm.eps, out });
                &self.local.row.floats()[..x.len()]
            }
        };
        for (format, layout) in layouts.iter().enumerate() {
            let Some(layout) = layout else { continue };
            let cells = if own { self.local.panels[format].cells() } else { self.context.panels[format] };
            // SAFETY: this task's row of the shared panel, or the thread's own.
            let bytes = unsafe { cells.write_bytes(row * layout.stride, layout.stride) };
            isa.run(Quantize::new(layout, values, bytes));
        }
    }

    /// The rows of a matrix; of a stack, those of matrix `expert`.
    pub(super) fn weights(&self, matrix: &Matrix, expert: usize) -> Weights<'s> {
        let weight = self.context.model.weight(matrix.weight);
        let rows = weight.slice(expert, matrix.first_row as usize, matrix.rows as usize);
        let weights = Weights::new(weight.ty, weight.cols, rows);
        // `CpuBackend::new` has made the same call for every weight.
        weights.expect("a weight that the backend has accepted")
    }

    /// Products with all rows of a panel.
    pub(super) fn products<'x>(
        &self,
        panels: &'x [Option<Panel<'x>>; 4],
        weights: &Weights<'_>,
    ) -> Products<'x> {
        let (layout, bytes) = panels[weights.activation() as usize]
            .as_ref()
            .expect("a panel for every matrix of the operation");
        let count = bytes.len() / layout.stride;
        Products::new(self.context.isa, layout, bytes, Selection::Range { first: 0, count })
    }
}
