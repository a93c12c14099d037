//! From an operation of a plan to launches.

use crate::attention::launch as attention;
use crate::delta_net::launch as delta_net;
use crate::gemm::launch as gemm;
use crate::gemm::path::{MatrixPath, PathChoice};
use crate::gemv::launch::{NormedInput, PartLaunch, finishes_heads, is_readable, project};
use crate::gemv::spec::OutputMode;
use crate::launch::Launch;
use crate::moe::grouped_launch;
use crate::moe::launch as moe;
use crate::moe::route::Routing;
use crate::moe::route_launch as route;
use crate::rope::launch as rope;
use crate::rows::launch as rows;
use crate::step::Step;
use alloc::vec::Vec;
use core::fmt;
use doorbell_compiler::isa::Target;
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::model::Model;
use doorbell_core::plan::{
    Epilogue, Head, HeadResult, Norm, NormKind, Op, Part, Plan, Project, Route, Shape,
};

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

/// True if [`lower`] takes an operation of this model on a chip.
pub fn supports(op: &Op, model: &Model<'_>, _target: Target) -> bool {
    let mut readable = true;
    op.each_matrix(|matrix| readable &= is_readable(model, matrix));
    let rms = op.norm().is_none_or(|norm| norm.kind == NormKind::Rms);
    readable
        && rms
        && match op {
            Op::Embed { table, .. } => rows::is_readable(model, *table),
            Op::Select { .. } => true,
            Op::NormAdd(op) => norm_width(model, op.norm).is_multiple_of(8),
            Op::Project(op) => op.parts.iter().all(|part| match part.epilogue {
                Epilogue::Query { head_dim, .. } => rope::supports(head_dim),
                Epilogue::Key { kv, .. } => rope::supports(model.groups[kv.group.index()].key_dim),
                Epilogue::Value { kv, .. } => rope::supports(model.groups[kv.group.index()].value_dim),
                Epilogue::Activate { .. } => false,
                _ => true,
            }),
            Op::Attend(op) => attention::supports(model, op),
            Op::Rotate(_) => false,
            Op::DeltaNet(op) => delta_net::supports(model, op),
            Op::Route(op) => op.groups.is_none() && route::supports(op),
            Op::Experts(op) => moe::supports(model, op),
            Op::Head(_) => true,
        }
}

/// Elements of a norm's weight.
fn norm_width(model: &Model<'_>, norm: Norm) -> u32 {
    u32::try_from(model.vector(norm.weight).len()).unwrap_or(u32::MAX)
}

/// Bytes of counters at the start of the scratch.
const COUNTERS: u64 = 1 << 16;

/// Bytes of scratch that steps of a plan need.
pub fn scratch_bytes(plan: &Plan<'_>, model: &Model<'_>) -> u64 {
    let Shape { rows, outputs } = plan.shape;
    let needs = plan.ops.iter().map(|op| match op {
        Op::Project(op) => {
            let cols = op.parts.first().map_or(0, |part| model.weight(part.matrix.weight).cols as u32);
            let parts = rope::scratch_offset(op, op.parts.len(), rows).next_multiple_of(256);
            parts + gemm::scratch_bytes(rows, cols)
        }
        Op::Attend(op) => attention::scratch_bytes(plan, model, op),
        Op::Route(op) => 4 * u64::from(rows) * u64::from(op.router.rows),
        Op::Experts(op) => moe::scratch_bytes(rows, op).max(grouped_launch::experts_bytes(model, op, rows)),
        Op::Head(op) if op.result == HeadResult::ArgMax => 4 * u64::from(outputs) * u64::from(op.matrix.rows),
        _ => 0,
    });
    COUNTERS + needs.max().unwrap_or(0)
}

/// Calls `emit` with the launches of one operation, in order.
///
/// # Errors
/// No kernel for it: [`supports`] returns false.
pub fn lower(
    op: &Op,
    step: &Step<'_, '_>,
    target: Target,
    emit: &mut dyn FnMut(Launch),
) -> Result<(), Unsupported> {
    lower_by(None, op, step, target, emit)
}

/// True if an operation has no rows: in a step without outputs, which a chunk in the middle of a prompt is, those behind the
/// last keys and values. No dispatch has a grid of nothing.
fn writes_nothing(op: &Op, step: &Step<'_, '_>) -> bool {
    let mut nothing = false;
    op.each_tensor(|id| nothing |= step.rows_of(id) == 0);
    nothing
}

