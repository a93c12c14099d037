//! The kernel of a projection. A workgroup takes up to eight rows of the batch (grid Y) and some output rows of one part
//! (grid X, parts one after the other).

use super::activations::{ActivationSource, Activations, WAVES, WORKGROUP};
use super::completion::Completion;
use super::epilogue::{Output, epilogue};
use super::product::{WeightRows, accumulate, finish, zeros};
use super::spec::{MatrixSpec, OutputMode, PartArguments, PartSpec, Projection, forms};
use crate::builder_ext::BuilderExt;
use crate::kernel::{Kernel, SpecError};
use crate::moe::route::{Routing, RoutingArguments};
use crate::rope::spec::BatchArguments;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value};
use doorbell_compiler::isa::Target;
use doorbell_core::quant::Type;

/// Arguments of the kernel.
struct Arguments {
    input: Value,
    rows: Value,
    /// Weight and epsilon.
    norm: Option<(Value, Value)>,
    parts: Vec<PartArguments>,
    then: Option<(Routing, RoutingArguments)>,
    completion: Option<Completion>,
}

/// A workgroup's share of a part.
#[derive(Clone, Copy)]
struct Share {
    /// Number of the workgroup in the part.
    group: Value,
    /// Its first row of the batch.
    first: Value,
    /// Rows of the batch.
    rows: Value,
    /// Heads of earlier parts.
    heads_before: u32,
}

impl Kernel for Projection {
    fn name(&self) -> String {
        let mut name = format!("project_{}x{}o{}", self.batch, self.cols, self.outputs);
        name.push_str(if self.norm { "_norm" } else { "" });
        for part in &self.parts {
            let _ = write!(name, "_{}_{}", part.rows, part.matrix.name());
            if let Some((up, glu)) = part.up {
                let _ = write!(name, "_{}_{}", glu.name(), up.name());
            }
            name.push_str(&part.output.name());
            if let Some(head) = part.head {
                let _ = write!(name, "_head{}", head.name());
            }
        }
        if let Some(then) = self.then {
            let _ = write!(name, "_{}", then.name());
        }
        name
    }

    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let arguments = self.arguments(&mut k);
        let Arguments { input, rows, .. } = arguments;
        let matrices: Vec<MatrixSpec> = self.parts.iter().flat_map(PartSpec::matrices).collect();
        let from = Activations::new(&mut k, self.cols, self.batch, forms(&matrices))?;
        let number = k.workgroup_id(Axis::Y);
        let first = k.eval(number * self.batch);
        let mut source = self.source(&mut k, input, first, rows);
        if let Some((weight, eps)) = arguments.norm {
            let factors = from.norm_factors(&mut k, input, &source.rows, eps);
            source.norm = Some((weight, factors));
        }
        if from.pieces() == 1 {
            let zero = k.int(0);
            from.fill(&mut k, &source, zero);
            k.barrier(false);
        }
        let total = self.parts(&mut k, &arguments, &from, &source, first);
        if let (Some((then, own)), Some(completion)) = (&arguments.then, &arguments.completion) {
            let total = k.int(total);
            let none = k.int(0);
            completion.when_last(&mut k, none, total, rows, |k, row| {
                then.row(k, arguments.parts[0].out, own, row);
            });
        }
        Ok(k.finish())
    }
}

impl Projection {
    fn arguments(&self, k: &mut Builder) -> Arguments {
        let (input, rows) = (k.buffer("input"), k.scalar("rows", Elem::Int));
        let norm = self.norm.then(|| (k.buffer("norm"), k.scalar("eps", Elem::Float)));
        let heads = self.parts.iter().any(|part| part.head.is_some());
        let counters = (heads || self.then.is_some()).then(|| k.buffer("counters"));
        let batch = heads.then(|| BatchArguments::new(k));
        let parts = self.parts.iter().map(|part| part.arguments(k)).collect();
        let then = self.then.map(|then| (then, then.arguments(k)));
        let completion = counters.map(|counters| Completion { counters, slot: k.local(4), batch });
        Arguments { input, rows, norm, parts, then, completion }
    }

    /// All parts, each by its own workgroups, whose number is returned.
    fn parts(
        &self,
        k: &mut Builder,
        arguments: &Arguments,
        from: &Activations,
        source: &ActivationSource,
        first: Value,
    ) -> u32 {
        let rows = arguments.rows;
        let group = k.workgroup_id(Axis::X);
        let (mut groups_before, mut heads_before) = (0, 0);
        for (part, own) in self.parts.iter().zip(&arguments.parts) {
            let count = self.groups(part);
            let before = k.int(groups_before);
            let group = if groups_before == 0 { group } else { k.sub(group, before) };
            let all = k.int(count);
            let share = Share { group, first, rows, heads_before };
            let body = |k: &mut Builder| {
                self.part(k, part, own, from, source, share);
                if let Some(completion) = &arguments.completion {
                    self.finish_head(k, part, own, completion, share);
                }
            };
            if self.parts.len() == 1 {
                body(k);
            } else {
                k.when(group.lt(all), body);
            }
            groups_before += count;
            heads_before += part.head.map_or(0, |head| head.heads);
        }
        groups_before
    }

