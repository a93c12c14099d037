//! Launches of the experts of few rows, their scratch, and the conditions for them.

use crate::gemv::activations::WAVES;
use crate::gemv::launch::matrix_values;
use crate::gemv::spec::{MatrixSpec, forms};
use crate::launch::{Cost, Launch};
use crate::moe::experts::{ExpertMatrix, OUTPUTS};
use crate::moe::experts_down::ExpertsDown;
use crate::moe::experts_up::ExpertsUp;
use crate::step::Step;
use alloc::vec::Vec;
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::model::Model;
use doorbell_core::plan::{Experts, Matrix, Update};

/// True if the kernels take an operation whose matrices they read.
pub(crate) fn supports(model: &Model<'_>, op: &Experts) -> bool {
    // Rows of activations lie in LDS as a whole.
    let fits = |matrices: &[&Matrix]| {
        let factors: Vec<MatrixSpec> = matrices.iter().map(|matrix| MatrixSpec::new(model, matrix)).collect();
        forms(&factors).fit(model.weight(matrices[0].weight).cols as u32)
    };
    op.top_k > 0 && fits(&[&op.gate, &op.up]) && fits(&[&op.down])
}

/// Bytes of scratch.
pub(crate) fn scratch_bytes(rows: u32, op: &Experts) -> u64 {
    4 * u64::from(rows) * u64::from(op.top_k) * u64::from(op.gate.rows)
}

/// The launches of an operation, hidden rows at `scratch`.
pub(crate) fn experts(step: &Step<'_, '_>, op: &Experts, scratch: u64) -> [Launch; 2] {
    let rows = step.rows_of(op.input);
    let model = step.model;
    let (cols, hidden) = (step.plan.tensor(op.input).width, op.gate.rows);
    let up = ExpertsUp {
        cols,
        top_k: op.top_k,
        norm: op.norm.is_some(),
        gate: ExpertMatrix::new(model, &op.gate),
        up: ExpertMatrix::new(model, &op.up),
        glu: op.glu.into(),
    };
    let mut first = [step.tensor(op.input), step.tensor(op.ids)].map(ArgumentValue::Buffer).to_vec();
    if let Some(norm) = op.norm {
        first.push(ArgumentValue::Buffer(step.vector(norm.weight)));
        first.push(ArgumentValue::Scalar(norm.eps.to_bits()));
    }
    matrix_values(step, &op.gate, &mut first);
    matrix_values(step, &op.up, &mut first);
    first.push(ArgumentValue::Buffer(scratch));
    let adds = op.update == Update::Add;
    let down = ExpertsDown { cols: hidden, top_k: op.top_k, down: ExpertMatrix::new(model, &op.down), adds };
    let second = [scratch, step.tensor(op.ids), step.tensor(op.weights)];
    let mut second = second.map(ArgumentValue::Buffer).to_vec();
    matrix_values(step, &op.down, &mut second);
    second.push(ArgumentValue::Buffer(step.tensor(op.to)));
    let slots = u64::from(rows) * u64::from(op.top_k);
    let bytes = |matrix: &Matrix| model.weight(matrix.weight).row_bytes() as u64 * u64::from(matrix.rows);
    let products = u64::from(hidden) * u64::from(cols);
    [
        Launch {
            spec: up.into(),
            groups: [hidden.div_ceil(WAVES * OUTPUTS), op.top_k, rows],
            arguments: first,
            waits: true,
            cost: Cost {
                read: slots * (bytes(&op.gate) + bytes(&op.up)) + 4 * u64::from(rows) * u64::from(cols),
                written: 4 * slots * u64::from(hidden),
                products: 2 * slots * products,
            },
        },
        Launch {
            spec: down.into(),
            groups: [op.down.rows.div_ceil(WAVES * OUTPUTS), rows, 1],
            arguments: second,
            waits: true,
            cost: Cost {
                read: slots * (bytes(&op.down) + 4 * u64::from(hidden)),
                written: 4 * u64::from(rows) * u64::from(op.down.rows),
                products: slots * products,
            },
        },
    ]
}
