//! From an operation of a plan to launches.

use super::project::{Finish, PartLaunch, project, readable};
use super::{Launch, Step, attend, embed, norm, rope};
use alloc::vec::Vec;
use core::fmt;
use doorbell_core::model::Model;
use doorbell_core::plan::{Epilogue, Head, HeadResult, Op, Part, Plan, Project};
use doorbell_isa::Target;

/// The library has no kernel for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The operation's name.
    pub op: &'static str,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no kernel for {} with these weights", self.op)
    }
}

impl core::error::Error for Unsupported {}

/// Whether [`lower`] would take an operation of this model on a chip.
pub fn supports(op: &Op, model: &Model<'_>, _target: Target) -> bool {
    let mut known = true;
    op.each_matrix(|matrix| known &= readable(model, matrix));
    known
        && match op {
            Op::Embed { table, .. } => embed::readable(model, *table),
            Op::Select { .. } | Op::NormAdd { .. } => true,
            Op::Project(op) => op.parts.iter().all(|part| match part.epilogue {
                Epilogue::Query { head_dim, .. } => rope::takes(head_dim),
                Epilogue::Key { kv, .. } => rope::takes(model.groups[kv.group.index()].key_dim),
                Epilogue::Value { kv } => rope::takes(model.groups[kv.group.index()].value_dim),
                _ => true,
            }),
            Op::Attend(op) => attend::takes(model, op),
            Op::Head(head) => head.result == HeadResult::Logits,
            _ => false,
        }
}

/// Bytes of counters at the start of the scratch.
const COUNTERS: u64 = 1 << 16;

/// Bytes of scratch that steps of a plan need.
pub fn scratch_bytes(plan: &Plan<'_>, model: &Model<'_>) -> u64 {
    let rows = u64::from(plan.shape.rows);
    let needs = plan.ops.iter().map(|op| match op {
        Op::Project(op) => {
            let parts = rope::scratch_offset(op, op.parts.len(), plan.shape.rows);
            parts.next_multiple_of(256)
        }
        Op::Attend(op) => attend::scratch_bytes(plan, model, op),
        _ => rows,
    });
    COUNTERS + needs.max().unwrap_or(0)
}

/// Calls `emit` with the launches of one operation, in order.
///
/// # Errors
/// No kernel for it: [`supports`] would have said no.
pub fn lower(
    op: &Op,
    step: &Step<'_, '_>,
    target: Target,
    emit: &mut dyn FnMut(Launch),
) -> Result<(), Unsupported> {
    let unsupported = Unsupported { op: op.name() };
    if !supports(op, step.model, target) {
        return Err(unsupported);
    }
    match op {
        Op::Embed { table, scale, out } => emit(embed::embed(step, *table, *scale, *out)),
        Op::Select { input, out } => emit(embed::select(step, *input, *out)),
        Op::NormAdd { input, norm, to } => emit(norm::norm_add(step, *input, *norm, *to)),
        // More than 8 rows: the place to choose matrix kernels.
        Op::Project(op) => {
            emit(projection(step, op));
            if let Some(launch) = rope::finish(step, op, step.scratch + COUNTERS) {
                emit(launch);
            }
        }
        Op::Attend(op) => emit(attend::attend(step, op, [step.scratch, step.scratch + COUNTERS])),
        Op::Head(op) => emit(head(step, op)),
        _ => return Err(unsupported),
    }
    Ok(())
}

fn projection(step: &Step<'_, '_>, op: &Project) -> Launch {
    let rows = step.rows_of(op.input);
    let parts = op.parts.iter().enumerate();
    let parts: Vec<PartLaunch> = parts
        .map(|(index, part)| {
            let scratch = step.scratch + COUNTERS + rope::scratch_offset(op, index, rows);
            part_launch(step, part, scratch)
        })
        .collect();
    project(step, step.tensor(op.input), rows, op.norm, &parts)
}

/// `scratch` is where products of keys and values go.
fn part_launch(step: &Step<'_, '_>, part: &Part, scratch: u64) -> PartLaunch {
    let (mut up, mut finish, mut gate_at) = (None, Finish::Store, None);
    let out = match part.epilogue {
        Epilogue::Store { out } | Epilogue::Query { out, .. } => step.tensor(out),
        Epilogue::Add { to } => {
            finish = Finish::Add;
            step.tensor(to)
        }
        Epilogue::AddGated { to, gate } => {
            finish = Finish::AddGated;
            gate_at = Some(step.tensor(gate));
            step.tensor(to)
        }
        Epilogue::Gate { up: matrix, glu, out } => {
            up = Some((matrix, glu.into()));
            step.tensor(out)
        }
        Epilogue::Key { .. } | Epilogue::Value { .. } => scratch,
    };
    PartLaunch { matrix: part.matrix, up, finish, out, gate: gate_at }
}

fn head(step: &Step<'_, '_>, op: &Head) -> Launch {
    let finish = Finish::Cap { scale: op.scale.to_bits(), cap: op.soft_cap.unwrap_or(0.0).to_bits() };
    let part = PartLaunch { matrix: op.matrix, up: None, finish, out: step.inputs.result, gate: None };
    project(step, step.tensor(op.input), step.rows_of(op.input), Some(op.norm), &[part])
}
