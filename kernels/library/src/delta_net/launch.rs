//! Launches of a delta net.

use super::keep::{KeepInputs, WORKGROUP};
use super::spec::{DeltaNetSpec, TOGETHER};
use crate::launch::{Cost, Launch};
use crate::step::Step;
use alloc::vec::Vec;
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::model::Model;
use doorbell_core::plan::{DeltaGates, DeltaNet};

/// Most runs of the batch that have workgroups of their own, unless each is one row.
const MOST_RUNS: u32 = 64;

/// True if there is a kernel for an operation.
pub(crate) fn supports(model: &Model<'_>, op: &DeltaNet) -> bool {
    let stride = model.state.map(|shape| u32::try_from(shape.bytes()));
    DeltaNetSpec::fits(&op.shape) && matches!(stride, Some(Ok(_)))
}

/// Arguments for the runs of the batch.
fn run_values(step: &Step<'_, '_>, op: &DeltaNet) -> Vec<ArgumentValue> {
    let layer = 4 * op.shape.state() as u64 * u64::from(op.state.0);
    let buffers = [step.inputs.runs, step.inputs.positions, step.states + layer];
    let stride = step.model.state.map_or(0, |state| state.bytes() as u32);
    let mut values: Vec<ArgumentValue> = buffers.map(ArgumentValue::Buffer).to_vec();
    values.push(ArgumentValue::Scalar(stride));
    values
}

/// The launches of an operation. The rows of a step whose sequences have several count as those of one sequence.
pub(crate) fn delta_net(step: &Step<'_, '_>, op: &DeltaNet) -> Vec<Launch> {
    let (shape, rows, single) = (op.shape, step.rows_of(op.mixed), step.single);
    let fused_gates = matches!(op.gates, DeltaGates::ByKeyHead(_));
    let spec = DeltaNetSpec { shape, fused_gates, tokens: if single { 1 } else { TOGETHER } };
    let groups = if single { rows } else { rows.min(MOST_RUNS) };
    let [beta, alpha] = op.gates.tensors();
    let mut tensors = [op.mixed, op.gate, beta].to_vec();
    tensors.extend((!fused_gates).then_some(alpha));
    let vectors = [op.convolution, op.decay, op.step_bias, op.norm.weight].map(|id| step.vector(id));
    let mut arguments = run_values(step, op);
    let buffers = tensors.into_iter().map(|id| step.tensor(id)).chain(vectors);
    arguments.extend(buffers.chain([step.tensor(op.out)]).map(ArgumentValue::Buffer));
    arguments.extend([op.norm.eps.to_bits(), groups].map(ArgumentValue::Scalar));
    let (rows, runs) = (u64::from(rows), if single { u64::from(rows) } else { 1 });
    let (channels, values) = (shape.channels() as u64, shape.value_width() as u64);
    let (cells, taps) = (shape.recurrent_state() as u64, u64::from(shape.taps));
    let kept = 4 * channels * rows.min(taps);
    let cost = Cost {
        read: 4 * (runs * (cells + channels * (taps - 1)) + channels * taps + rows * (channels + values)),
        written: 4 * (runs * cells + rows * values) + if single { 4 * rows * channels } else { 0 },
        products: rows * (4 * cells + channels * taps),
    };
    let main =
        Launch { spec: spec.into(), groups: [shape.value_heads, groups, 1], arguments, waits: true, cost };
    if single {
        return alloc::vec![main];
    }
    let spec = KeepInputs { channels: shape.channels() as u32, taps: shape.taps };
    let mut arguments = run_values(step, op);
    arguments.push(ArgumentValue::Buffer(step.tensor(op.mixed)));
    arguments.push(ArgumentValue::Scalar(groups));
    let grid = [spec.channels.div_ceil(WORKGROUP), groups, 1];
    let cost = Cost { read: kept, written: kept, products: 0 };
    alloc::vec![main, Launch { spec: spec.into(), groups: grid, arguments, waits: true, cost }]
}
