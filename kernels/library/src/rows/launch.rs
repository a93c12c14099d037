//! Launches of the kernels that take rows as they are: embedding, selection, norm, largest logit.

use crate::formats::spec::FormatSpec;
use crate::gemv::activations::WORKGROUP;
use crate::launch::{Cost, Launch};
use crate::rows::argmax::ArgMax;
use crate::rows::copy::{CopyWords, GROUP_WORDS};
use crate::rows::embed::{Embedding, SelectRows};
use crate::rows::norm::NormAdd;
use crate::step::Step;
use alloc::vec;
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::model::Model;
use doorbell_core::plan::{self, Norm, TensorId, Update, WeightId};

/// True if the kernel reads a table.
pub(crate) fn is_readable(model: &Model<'_>, table: WeightId) -> bool {
    let weight = model.weight(table);
    FormatSpec::find(weight.ty).is_some()
        && weight.cols.is_multiple_of(8)
        && u32::try_from(weight.data.len()).is_ok()
}

/// The launch that copies words to memory that does not overlap.
pub fn copy_words(from: u64, to: u64, count: u32) -> Launch {
    let bytes = 4 * u64::from(count);
    Launch {
        spec: CopyWords.into(),
        groups: [count.div_ceil(GROUP_WORDS).max(1), 1, 1],
        arguments: vec![ArgumentValue::Buffer(from), ArgumentValue::Buffer(to), ArgumentValue::Scalar(count)],
        waits: true,
        cost: Cost { read: bytes, written: bytes, products: 0 },
    }
}

/// The launch of an embedding.
pub(crate) fn embed(step: &Step<'_, '_>, table: WeightId, scale: f32, out: TensorId) -> Launch {
    let weight = step.model.weight(table);
    let (cols, rows) = (weight.cols as u32, step.rows_of(out));
    let spec = Embedding { ty: weight.ty, cols };
    Launch {
        spec: spec.into(),
        groups: [cols.div_ceil(spec.stride()), rows, 1],
        arguments: vec![
            ArgumentValue::Buffer(step.inputs.tokens),
            ArgumentValue::Buffer(step.weight(table)),
            ArgumentValue::Scalar(scale.to_bits()),
            ArgumentValue::Buffer(step.tensor(out)),
        ],
        waits: true,
        cost: Cost {
            read: u64::from(rows) * weight.row_bytes() as u64,
            written: 4 * u64::from(rows) * u64::from(cols),
            products: 0,
        },
    }
}

/// The launch of a selection.
pub(crate) fn select(step: &Step<'_, '_>, input: TensorId, out: TensorId) -> Launch {
    let (cols, rows) = (step.plan.tensor(out).width, step.rows_of(out));
    let bytes = 4 * u64::from(cols) * u64::from(rows);
    Launch {
        spec: SelectRows { cols }.into(),
        groups: [cols.div_ceil(WORKGROUP), rows, 1],
        arguments: vec![
            ArgumentValue::Buffer(step.inputs.outputs),
            ArgumentValue::Buffer(step.tensor(input)),
            ArgumentValue::Buffer(step.tensor(out)),
        ],
        waits: true,
        cost: Cost { read: bytes, written: bytes, products: 0 },
    }
}

/// The launch of the norm of a branch.
pub(crate) fn norm_add(step: &Step<'_, '_>, op: &plan::NormAdd) -> Launch {
    let scale = (op.scale != 1.0).then_some(op.scale);
    norm_launch(step, op.input, op.norm, step.tensor(op.to), op.update, scale)
}

/// The launch of `result = RMS(input)`.
pub(crate) fn hidden(step: &Step<'_, '_>, input: TensorId, norm: Norm) -> Launch {
    norm_launch(step, input, norm, step.inputs.result, Update::Replace, None)
}

fn norm_launch(
    step: &Step<'_, '_>,
    input: TensorId,
    norm: Norm,
    to: u64,
    update: Update,
    scale: Option<f32>,
) -> Launch {
    let (width, rows) = (step.plan.tensor(input).width, step.rows_of(input));
    // A norm that is shorter than a row applies to each part of it that is as long.
    let cols = step.model.vector(norm.weight).len() as u32;
    let adds = update == Update::Add;
    let bytes = 4 * u64::from(width) * u64::from(rows);
    let mut arguments = vec![
        ArgumentValue::Buffer(step.tensor(input)),
        ArgumentValue::Buffer(step.vector(norm.weight)),
        ArgumentValue::Scalar(norm.eps.to_bits()),
        ArgumentValue::Buffer(to),
    ];
    arguments.extend(scale.map(|scale| ArgumentValue::Scalar(scale.to_bits())));
    Launch {
        spec: NormAdd { cols, adds, scaled: scale.is_some() }.into(),
        groups: [rows * (width / cols), 1, 1],
        arguments,
        waits: true,
        cost: Cost { read: if adds { 2 * bytes } else { bytes }, written: bytes, products: 0 },
    }
}

/// The launch over `rows` rows of logits.
pub(crate) fn largest(step: &Step<'_, '_>, logits: u64, cols: u32, rows: u32) -> Launch {
    let inputs = &step.inputs;
    let mut arguments = vec![ArgumentValue::Buffer(logits), ArgumentValue::Buffer(inputs.result)];
    if let Some(ring) = inputs.ring {
        let next = [inputs.tokens, inputs.positions, inputs.output_positions, ring];
        arguments.extend(next.map(ArgumentValue::Buffer));
    }
    Launch {
        spec: ArgMax { cols, feeds: inputs.ring.is_some() }.into(),
        groups: [rows, 1, 1],
        arguments,
        waits: true,
        cost: Cost { read: 4 * u64::from(cols) * u64::from(rows), written: 4 * u64::from(rows), products: 0 },
    }
}