    /// The workgroup's rows of the batch, from `first` on; past the end the last is repeated.
    fn source(&self, k: &mut Builder, input: Value, first: Value, rows: Value) -> ActivationSource {
        let mut source = ActivationSource { base: input, rows: Vec::new(), norm: None };
        for index in 0..self.batch {
            let mut row = k.eval(first + index);
            if self.batch > 1 {
                row = k.min_u(row, rows - 1);
            }
            source.rows.push(k.eval(row * (4 * self.cols)));
        }
        source
    }

    /// The workgroup's outputs of a part.
    fn part(
        &self,
        k: &mut Builder,
        part: &PartSpec,
        arguments: &PartArguments,
        from: &Activations,
        source: &ActivationSource,
        share: Share,
    ) {
        let wave = k.wave();
        let output = k.eval(share.group * (WAVES * self.outputs) + wave * self.outputs);
        let mut matrices = vec![(part.matrix.ty, arguments.matrix.base)];
        matrices.extend(part.up.zip(arguments.up.as_ref()).map(|((up, _), own)| (up.ty, own.base)));
        let matrices: Vec<WeightRows> = matrices
            .into_iter()
            .map(|(ty, base)| WeightRows { ty, base, offsets: self.offsets(k, ty, part.rows, output) })
            .collect();
        let lane_sums = products(k, &matrices, from, source);
        let sums = finish(k, &lane_sums);
        let lane = k.lane();
        let mut values = sums.chunks(sums.len() / matrices.len()).map(|sums| k.by_lane(lane, sums));
        let (Some(y), up) = (values.next(), values.next()) else { return };
        let row = k.eval((lane & (self.batch - 1)) + share.first);
        let column = k.eval(output + (lane >> self.batch.trailing_zeros()));
        let (all, width) = (k.int(self.outputs * self.batch), k.int(part.rows));
        let used = lane.lt(all) & column.lt(width) & row.lt(share.rows);
        k.when(used, |k| epilogue(k, part, arguments, [y, up.unwrap_or(y)], Output { row, column }));
    }

    /// Finishes a head for all rows, by the workgroup that completes it.
    fn finish_head(
        &self,
        k: &mut Builder,
        part: &PartSpec,
        arguments: &PartArguments,
        completion: &Completion,
        share: Share,
    ) {
        let (Some(head), Some(own), Some(batch)) = (part.head, &arguments.head, completion.batch) else {
            return;
        };
        // The gate of a head is in the matrix behind it.
        let rows = if matches!(part.output, OutputMode::Split { .. }) { 2 * head.dim } else { head.dim };
        let groups = rows / (WAVES * self.outputs);
        // Groups are far below 2^16.
        let number = k.eval(share.group / groups);
        let counter = k.eval(number + share.heads_before);
        let total = k.int(groups);
        completion.when_last(k, counter, total, share.rows, |k, row| {
            head.body(k, arguments.out, own, batch, row, number);
        });
    }

    /// Byte offsets of the wave's rows of a matrix.
    fn offsets(&self, k: &mut Builder, ty: Type, rows: u32, output: Value) -> Vec<Value> {
        let bytes = ty.row_bytes(self.cols as usize).unwrap_or(0) as u32;
        let ragged = !rows.is_multiple_of(WAVES * self.outputs);
        (0..self.outputs)
            .map(|index| {
                let mut row = k.eval(output + index);
                if ragged {
                    row = k.min_u(row, rows - 1);
                }
                k.eval(row * bytes)
            })
            .collect()
    }
}

/// Sums of all matrices over all pieces, per lane.
fn products(
    k: &mut Builder,
    matrices: &[WeightRows],
    from: &Activations,
    source: &ActivationSource,
) -> Vec<Value> {
    let count = matrices.iter().map(|rows| rows.offsets.len()).sum::<usize>() * from.rows as usize;
    let initial = zeros(k, count);
    let step = |k: &mut Builder, start: Value, sums: &[Value]| {
        if matrices.iter().all(|rows| rows.is_coded() == matrices[0].is_coded()) {
            return accumulate(k, matrices, from, start, sums);
        }
        let each = sums.chunks(count / matrices.len()).zip(matrices);
        each.flat_map(|(sums, rows)| accumulate(k, core::slice::from_ref(rows), from, start, sums)).collect()
    };
    if from.pieces() == 1 {
        let zero = k.int(0);
        return step(k, zero, &initial);
    }
    let range = k.range(0, from.pieces() * from.piece, from.piece);
    k.for_range(range, &initial, |k, start, sums| {
        k.barrier(false);
        from.fill(k, source, start);
        k.barrier(false);
        step(k, start, sums)
    })
}
