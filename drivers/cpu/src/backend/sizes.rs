//! How much working memory a plan needs, found before its first step.

use super::step::{OWN_CHOICES, OWN_ROWS};
use crate::activations::Layout;
use crate::kv::PageShape;
use crate::product::{OUT_COLS, activation};
use doorbell_core::model::Model;
use doorbell_core::plan::{Epilogue, HeadResult, Matrix, Op, Plan};
use doorbell_core::quant::Activation;

/// Queries that one attention task takes at a time (more when a single row has more heads to a KV head).
pub(super) const BLOCK_QUERIES: usize = 24;

/// The largest of each need over a plan's operations.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    /// Batch rows.
    pub(super) rows: usize,
    /// Output rows.
    pub(super) outputs: usize,
    /// Columns of any matrix.
    pub(super) cols: usize,
    /// Bytes of a row of any matrix: the last strip of a part may be padded.
    pub(super) padded_row_bytes: usize,
    /// Bytes of a thread's own panels, by format.
    pub(super) own_panels: [usize; 4],
    /// Bytes of the shared panels, by format.
    pub(super) panels: [usize; 4],
    /// Floats of products of a pair of strips.
    pub(super) products: usize,
    /// Floats of a head's block.
    pub(super) block: usize,
    /// Floats from one attention value to the next.
    pub(super) value_stride: usize,
    /// Queries of an attention block.
    pub(super) queries: usize,
    /// Query heads.
    pub(super) heads: usize,
    /// Rows times experts per row.
    pub(super) choices: usize,
    /// Experts.
    pub(super) experts: usize,
    /// Floats of all experts' hidden rows.
    pub(super) hidden: usize,
    /// Bytes of those, quantized.
    pub(super) hidden_panel: usize,
    /// Bytes of those in a thread's own panel.
    pub(super) own_hidden_panel: usize,
    /// Floats of router products.
    pub(super) router: usize,
    /// Floats of logits.
    pub(super) logits: usize,
}

/// Raises `what` to `value`.
fn raise(what: &mut usize, value: usize) {
    *what = (*what).max(value);
}

impl Sizes {
    pub(super) fn of(model: &Model<'_>, plan: &Plan<'_>) -> Self {
        let (rows, outputs) = (plan.shape.rows as usize, plan.shape.outputs as usize);
        let widest = rows.max(outputs);
        let mut sizes = Self { rows: widest, outputs, products: widest * OUT_COLS, ..Self::default() };
        sizes.block = sizes.products;
        for op in &plan.ops {
            op.each_matrix(|matrix| sizes.matrix(model, matrix));
            match op {
                Op::Project(op) => {
                    for part in &op.parts {
                        match part.epilogue {
                            Epilogue::Query { head_dim, .. } => {
                                raise(&mut sizes.block, widest * head_dim as usize)
                            }
                            Epilogue::Key { kv, .. } => {
                                let group = &model.groups[kv.group.index()];
                                raise(&mut sizes.block, widest * group.key_dim as usize);
                            }
                            _ => {}
                        }
                    }
                }
                Op::Attend(op) => {
                    let group = &model.groups[op.kv.group.index()];
                    let stride = (group.value_dim as usize).next_multiple_of(32);
                    raise(&mut sizes.value_stride, stride);
                    let per_row = op.heads as usize / group.heads as usize;
                    raise(&mut sizes.queries, BLOCK_QUERIES.max(per_row));
                    raise(&mut sizes.heads, op.heads as usize);
                }
                Op::Route(op) => {
                    raise(&mut sizes.block, op.router.rows as usize);
                    raise(&mut sizes.router, widest * op.router.rows as usize);
                    raise(&mut sizes.choices, widest * op.top_k as usize);
                    raise(&mut sizes.experts, op.router.rows as usize);
                }
                Op::Experts(op) => {
                    let choices = widest * op.top_k as usize;
                    raise(&mut sizes.choices, choices);
                    raise(&mut sizes.experts, model.weight(op.gate.weight).stack);
                    raise(&mut sizes.hidden, choices * op.gate.rows as usize);
                    let stride = stride(model, &op.down);
                    raise(&mut sizes.hidden_panel, choices * stride);
                    raise(&mut sizes.own_hidden_panel, choices.min(OWN_CHOICES) * stride);
                }
                Op::Head(op) => match op.result {
                    HeadResult::Logits => raise(&mut sizes.logits, outputs * op.matrix.rows as usize),
                    HeadResult::Hidden => raise(&mut sizes.logits, outputs * model.hparams.width as usize),
                    HeadResult::ArgMax => {}
                },
                _ => {}
            }
        }
        sizes
    }

    fn matrix(&mut self, model: &Model<'_>, matrix: &Matrix) {
        let weight = model.weight(matrix.weight);
        raise(&mut self.cols, weight.cols);
        // Heads and parts may cut a matrix anywhere, so only a whole number of strips everywhere needs no padding.
        raise(&mut self.padded_row_bytes, weight.row_bytes());
        if let Some(format) = activation(weight.ty) {
            let stride = stride(model, matrix);
            raise(&mut self.own_panels[format as usize], self.rows.min(OWN_ROWS) * stride);
            if self.rows > OWN_ROWS {
                raise(&mut self.panels[format as usize], self.rows * stride);
            }
        }
    }
}

/// Bytes of a quantized row for a matrix.
fn stride(model: &Model<'_>, matrix: &Matrix) -> usize {
    let weight = model.weight(matrix.weight);
    let format = activation(weight.ty).unwrap_or(Activation::F32);
    Layout::new(format, weight.cols).map_or(0, |layout| layout.stride)
}

/// Floats of one query's partial result: values, maximum, sum.
pub(super) const fn partial_floats(shape: &PageShape) -> usize {
    shape.value_stride + 16
}
