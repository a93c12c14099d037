//! Projections: norm, several matrices over the same rows, and what becomes of their products, in one dispatch.
//!
//! A workgroup takes up to eight rows of the batch (grid Y) and some output rows of one part (grid X, parts one after
//! the other). Not here: head norms, rotation and the KV cache (`rope`), which read what is stored here.

mod epilogue;
mod launch;

pub(crate) use epilogue::{choose, epilogue};
pub(crate) use launch::{PartLaunch, Rowset, finishes, matrix_values, project, readable};

use super::RecipeError;
use super::activation::{Activations, GROUP, Source, WAVES};
use super::glu::Bend;
use super::idiom::Idiom;
use super::product::{Rows, accumulate, finish, zeros};
use super::rope::{self, HeadPart};
use super::route::Routing;
use super::unpack::is_coded;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value, Width};
use doorbell_core::model::Model;
use doorbell_core::plan::Matrix;
use doorbell_core::quant::Type;

/// One matrix of a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Factor {
    /// Type of the weights.
    pub kind: Type,
    /// Whether products have a factor.
    pub scale: bool,
    /// Whether something is added to them.
    pub bias: bool,
}

/// What becomes of a part's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Finish {
    /// `out = y`
    Store,
    /// `out += y`
    Add,
    /// `out += sigmoid(gate) * y`
    AddGated,
    /// `out = cap(scale * y)`; bits of the floats, a cap of 0 is none.
    Cap {
        /// Factor.
        scale: u32,
        /// `c * tanh(y / c)`
        cap: u32,
    },
}

/// One part of a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Share {
    /// Output rows.
    pub rows: u32,
    /// The matrix.
    pub matrix: Factor,
    /// The second matrix of a gated part.
    pub up: Option<(Factor, Bend)>,
    /// What becomes of it.
    pub finish: Finish,
    /// What follows on whole heads, by the workgroup that completes a head; at most 8 rows then.
    pub head: Option<HeadPart>,
}

/// A projection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Projection {
    /// Elements of an input row.
    pub cols: u32,
    /// Rows of the batch per workgroup: a power of two up to 8.
    pub batch: u32,
    /// Output rows per wave.
    pub outputs: u32,
    /// Whether rows are normalised.
    pub norm: bool,
    /// The parts.
    pub parts: Vec<Share>,
    /// Expert choice from the only part, by the last workgroup; at most 8 rows then.
    pub then: Option<Routing>,
}

/// Arguments of one matrix.
pub(crate) struct MatrixArguments {
    pub(crate) base: Value,
    pub(crate) scale: Option<Value>,
    pub(crate) bias: Option<Value>,
}

/// Arguments of one part.
pub(crate) struct PartArguments {
    pub(crate) matrix: MatrixArguments,
    pub(crate) up: Option<MatrixArguments>,
    pub(crate) out: Value,
    pub(crate) gate: Option<Value>,
    pub(crate) head: Option<rope::Arguments>,
}

/// What workgroups that complete something need.
struct Completion {
    counters: Value,
    /// LDS of an arrival.
    slot: u32,
    /// Positions, page-table starts, pages.
    batch: Option<[Value; 3]>,
}

impl Factor {
    /// The factor of a matrix.
    pub(crate) fn new(model: &Model<'_>, matrix: &Matrix) -> Self {
        let kind = model.weight(matrix.weight).kind;
        Self { kind, scale: matrix.scale.is_some(), bias: matrix.bias.is_some() }
    }

    pub(crate) fn name(self) -> String {
        format!("{}{}{}", self.kind, if self.scale { "s" } else { "" }, if self.bias { "b" } else { "" })
    }

    pub(crate) fn arguments(self, k: &mut Builder, name: &str) -> MatrixArguments {
        let base = k.buffer(name);
        let scale = self.scale.then(|| k.buffer(&format!("{name}_scale")));
        let bias = self.bias.then(|| k.buffer(&format!("{name}_bias")));
        MatrixArguments { base, scale, bias }
    }
}

impl Projection {
    /// Workgroups that a part takes.
    fn groups(&self, part: &Share) -> u32 {
        part.rows.div_ceil(WAVES * self.outputs)
    }

    /// Unique name.
    pub(crate) fn name(&self) -> String {
        let mut name = format!("project_{}x{}o{}", self.batch, self.cols, self.outputs);
        name.push_str(if self.norm { "_norm" } else { "" });
        for part in &self.parts {
            let _ = write!(name, "_{}_{}", part.rows, part.matrix.name());
            if let Some((up, bend)) = part.up {
                let _ = write!(name, "_{}_{}", bend.name(), up.name());
            }
            let _ = match part.finish {
                Finish::Store => Ok(()),
                Finish::Add => write!(name, "_add"),
                Finish::AddGated => write!(name, "_gated"),
                Finish::Cap { scale, cap } => write!(name, "_cap{scale:x}_{cap:x}"),
            };
            if let Some(head) = part.head {
                let _ = write!(name, "_head{}", head.name());
            }
        }
        if let Some(then) = self.then {
            let _ = write!(name, "_{}", then.name());
        }
        name
    }

