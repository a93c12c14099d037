//! Projections: norm, several matrices over the same rows, and what becomes of their products, in one dispatch.
//!
//! A workgroup takes up to eight rows of the batch (grid Y) and some output rows of one part (grid X, parts one after
//! the other). Not here: head norms, rotation and the KV cache (`rope`), which read what is stored here.

use super::activation::{Activations, GROUP, Source, WAVES};
use super::glu::Bend;
use super::idiom::Idiom;
use super::product::{Rows, accumulate, finish, zeros};
use super::unpack::is_coded;
use super::{Cost, Launch, Recipe, RecipeError, Step};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value};
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::model::Model;
use doorbell_core::plan::{Matrix, Norm};
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
}

/// Arguments of one matrix.
struct MatrixArguments {
    base: Value,
    scale: Option<Value>,
    bias: Option<Value>,
}

/// Arguments of one part.
struct PartArguments {
    matrix: MatrixArguments,
    up: Option<MatrixArguments>,
    out: Value,
    gate: Option<Value>,
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

    fn arguments(self, k: &mut Builder, name: &str) -> MatrixArguments {
        let base = k.buffer(name);
        let scale = self.scale.then(|| k.buffer(&format!("{name}_scale")));
        let bias = self.bias.then(|| k.buffer(&format!("{name}_bias")));
        MatrixArguments { base, scale, bias }
    }
}

/// Whether the kernels read a matrix: a type that they know, within the reach of 32-bit offsets.
pub(crate) fn readable(model: &Model<'_>, matrix: &Matrix) -> bool {
    let weight = model.weight(matrix.weight);
    let bytes = u32::try_from(weight.data.len());
    is_coded(weight.kind).is_some() && weight.cols.is_multiple_of(8) && bytes.is_ok()
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
    pub(crate) up: Option<(Matrix, Bend)>,
    pub(crate) finish: Finish,
    /// Where results go: `[rows, matrix.rows]`.
    pub(crate) out: u64,
    /// `[rows, 1]`, of [`Finish::AddGated`].
    pub(crate) gate: Option<u64>,
}

