//! The working memory that a plan needs, found before its first step.

use crate::activations::Layout;
use crate::delta_net::{BLOCK, PART_COLUMNS};
use crate::kv::PageShape;
use crate::product::{OUT_COLS, activation};
use crate::simd::STRIP;
use doorbell_core::model::Model;
use doorbell_core::plan::{Epilogue, HeadResult, HeadTarget, KvSlot, Matrix, Op, Part, Plan};
use doorbell_core::quant::Activation;

/// Up to this many rows every thread normalizes and quantizes for itself.
pub(super) const OWN_ROWS: usize = 4;

/// Up to this many hidden rows of experts every thread quantizes for itself.
pub(super) const OWN_CHOICES: usize = 32;

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
    /// Bytes of a thread's own quantized rows, by format.
    pub(super) own_activations: [usize; 4],
    /// Bytes of the shared quantized rows, by format.
    pub(super) activations: [usize; 4],
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
    pub(super) hidden_activations: usize,
    /// Bytes of those in a thread's own memory.
    pub(super) own_hidden_activations: usize,
    /// Floats of router products.
    pub(super) router: usize,
    /// Floats of logits.
    pub(super) logits: usize,
    /// Floats of a thread's block of tokens of a delta net.
    pub(super) delta: usize,
}

/// Raises `size` to at least `value`.
fn raise(size: &mut usize, value: usize) {
    *size = (*size).max(value);
}

impl Sizes {
    pub(super) fn of(model: &Model<'_>, plan: &Plan<'_>) -> Self {
        let (rows, outputs) = (plan.shape.rows as usize, plan.shape.outputs as usize);
        let widest = rows.max(outputs);
        let mut sizes = Self { rows: widest, outputs, products: widest * OUT_COLS, ..Self::default() };
        sizes.block = sizes.products;
        for op in &plan.ops {
            op.each_matrix(|matrix| sizes.matrix(model, matrix));
            sizes.op(model, op);
        }
        sizes
    }

    /// The needs of an operation beside its matrices'.
    fn op(&mut self, model: &Model<'_>, op: &Op) {
        match op {
            Op::Project(op) => op.parts.iter().for_each(|part| self.head_block(model, part)),
            Op::Attend(op) => {
                let group = &model.groups[op.kv.group.index()];
                raise(&mut self.value_stride, (group.value_dim as usize).next_multiple_of(32));
                let per_row = op.heads as usize / group.heads as usize;
                raise(&mut self.queries, BLOCK_QUERIES.max(per_row));
                raise(&mut self.heads, op.heads as usize);
            }
            Op::Route(op) => {
                raise(&mut self.block, op.router.rows as usize);
                raise(&mut self.router, self.rows * op.router.rows as usize);
                raise(&mut self.choices, self.rows * op.top_k as usize);
                raise(&mut self.experts, op.router.rows as usize);
            }
            Op::Experts(op) => {
                let choices = self.rows * op.top_k as usize;
                raise(&mut self.choices, choices);
                raise(&mut self.experts, model.weight(op.gate.weight).stack);
                raise(&mut self.hidden, choices * (op.gate.rows as usize).next_multiple_of(STRIP));
                let stride = stride(model, &op.down);
                raise(&mut self.hidden_activations, choices * stride);
                raise(&mut self.own_hidden_activations, choices.min(OWN_CHOICES) * stride);
            }
            Op::Head(op) => match op.result {
                HeadResult::Logits => raise(&mut self.logits, self.outputs * op.matrix.rows as usize),
                HeadResult::Hidden => raise(&mut self.logits, self.outputs * model.hparams.width as usize),
                HeadResult::ArgMax => {}
            },
            Op::DeltaNet(op) => {
                let shape = &op.shape;
                let padded = (shape.value_dim as usize).next_multiple_of(PART_COLUMNS);
                raise(&mut self.delta, BLOCK * (2 * shape.key_dim as usize + 2 * padded));
            }
            Op::Rotate(op) => {
                let head_dim = match op.target {
                    HeadTarget::Query { head_dim, .. } => head_dim,
                    HeadTarget::Key(kv) => model.groups[kv.group.index()].key_dim,
                };
                raise(&mut self.block, self.rows * head_dim as usize);
            }
            Op::Embed { .. } | Op::Select { .. } | Op::NormAdd(_) => {}
        }
    }

    /// The rows of one head of a part whose heads are computed one by one.
    fn head_block(&mut self, model: &Model<'_>, part: &Part) {
        let group = |kv: KvSlot| &model.groups[kv.group.index()];
        let head_dim = match part.epilogue {
            Epilogue::Query { head_dim, .. } => head_dim,
            Epilogue::Key { kv, .. } => group(kv).key_dim,
            Epilogue::Value { kv, .. } => group(kv).value_dim,
            _ => return,
        };
        raise(&mut self.block, self.rows * head_dim as usize);
    }

    fn matrix(&mut self, model: &Model<'_>, matrix: &Matrix) {
        let weight = model.weight(matrix.weight);
        raise(&mut self.cols, weight.cols);
        // Heads and parts may cut a matrix anywhere, so only a whole number of strips everywhere needs no padding.
        raise(&mut self.padded_row_bytes, weight.row_bytes());
        if let Some(format) = activation(weight.ty) {
            let stride = stride(model, matrix);
            raise(&mut self.own_activations[format as usize], self.rows.min(OWN_ROWS) * stride);
            if self.rows > OWN_ROWS {
                raise(&mut self.activations[format as usize], self.rows * stride);
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
