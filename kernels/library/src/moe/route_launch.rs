//! The launch that chooses experts, and the arguments that the choice takes inside a projection.

use crate::launch::{Cost, Launch};
use crate::moe::route::{RouterGating, Routing};
use crate::step::Step;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::plan::{Gating, Route};

/// True if the kernel takes an operation.
pub(crate) fn supports(op: &Route) -> bool {
    (1..=1024).contains(&op.router.rows) && (1..=32).contains(&op.top_k) && op.top_k <= op.router.rows
}

/// The spec of an operation.
pub(crate) fn routing(op: &Route) -> Routing {
    let gate = match op.gating {
        Gating::Softmax => RouterGating::Softmax,
        Gating::Sigmoid => RouterGating::Sigmoid,
        Gating::SoftmaxOfChosen => RouterGating::Chosen,
    };
    let (bias, renormalize) = (op.selection_bias.is_some(), op.renormalize);
    Routing { experts: op.router.rows, top_k: op.top_k, gate, bias, renormalize }
}

/// Values of the arguments that [`Routing::arguments`] declares.
pub(crate) fn values(step: &Step<'_, '_>, op: &Route) -> Vec<ArgumentValue> {
    let mut values = Vec::new();
    values.extend(op.selection_bias.map(|id| ArgumentValue::Buffer(step.vector(id))));
    values.push(ArgumentValue::Buffer(step.tensor(op.ids)));
    values.push(ArgumentValue::Buffer(step.tensor(op.weights)));
    values.push(ArgumentValue::Scalar(op.scale.to_bits()));
    values
}

/// The launch that chooses from products at `products`.
pub(crate) fn choose(step: &Step<'_, '_>, op: &Route, products: u64) -> Launch {
    let rows = step.rows_of(op.input);
    let mut arguments = vec![ArgumentValue::Buffer(products)];
    arguments.extend(values(step, op));
    Launch {
        spec: routing(op).into(),
        groups: [rows, 1, 1],
        arguments,
        waits: true,
        cost: Cost {
            read: 4 * u64::from(rows) * u64::from(op.router.rows),
            written: 8 * u64::from(rows) * u64::from(op.top_k),
            products: 0,
        },
    }
}