/// The launch of parts over `rows` rows at `input`.
pub(crate) fn project(
    step: &Step<'_, '_>,
    input: u64,
    rows: u32,
    norm: Option<Norm>,
    parts: &[PartLaunch],
) -> Launch {
    let batch = rows.clamp(1, 8).next_power_of_two();
    let cols = parts.first().map_or(0, |part| step.model.weight(part.matrix.weight).cols as u32);
    let shares = parts.iter().map(|part| Share {
        rows: part.matrix.rows,
        matrix: Factor::new(step.model, &part.matrix),
        up: part.up.map(|(up, bend)| (Factor::new(step.model, &up), bend)),
        finish: part.finish,
    });
    let outputs = if batch <= 2 { 2 } else { 1 };
    let recipe = Projection { cols, batch, outputs, norm: norm.is_some(), parts: shares.collect() };
    let groups = recipe.parts.iter().map(|part| recipe.groups(part)).sum();
    let mut values = alloc::vec![ArgumentValue::Buffer(input), ArgumentValue::Scalar(rows)];
    if let Some(norm) = norm {
        values.push(ArgumentValue::Buffer(step.vector(norm.weight)));
        values.push(ArgumentValue::Scalar(norm.eps.to_bits()));
    }
    let mut cost = Cost { read: 4 * u64::from(rows) * u64::from(cols), ..Cost::default() };
    for part in parts {
        matrix_values(step, &part.matrix, &mut values);
        if let Some((up, _)) = &part.up {
            matrix_values(step, up, &mut values);
        }
        values.push(ArgumentValue::Buffer(part.out));
        values.extend(part.gate.map(ArgumentValue::Buffer));
        for matrix in [Some(part.matrix), part.up.map(|(up, _)| up)].into_iter().flatten() {
            let weight = step.model.weight(matrix.weight);
            cost.read += weight.row_bytes() as u64 * u64::from(matrix.rows);
            cost.products += u64::from(matrix.rows) * u64::from(cols) * u64::from(rows);
        }
        cost.written += 4 * u64::from(part.matrix.rows) * u64::from(rows);
    }
    Launch {
        recipe: Recipe::Project(recipe),
        groups: [groups, rows.div_ceil(batch), 1],
        arguments: values,
        waits: true,
        cost,
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
        }
        name
    }

    /// The function.
    pub(crate) fn function(&self) -> Result<Function, RecipeError> {
        let mut k = Builder::new(&self.name(), GROUP);
        let (input, rows) = (k.buffer("input"), k.scalar("rows", Elem::Int));
        let norm = self.norm.then(|| (k.buffer("norm"), k.scalar("eps", Elem::Float)));
        let parts: Vec<PartArguments> = self.parts.iter().map(|part| part_arguments(&mut k, part)).collect();
        let kinds = || self.parts.iter().flat_map(|part| [Some(part.matrix), part.up.map(|(up, _)| up)]);
        let any = |coded| kinds().flatten().any(|factor| is_coded(factor.kind) == Some(coded));
        let from = Activations::new(&mut k, [self.cols, self.batch], any(true), any(false))?;
        let number = k.workgroup_id(Axis::Y);
        let first = k.times(number, self.batch);
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
        let mut before = 0;
        for (part, arguments) in self.parts.iter().zip(&parts) {
            let count = self.groups(part);
            let before_it = k.int(before);
            let own = if before == 0 { group } else { k.sub(group, before_it) };
            let all = k.int(count);
            let body = |k: &mut Builder| self.part(k, part, arguments, &from, &source, [own, first, rows]);
            if self.parts.len() == 1 {
                body(&mut k);
            } else {
                let here = k.lt_u(own, all);
                k.when(here, body);
            }
            before += count;
        }
        Ok(k.finish())
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
        let mut matrices = alloc::vec![(part.matrix.kind, arguments.matrix.base)];
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

fn part_arguments(k: &mut Builder, part: &Share) -> PartArguments {
    let matrix = part.matrix.arguments(k, "weight");
    let up = part.up.map(|(up, _)| up.arguments(k, "up"));
    let out = k.buffer("out");
    let gate = (part.finish == Finish::AddGated).then(|| k.buffer("gate"));
    PartArguments { matrix, up, out, gate }
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

/// Value `i` in lane `i`.
pub(crate) fn choose(k: &mut Builder, lane: Value, values: &[Value]) -> Value {
    let mut chosen = values[0];
    for (value, index) in values.iter().zip(0..).skip(1) {
        let index = k.int(index);
        let own = k.eq(lane, index);
        chosen = k.select(own, *value, chosen);
    }
    chosen
}

/// A product with factor and bias.
fn weighted(k: &mut Builder, y: Value, arguments: &MatrixArguments, column: Value) -> Value {
    let mut y = y;
    if let Some(scale) = arguments.scale {
        let zero = k.int(0);
        let scale = k.read(scale, zero);
        y = k.fmul(y, scale);
    }
    if let Some(bias) = arguments.bias {
        let place = k.left(column, 2);
        let bias = k.read(bias, place);
        y = k.fadd(y, bias);
    }
    y
}

/// `[y, up]` of output `column` of batch row `row`.
fn epilogue(
    k: &mut Builder,
    part: &Share,
    arguments: &PartArguments,
    [y, up]: [Value; 2],
    [row, column]: [Value; 2],
) {
    let mut y = weighted(k, y, &arguments.matrix, column);
    if let (Some((_, bend)), Some(own)) = (part.up, &arguments.up) {
        let up = weighted(k, up, own, column);
        y = bend.apply(k, y, up);
    }
    let start = k.times(row, part.rows);
    let place = k.add(start, column);
    let place = k.left(place, 2);
    match part.finish {
        Finish::Store => {}
        Finish::Add => {
            let old = k.read(arguments.out, place);
            y = k.fadd(old, y);
        }
        Finish::AddGated => {
            if let Some(gate) = arguments.gate {
                let own = k.left(row, 2);
                let gate = k.read(gate, own);
                let share = k.sigmoid(gate, 1.0);
                let old = k.read(arguments.out, place);
                y = k.fma(share, y, old);
            }
        }
        Finish::Cap { scale, cap } => {
            let (scale, cap) = (f32::from_bits(scale), f32::from_bits(cap));
            if scale != 1.0 {
                y = k.scaled(y, scale);
            }
            if cap != 0.0 {
                y = k.soft_cap(y, cap);
            }
        }
    }
    k.write(arguments.out, place, y);
}
