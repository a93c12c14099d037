//! Inputs of matrices: rows, normalized and in the formats that the matrices take.

use super::context::Context;
use super::local::OwnActivations;
use super::sizes::OWN_ROWS;
use super::step::Step;
use crate::activations::{Layout, Quantize};
use crate::elementwise::{LayerNorm, RmsNorm};
use crate::features::Isa;
use crate::phase::{Cuts, Phase, Phases, Region};
use crate::product::{Products, Selection, Weights, activation};
use doorbell_core::plan::{Matrix, Norm, NormKind, TensorId};
use doorbell_core::quant::Activation;

/// The layouts that some matrices take, by format.
#[derive(Clone, Copy)]
pub(super) struct Layouts([Option<Layout>; 4]);

impl Layouts {
    pub(super) fn of<'x>(context: &Context<'_>, matrices: impl Iterator<Item = &'x Matrix>) -> Self {
        let mut layouts = [None; 4];
        for matrix in matrices {
            let weight = context.model.weight(matrix.weight);
            // The backend has refused weights without a kernel.
            let format = activation(weight.ty).unwrap_or(Activation::F32);
            layouts[format as usize] = Layout::new(format, weight.cols);
        }
        Self(layouts)
    }
}

/// Quantized rows in one layout.
#[derive(Clone, Copy)]
pub(super) struct InputRows<'x> {
    pub(super) layout: Layout,
    pub(super) bytes: &'x [u8],
}

impl InputRows<'_> {
    /// Products with the rows that `selection` names.
    pub(super) fn products<'x>(&'x self, isa: Isa, selection: Selection<'x>) -> Products<'x> {
        Products::new(isa, &self.layout, self.bytes, selection)
    }
}

/// Quantized rows, by format.
pub(super) struct Inputs<'x>([Option<InputRows<'x>>; 4]);

impl Inputs<'_> {
    /// Rows in the format that `weights` take.
    pub(super) fn rows(&self, weights: &Weights<'_>) -> &InputRows<'_> {
        self.0[weights.activation() as usize].as_ref().expect("rows for every matrix of the operation")
    }

    /// Products with all rows.
    pub(super) fn products(&self, context: &Context<'_>, weights: &Weights<'_>) -> Products<'_> {
        let rows = self.rows(weights);
        let count = rows.bytes.len() / rows.layout.stride;
        rows.products(context.isa, Selection::Range { first: 0, count })
    }
}

/// A tensor and the norm that is applied to it.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) input: TensorId,
    pub(super) norm: Option<Norm>,
}

impl Step<'_, '_> {
    /// Normalizes and quantizes many rows together, in a phase of its own; few rows are left to [`Self::inputs`].
    pub(super) fn share_inputs(&mut self, phases: &mut Phases<'_>, source: Source, layouts: &Layouts) {
        let context = self.context;
        let rows = context.rows(source.input);
        if rows <= OWN_ROWS {
            return;
        }
        let mut cuts = Cuts::new();
        for (layout, buffer) in layouts.0.iter().zip(context.buffers.activations) {
            if let Some(layout) = layout {
                cuts.push(Region::bytes(buffer, 0, rows, layout.stride).by_rows(layout.stride));
            }
        }
        let phase = phases.open(&cuts);
        while let Some(mut task) = phase.next_task() {
            let values = self.normalized(&phase, source, task.first());
            for (cut, layout) in layouts.0.iter().flatten().enumerate() {
                context.isa.run(Quantize::new(layout, values, task.share(cut).bytes(0)));
            }
        }
        phase.end();
    }

    /// The rows in all layouts: as [`Self::share_inputs`] has left them, or made here in the thread's own memory.
    pub(super) fn inputs<'x>(
        &mut self,
        phase: &'x Phase<'_>,
        own: &'x mut OwnActivations<'_>,
        source: Source,
        layouts: &Layouts,
    ) -> Inputs<'x> {
        let context = self.context;
        let rows = context.rows(source.input);
        let mut inputs = Inputs([None; 4]);
        if rows > OWN_ROWS {
            for (format, layout) in layouts.0.into_iter().enumerate() {
                let of = |layout: Layout| {
                    let bytes = phase.bytes(context.buffers.activations[format], 0, rows * layout.stride);
                    InputRows { layout, bytes }
                };
                inputs.0[format] = layout.map(of);
            }
            return inputs;
        }
        for row in 0..rows {
            let values = self.normalized(phase, source, row);
            for (layout, lines) in layouts.0.iter().zip(&mut own.rows) {
                if let Some(layout) = layout {
                    let bytes = &mut lines.bytes_mut()[row * layout.stride..][..layout.stride];
                    context.isa.run(Quantize::new(layout, values, bytes));
                }
            }
        }
        for (inputs, (layout, lines)) in inputs.0.iter_mut().zip(layouts.0.into_iter().zip(&own.rows)) {
            *inputs =
                layout.map(|layout| InputRows { layout, bytes: &lines.bytes()[..rows * layout.stride] });
        }
        inputs
    }

    /// A row behind its norm.
    fn normalized<'x>(&'x mut self, phase: &'x Phase<'_>, source: Source, row: usize) -> &'x [f32] {
        let x = self.context.read(phase, source.input, row);
        let Some(norm) = source.norm else { return x };
        let out = &mut self.work.row.floats_mut()[..x.len()];
        self.context.normalize(norm, x, out);
        out
    }
}

impl Context<'_> {
    /// `out = norm(x)`, rows of one length.
    pub(super) fn normalize(&self, norm: Norm, x: &[f32], out: &mut [f32]) {
        let (weight, eps) = (self.model.vector(norm.weight), norm.eps);
        match norm.kind {
            NormKind::Rms => self.isa.run(RmsNorm { x, weight, eps, out }),
            NormKind::Layer => {
                let bias = norm.bias.map(|id| self.model.vector(id));
                self.isa.run(LayerNorm { x, weight, bias, eps, out });
            }
        }
    }
}