/// As [`lower`], but products of many rows take this path where their weights can.
///
/// # Errors
/// As of [`lower`].
pub fn lower_by(
    path: Option<MatrixPath>,
    op: &Op,
    step: &Step<'_, '_>,
    target: Target,
    emit: &mut dyn FnMut(Launch),
) -> Result<(), Unsupported> {
    let choice = PathChoice { target, forced: path };
    let unsupported = Unsupported { op: op.name() };
    if !supports(op, step.model, target) {
        return Err(unsupported);
    }
    if writes_nothing(op, step) {
        return Ok(());
    }
    let data = step.scratch + COUNTERS;
    match op {
        Op::Embed { table, scale, out } => emit(rows::embed(step, *table, *scale, *out)),
        Op::Select { input, out } => emit(rows::select(step, *input, *out)),
        Op::NormAdd(op) => emit(rows::norm_add(step, op)),
        Op::Project(op) => {
            let merged = merges(step, op);
            projection(step, choice, op, data, merged).into_iter().for_each(&mut *emit);
            if !merged {
                rope::finish(step, op, data).into_iter().for_each(emit);
            }
        }
        // refused above
        Op::Rotate(_) => {}
        Op::DeltaNet(op) => delta_net::delta_net(step, op).into_iter().for_each(emit),
        Op::Attend(op) => attention::attention(step, op, [step.scratch, data]).into_iter().for_each(emit),
        Op::Route(op) if step.rows_of(op.input) <= 8 => {
            emit(router(step, op, data, Some((route::routing(op), route::values(step, op)))));
        }
        Op::Route(op) => {
            emit(router(step, op, data, None));
            emit(route::choose(step, op, data));
        }
        Op::Experts(op) => match grouped_launch::experts(step, choice, op, data) {
            Some(launches) => launches.into_iter().for_each(emit),
            None => moe::experts(step, op, data).into_iter().for_each(emit),
        },
        Op::Head(op) if op.result == HeadResult::Hidden => emit(rows::hidden(step, op.input, op.norm)),
        Op::Head(op) if op.result == HeadResult::ArgMax => {
            emit(head(step, op, data));
            emit(rows::largest(step, data, op.matrix.rows, step.rows_of(op.input)));
        }
        Op::Head(op) => emit(head(step, op, step.inputs.result)),
    }
    Ok(())
}

/// True if a projection finishes its heads itself.
fn merges(step: &Step<'_, '_>, op: &Project) -> bool {
    let rows = step.rows_of(op.input);
    let mut heads = op.parts.iter().filter_map(|part| rope::head_launch(step, part, 0));
    heads.all(|head| finishes_heads(rows, head.part.dim))
}

/// The launches of products; `data` is the scratch behind the counters.
fn projection(step: &Step<'_, '_>, choice: PathChoice, op: &Project, data: u64, merged: bool) -> Vec<Launch> {
    let rows = step.rows_of(op.input);
    let parts = op.parts.iter().enumerate();
    let parts: Vec<PartLaunch> = parts
        .map(|(index, part)| part_launch(step, part, data + rope::scratch_offset(op, index, rows), merged))
        .collect();
    let halves = data + rope::scratch_offset(op, op.parts.len(), rows).next_multiple_of(256);
    let from = NormedInput { input: op.input, norm: op.norm };
    gemm::project(step, choice, [step.tensor(op.input), halves], rows, op.norm, &parts)
        .unwrap_or_else(|| alloc::vec![project(step, &from, &parts, None)])
}

/// A part with its addresses; products of keys and values go to `scratch`.
fn part_launch(step: &Step<'_, '_>, part: &Part, scratch: u64, merged: bool) -> PartLaunch {
    let (mut up, mut output, mut second) = (None, OutputMode::Store, None);
    let out = match part.epilogue {
        Epilogue::Store { out } | Epilogue::Activate { out, .. } => step.tensor(out),
        Epilogue::Query { out, gate, head_dim, .. } => {
            if let Some(gate) = gate {
                output = OutputMode::Split { dim: head_dim };
                second = Some(step.tensor(gate));
            }
            step.tensor(out)
        }
        Epilogue::GateBy { by, column, glu, out } => {
            output = OutputMode::GateBy { glu: glu.into(), stride: step.plan.tensor(by).width };
            second = Some(step.tensor(by) + 4 * u64::from(column));
            step.tensor(out)
        }
        Epilogue::Add { to } => {
            output = OutputMode::Add;
            step.tensor(to)
        }
        Epilogue::AddGated { to, gate } => {
            output = OutputMode::AddGated;
            second = Some(step.tensor(gate));
            step.tensor(to)
        }
        Epilogue::Gate { up: matrix, glu, out } => {
            up = Some((matrix, glu.into()));
            step.tensor(out)
        }
        Epilogue::Key { .. } | Epilogue::Value { .. } => scratch,
    };
    let head = if merged { rope::head_launch(step, part, scratch) } else { None };
    PartLaunch { matrix: part.matrix, up, output, out, second, head }
}

/// The launch of a router's products, to `out`.
fn router(step: &Step<'_, '_>, op: &Route, out: u64, then: Option<(Routing, Vec<ArgumentValue>)>) -> Launch {
    let (matrix, output) = (op.router, OutputMode::Store);
    let part = PartLaunch { matrix, up: None, output, out, second: None, head: None };
    project(step, &NormedInput { input: op.input, norm: op.norm }, &[part], then)
}

/// The launch of the logits, to `out`.
fn head(step: &Step<'_, '_>, op: &Head, out: u64) -> Launch {
    let output = OutputMode::Cap { scale: op.scale.to_bits(), cap: op.soft_cap.unwrap_or(0.0).to_bits() };
    let part = PartLaunch { matrix: op.matrix, up: None, output, out, second: None, head: None };
    project(step, &NormedInput { input: op.input, norm: Some(op.norm) }, &[part], None)
}
