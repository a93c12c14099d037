//! The kernel of a projection. A workgroup takes up to eight rows of the batch (grid Y) and some output rows of one part
//! (grid X, parts one after the other).

use crate::builder_ext::BuilderExt;
use crate::formats::lane_format::is_coded;
use crate::gemv::activations::{ActivationSource, Activations, WAVES, WORKGROUP};
use crate::gemv::completion::Completion;
use crate::gemv::epilogue::epilogue;
use crate::gemv::product::{WeightRows, accumulate, finish, zeros};
use crate::gemv::spec::{PartArguments, PartSpec, Projection};
use crate::rope::spec::HeadPart;
use crate::spec_error::SpecError;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value};
use doorbell_core::quant::Type;

impl Projection {
    /// The function.
    pub(crate) fn function(&self) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (input, rows) = (k.buffer("input"), k.scalar("rows", Elem::Int));
        let norm = self.norm.then(|| (k.buffer("norm"), k.scalar("eps", Elem::Float)));
        let heads = self.parts.iter().any(|part| part.head.is_some());
        let counters = (heads || self.then.is_some()).then(|| k.buffer("counters"));
        let batch = heads.then(|| ["positions", "tables", "pages"].map(|name| k.buffer(name)));
        let parts: Vec<PartArguments> = self.parts.iter().map(|part| part.arguments(&mut k)).collect();
        let then = self.then.map(|then| (then, then.arguments(&mut k)));
        let completion = counters.map(|counters| Completion { counters, slot: k.local(4), batch });
        let kinds = || self.parts.iter().flat_map(|part| [Some(part.matrix), part.up.map(|(up, _)| up)]);
        let any = |coded| kinds().flatten().any(|factor| is_coded(factor.ty) == Some(coded));
        let from = Activations::new(&mut k, [self.cols, self.batch], any(true), any(false))?;
        let number = k.workgroup_id(Axis::Y);
        let first = k.times(number, self.batch);
        let mut source = self.source(&mut k, input, [first, rows]);
        if let Some((weight, eps)) = norm {
            let factors = from.norm_factors(&mut k, input, &source.rows, eps);
            source.norm = Some((weight, factors));
        }
        if from.pieces() == 1 {
            let zero = k.int(0);
            from.fill(&mut k, &source, zero);
            k.barrier(false);
        }
        let group = k.workgroup_id(Axis::X);
        let (mut before, mut heads) = (0, 0);
        for (part, arguments) in self.parts.iter().zip(&parts) {
            let count = self.groups(part);
            let before_it = k.int(before);
            let own = if before == 0 { group } else { k.sub(group, before_it) };
            let all = k.int(count);
            let body = |k: &mut Builder| {
                self.part(k, part, arguments, &from, &source, [own, first, rows]);
                if let (Some(head), Some(completion)) = (part.head, &completion) {
                    self.finish_head(k, (head, heads), arguments, completion, [own, rows]);
                }
            };
            if self.parts.len() == 1 {
                body(&mut k);
            } else {
                let here = k.lt_u(own, all);
                k.when(here, body);
            }
            before += count;
            heads += part.head.map_or(0, |head| head.heads);
        }
        if let (Some((then, arguments)), Some(completion)) = (&then, &completion) {
            let total = k.int(before);
            let none = k.int(0);
            completion.when_last(&mut k, none, total, rows, |k, row| {
                then.row(k, parts[0].out, arguments, row);
            });
        }
        Ok(k.finish())
    }

    /// The workgroup's rows of the batch, from `first` on; beyond the last it is repeated.
    fn source(&self, k: &mut Builder, input: Value, [first, rows]: [Value; 2]) -> ActivationSource {
        let mut source = ActivationSource { base: input, rows: Vec::new(), norm: None };
        for index in 0..self.batch {
            let mut row = k.plus(first, index);
            if self.batch > 1 {
                let one = k.int(1);
                let last = k.sub(rows, one);
                row = k.min_u(row, last);
            }
            source.rows.push(k.times(row, 4 * self.cols));
        }
        source
    }

    /// `[group, first, rows]`: the workgroup's number in the part, its first row of the batch, rows of the batch.
    fn part(
        &self,
        k: &mut Builder,
        part: &PartSpec,
        arguments: &PartArguments,
        from: &Activations,
        source: &ActivationSource,
        [group, first, rows]: [Value; 3],
    ) {
        let wave = k.wave();
        let start = k.times(group, WAVES * self.outputs);
        let own = k.times(wave, self.outputs);
        let output = k.add(start, own);
        let mut matrices = vec![(part.matrix.ty, arguments.matrix.base)];
        matrices.extend(part.up.zip(arguments.up.as_ref()).map(|((up, _), own)| (up.ty, own.base)));
        let matrices: Vec<WeightRows> = matrices
            .into_iter()
            .map(|(ty, base)| WeightRows { ty, base, offsets: self.offsets(k, ty, part.rows, output) })
            .collect();
        let sums = products(k, &matrices, from, source);
        let sums = finish(k, &sums);
        let lane = k.lane();
        let mut values = sums.chunks(sums.len() / matrices.len()).map(|sums| k.by_lane(lane, sums));
        let (Some(y), up) = (values.next(), values.next()) else { return };
        let row = k_row(k, lane, first, self.batch);
        let local = k.right(lane, self.batch.trailing_zeros());
        let column = k.add(output, local);
        let (all, width) = (k.int(self.outputs * self.batch), k.int(part.rows));
        let used = k.lt_u(lane, all);
        let inside = k.lt_u(column, width);
        let used = k.both(used, inside);
        let real = k.lt_u(row, rows);
        let used = k.both(used, real);
        k.when(used, |k| epilogue(k, part, arguments, [y, up.unwrap_or(y)], [row, column]));
    }

    /// The workgroup that completes a head finishes it for all rows. `(head, before)`: heads of parts before;
    /// `[group, rows]`: the workgroup's number in the part, rows of the batch.
    fn finish_head(
        &self,
        k: &mut Builder,
        (head, before): (HeadPart, u32),
        arguments: &PartArguments,
        completion: &Completion,
        [group, rows]: [Value; 2],
    ) {
        let (Some(own), Some(batch)) = (&arguments.head, completion.batch) else { return };
        let share = head.dim / (WAVES * self.outputs);
        // Groups are far below 2^16.
        let number = k.over(group, share);
        let counter = k.plus(number, before);
        let total = k.int(share);
        completion.when_last(k, counter, total, rows, |k, row| {
            head.body(k, arguments.out, own, batch, [row, number]);
        });
    }

    /// Byte offsets of the wave's rows of a matrix.
    fn offsets(&self, k: &mut Builder, ty: Type, rows: u32, output: Value) -> Vec<Value> {
        let bytes = ty.row_bytes(self.cols as usize).unwrap_or(0) as u32;
        let ragged = !rows.is_multiple_of(WAVES * self.outputs);
        (0..self.outputs)
            .map(|index| {
                let mut row = k.plus(output, index);
                if ragged {
                    let last = k.int(rows - 1);
                    row = k.min_u(row, last);
                }
                k.times(row, bytes)
            })
            .collect()
    }
}

/// The batch row of a lane's result.
fn k_row(k: &mut Builder, lane: Value, first: Value, batch: u32) -> Value {
    let local = k.mask(lane, batch - 1);
    k.add(local, first)
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
        let coded = |rows: &WeightRows| is_coded(rows.ty);
        if matrices.iter().all(|rows| coded(rows) == coded(&matrices[0])) {
            return accumulate(k, matrices, from, start, sums);
        }
        let each = sums.chunks(count / matrices.len()).zip(matrices);
        each.flat_map(|(sums, rows)| accumulate(k, core::slice::from_ref(rows), from, start, sums)).collect()
    };
    if from.pieces() == 1 {
        let zero = k.int(0);
        return step(k, zero, &initial);
    }
    let (zero, end, piece) = (k.int(0), k.int(from.pieces() * from.piece), k.int(from.piece));
    k.for_range([zero, end, piece], &initial, |k, start, sums| {
        k.barrier(false);
        from.fill(k, source, start);
        k.barrier(false);
        step(k, start, sums)
    })
}