    /// The function.
    pub(crate) fn function(&self) -> Result<Function, RecipeError> {
        let mut k = Builder::new(&self.name(), GROUP);
        let (input, rows) = (k.buffer("input"), k.scalar("rows", Elem::Int));
        let norm = self.norm.then(|| (k.buffer("norm"), k.scalar("eps", Elem::Float)));
        let heads = self.parts.iter().any(|part| part.head.is_some());
        let counters = (heads || self.then.is_some()).then(|| k.buffer("counters"));
        let batch = heads.then(|| ["positions", "tables", "pages"].map(|name| k.buffer(name)));
        let parts: Vec<PartArguments> = self.parts.iter().map(|part| part_arguments(&mut k, part)).collect();
        let then = self.then.map(|then| (then, then.arguments(&mut k)));
        let completion = counters.map(|counters| Completion { counters, slot: k.local(4), batch });
        let kinds = || self.parts.iter().flat_map(|part| [Some(part.matrix), part.up.map(|(up, _)| up)]);
        let any = |coded| kinds().flatten().any(|factor| is_coded(factor.kind) == Some(coded));
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
    fn source(&self, k: &mut Builder, input: Value, [first, rows]: [Value; 2]) -> Source {
        let mut source = Source { base: input, rows: Vec::new(), norm: None };
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
        part: &Share,
        arguments: &PartArguments,
        from: &Activations,
        source: &Source,
        [group, first, rows]: [Value; 3],
    ) {
        let wave = k.wave();
        let start = k.times(group, WAVES * self.outputs);
        let own = k.times(wave, self.outputs);
        let output = k.add(start, own);
        let mut matrices = vec![(part.matrix.kind, arguments.matrix.base)];
        matrices.extend(part.up.zip(arguments.up.as_ref()).map(|((up, _), own)| (up.kind, own.base)));
        let matrices: Vec<Rows> = matrices
            .into_iter()
            .map(|(kind, base)| Rows { kind, base, offsets: self.offsets(k, kind, part.rows, output) })
            .collect();
        let sums = products(k, &matrices, from, source);
        let sums = finish(k, &sums);
        let lane = k.lane();
        let mut values = sums.chunks(sums.len() / matrices.len()).map(|sums| choose(k, lane, sums));
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
    fn offsets(&self, k: &mut Builder, kind: Type, rows: u32, output: Value) -> Vec<Value> {
        let bytes = kind.row_bytes(self.cols as usize).unwrap_or(0) as u32;
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

impl Completion {
    /// Runs `body` for each row, a wave each, in the last of `total` workgroups that count on `counter`.
    fn when_last(
        &self,
        k: &mut Builder,
        counter: Value,
        total: Value,
        rows: Value,
        body: impl FnOnce(&mut Builder, Value),
    ) {
        let place = k.left(counter, 2);
        let counter = k.global(self.counters, place);
        let last = k.last_arrival(counter, total, self.slot);
        k.when(last, |k| {
            let zero = k.int(0);
            k.store(counter, Width::Dwords(1), zero);
            let wave = k.wave();
            let real = k.lt_u(wave, rows);
            k.when(real, |k| body(k, wave));
        });
    }
}

fn part_arguments(k: &mut Builder, part: &Share) -> PartArguments {
    let matrix = part.matrix.arguments(k, "weight");
    let up = part.up.map(|(up, _)| up.arguments(k, "up"));
    let out = k.buffer("out");
    let gate = (part.finish == Finish::AddGated).then(|| k.buffer("gate"));
    let head = part.head.map(|head| head.arguments(k, WAVES));
    PartArguments { matrix, up, out, gate, head }
}

/// The batch row of a lane's result.
fn k_row(k: &mut Builder, lane: Value, first: Value, batch: u32) -> Value {
    let local = k.mask(lane, batch - 1);
    k.add(local, first)
}

/// Sums of all matrices over all pieces, per lane.
fn products(k: &mut Builder, matrices: &[Rows], from: &Activations, source: &Source) -> Vec<Value> {
    let count = matrices.iter().map(|rows| rows.offsets.len()).sum::<usize>() * from.rows as usize;
    let initial = zeros(k, count);
    let step = |k: &mut Builder, start: Value, sums: &[Value]| {
        let coded = |rows: &Rows| is_coded(rows.kind);
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
