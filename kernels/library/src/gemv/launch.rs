//! The launch of a projection, with the number of rows and outputs that a workgroup takes.

use crate::formats::spec::FormatSpec;
use crate::gemv::activations::WAVES;
use crate::gemv::spec::{MatrixSpec, OutputMode, PartSpec, Projection};
use crate::glu::GluSpec;
use crate::launch::{Cost, Launch};
use crate::moe::route::Routing;
use crate::rope::launch as rope;
use crate::rope::launch::HeadLaunch;
use crate::step::Step;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::model::Model;
use doorbell_core::plan::{Matrix, Norm, TensorId};

/// True if the kernels read a matrix: a type that they have, within the reach of 32-bit offsets.
pub(crate) fn is_readable(model: &Model<'_>, matrix: &Matrix) -> bool {
    let weight = model.weight(matrix.weight);
    let bytes = u32::try_from(weight.data.len());
    FormatSpec::find(weight.ty).is_some() && weight.cols.is_multiple_of(8) && bytes.is_ok()
}

/// Values for the arguments of a matrix, its first row included.
pub(crate) fn matrix_values(step: &Step<'_, '_>, matrix: &Matrix, values: &mut Vec<ArgumentValue>) {
    let row_bytes = step.model.weight(matrix.weight).row_bytes() as u64;
    let first = step.weight(matrix.weight) + u64::from(matrix.first_row) * row_bytes;
    values.push(ArgumentValue::Buffer(first));
    for vector in [matrix.scale, matrix.bias].into_iter().flatten() {
        values.push(ArgumentValue::Buffer(step.vector(vector)));
    }
}

/// A part with its addresses, for [`project`].
pub(crate) struct PartLaunch {
    pub(crate) matrix: Matrix,
    pub(crate) up: Option<(Matrix, GluSpec)>,
    pub(crate) output: OutputMode,
    /// Address of the results: `[rows, matrix.rows]`.
    pub(crate) out: u64,
    /// Address of the second tensor of an output that has one.
    pub(crate) second: Option<u64>,
    /// Work on whole heads afterwards.
    pub(crate) head: Option<HeadLaunch>,
}

/// The input of a projection.
pub(crate) struct NormedInput {
    pub(crate) input: TensorId,
    pub(crate) norm: Option<Norm>,
}

/// WeightRows of the batch per workgroup and output rows per wave.
fn tile(rows: u32) -> [u32; 2] {
    let batch = rows.clamp(1, 8).next_power_of_two();
    [batch, if batch <= 2 { 2 } else { 1 }]
}

/// Workgroups that fill any chip.
const FULL: u32 = 256;

/// The same for these parts. Of many rows and float weights a wave makes up to four outputs, so that the activations
/// that it reads serve all of them, as long as the grid still fills a chip.
fn tile_of(step: &Step<'_, '_>, rows: u32, parts: &[PartLaunch]) -> [u32; 2] {
    let [batch, outputs] = tile(rows);
    let matrices = || parts.iter().flat_map(|part| [Some(part.matrix), part.up.map(|(up, _)| up)]).flatten();
    let plain = |matrix: Matrix| !FormatSpec::of(step.model.weight(matrix.weight).ty).is_coded();
    if rows <= batch || !matrices().all(plain) {
        return [batch, outputs];
    }
    let groups =
        |outputs: u32| parts.iter().map(|part| part.matrix.rows.div_ceil(WAVES * outputs)).sum::<u32>();
    let fills = |outputs: &u32| groups(*outputs) * rows.div_ceil(batch) >= FULL;
    [batch, [4, 2].into_iter().find(fills).unwrap_or(outputs)]
}

/// True if the workgroups of a projection can finish heads of `dim` elements.
pub(crate) fn finishes_heads(rows: u32, dim: u32) -> bool {
    rows <= 8 && dim.is_multiple_of(WAVES * tile(rows)[1])
}

/// The launch of parts over the rows of a tensor; `then` chooses experts with these arguments.
pub(crate) fn project(
    step: &Step<'_, '_>,
    from: &NormedInput,
    parts: &[PartLaunch],
    then: Option<(Routing, Vec<ArgumentValue>)>,
) -> Launch {
    let rows = step.rows_of(from.input);
    let [batch, outputs] = tile_of(step, rows, parts);
    // A router has few outputs, and the choice waits for all of them: more waves finish sooner.
    let outputs = if then.is_some() { 1 } else { outputs };
    let cols = parts.first().map_or(0, |part| step.model.weight(part.matrix.weight).cols as u32);
    let shares = parts.iter().map(|part| PartSpec {
        rows: part.matrix.rows,
        matrix: MatrixSpec::new(step.model, &part.matrix),
        up: part.up.map(|(up, glu)| (MatrixSpec::new(step.model, &up), glu)),
        output: part.output,
        head: part.head.as_ref().map(|head| head.part),
    });
    let spec = Projection {
        cols,
        batch,
        outputs,
        norm: from.norm.is_some(),
        parts: shares.collect(),
        then: then.as_ref().map(|then| then.0),
    };
    let groups = spec.parts.iter().map(|part| spec.groups(part)).sum();
    let mut values = vec![ArgumentValue::Buffer(step.tensor(from.input)), ArgumentValue::Scalar(rows)];
    if let Some(norm) = from.norm {
        values.push(ArgumentValue::Buffer(step.vector(norm.weight)));
        values.push(ArgumentValue::Scalar(norm.eps.to_bits()));
    }
    let heads: Vec<&HeadLaunch> = parts.iter().filter_map(|part| part.head.as_ref()).collect();
    if then.is_some() || !heads.is_empty() {
        values.push(ArgumentValue::Buffer(step.scratch));
    }
    if !heads.is_empty() {
        values.extend(rope::batch_values(step, from.input, &heads));
    }
    let mut cost = Cost { read: 4 * u64::from(rows) * u64::from(cols), ..Cost::default() };
    for part in parts {
        matrix_values(step, &part.matrix, &mut values);
        if let Some((up, _)) = &part.up {
            matrix_values(step, up, &mut values);
        }
        values.push(ArgumentValue::Buffer(part.out));
        values.extend(part.second.map(ArgumentValue::Buffer));
        if let Some(head) = &part.head {
            head.values(step, &mut values);
        }
        for matrix in [Some(part.matrix), part.up.map(|(up, _)| up)].into_iter().flatten() {
            let weight = step.model.weight(matrix.weight);
            cost.read += weight.row_bytes() as u64 * u64::from(matrix.rows);
            cost.products += u64::from(matrix.rows) * u64::from(cols) * u64::from(rows);
        }
        cost.written += 4 * u64::from(part.matrix.rows) * u64::from(rows);
    }
    values.extend(then.into_iter().flat_map(|then| then.1));
    Launch {
        spec: spec.into(),
        groups: [groups, rows.div_ceil(batch), 1],
        arguments: values,
        waits: true,
        cost,
    }
}
