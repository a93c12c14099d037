//! The chosen experts of every row: gate, up and their non-linearity into scratch; then down, weights and residual.
//!
//! One row at a time (grid Z or Y); the slots of a row, its chosen experts, are taken in their order. Matrices of all
//! experts lie one behind the other. Not here: rows grouped by expert.

use super::activation::{Activations, GROUP, Source, WAVES, whole};
use super::glu::Bend;
use super::idiom::Idiom;
use super::product::{Rows, accumulate, finish, zeros};
use super::project::{Factor, choose, matrix_values};
use super::unpack::is_coded;
use super::{Cost, Launch, Recipe, RecipeError, Step};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value};
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::model::Model;
use doorbell_core::plan::{Experts, Matrix};

/// One matrix of every expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stack {
    /// Type, factor, bias.
    pub factor: Factor,
    /// Output rows that are used.
    pub rows: u32,
    /// Output rows of each expert in the file.
    pub stride: u32,
    /// Whether there is a factor for every expert.
    pub own_scale: bool,
}

/// `hidden = glu(gate x, up x)` of every chosen expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExpertsUp {
    /// Elements of an input row.
    pub cols: u32,
    /// Chosen experts of a row.
    pub top_k: u32,
    /// Whether rows are normalised.
    pub norm: bool,
    /// The first matrix.
    pub gate: Stack,
    /// The second.
    pub up: Stack,
    /// The non-linearity.
    pub bend: Bend,
}

/// `to += sum of weight * down hidden` over the chosen experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExpertsDown {
    /// Elements of a hidden row.
    pub cols: u32,
    /// Chosen experts of a row.
    pub top_k: u32,
    /// The matrix.
    pub down: Stack,
}

/// Output rows per wave.
const OUTPUTS: u32 = 2;

/// Whether the kernels take an operation whose matrices they read.
pub(crate) fn takes(model: &Model<'_>, op: &Experts) -> bool {
    // Rows of activations lie in LDS as a whole.
    let fits = |matrices: &[&Matrix]| {
        let factors: Vec<Factor> = matrices.iter().map(|matrix| Factor::new(model, matrix)).collect();
        let [coded, plain] = kinds(&factors);
        let cols = model.weight(matrices[0].weight).cols as u32;
        whole(cols, coded, plain)
    };
    op.top_k > 0 && fits(&[&op.gate, &op.up]) && fits(&[&op.down])
}

/// Bytes of scratch.
pub(crate) fn scratch_bytes(rows: u32, op: &Experts) -> u64 {
    4 * u64::from(rows) * u64::from(op.top_k) * u64::from(op.gate.rows)
}

impl Stack {
    pub(crate) fn new(model: &Model<'_>, matrix: &Matrix) -> Self {
        let own_scale = matrix.scale.is_some_and(|id| model.vector(id).len() > 1);
        let stride = model.weight(matrix.weight).rows as u32;
        Self { factor: Factor::new(model, matrix), rows: matrix.rows, stride, own_scale }
    }

    pub(crate) fn name(self) -> String {
        let own = if self.own_scale { "e" } else { "" };
        format!("{}of{}{}{own}", self.rows, self.stride, self.factor.name())
    }

    fn arguments(self, k: &mut Builder, name: &str) -> StackArguments {
        let base = k.buffer(name);
        let scale = self.factor.scale.then(|| k.buffer("scale"));
        let bias = self.factor.bias.then(|| k.buffer("bias"));
        StackArguments { base, scale, bias }
    }

    /// The wave's rows of an expert's matrix.
    fn wave_rows(self, k: &mut Builder, base: Value, cols: u32, expert: Value, output: Value) -> Rows {
        let bytes = self.factor.kind.row_bytes(cols as usize).unwrap_or(0) as u32;
        let start = k.times(expert, self.stride);
        let offsets = (0..OUTPUTS).map(|index| {
            let mut row = k.plus(output, index);
            if !self.rows.is_multiple_of(WAVES * OUTPUTS) {
                let last = k.int(self.rows - 1);
                row = k.min_u(row, last);
            }
            let row = k.add(start, row);
            k.times(row, bytes)
        });
        Rows { kind: self.factor.kind, base, offsets: offsets.collect() }
    }

    /// A product with the expert's factor and bias.
    fn weighted(
        self,
        k: &mut Builder,
        y: Value,
        own: &StackArguments,
        expert: Value,
        column: Value,
    ) -> Value {
        let mut y = y;
        if let Some(scale) = own.scale {
            let place = if self.own_scale { k.left(expert, 2) } else { k.int(0) };
            let scale = k.read(scale, place);
            y = k.fmul(y, scale);
        }
        if let Some(bias) = own.bias {
            let row = k.times(expert, self.rows);
            let last = k.int(self.rows - 1);
            let column = k.min_u(column, last);
            let place = k.add(row, column);
            let place = k.left(place, 2);
            let bias = k.read(bias, place);
            y = k.fadd(y, bias);
        }
        y
    }
}

struct StackArguments {
    base: Value,
    scale: Option<Value>,
    bias: Option<Value>,
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
        gate: Stack::new(model, &op.gate),
        up: Stack::new(model, &op.up),
        bend: op.glu.into(),
    };
    let mut first = [step.tensor(op.input), step.tensor(op.ids)].map(ArgumentValue::Buffer).to_vec();
    if let Some(norm) = op.norm {
        first.push(ArgumentValue::Buffer(step.vector(norm.weight)));
        first.push(ArgumentValue::Scalar(norm.eps.to_bits()));
    }
    matrix_values(step, &op.gate, &mut first);
    matrix_values(step, &op.up, &mut first);
    first.push(ArgumentValue::Buffer(scratch));
    let down = ExpertsDown { cols: hidden, top_k: op.top_k, down: Stack::new(model, &op.down) };
    let second = [scratch, step.tensor(op.ids), step.tensor(op.weights)];
    let mut second = second.map(ArgumentValue::Buffer).to_vec();
    matrix_values(step, &op.down, &mut second);
    second.push(ArgumentValue::Buffer(step.tensor(op.to)));
    let slots = u64::from(rows) * u64::from(op.top_k);
    let bytes = |matrix: &Matrix| model.weight(matrix.weight).row_bytes() as u64 * u64::from(matrix.rows);
    let products = u64::from(hidden) * u64::from(cols);
    [
        Launch {
            recipe: Recipe::ExpertsUp(up),
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
            recipe: Recipe::ExpertsDown(down),
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

/// The wave's first output, of workgroup X.
fn first_output(k: &mut Builder) -> Value {
    let (group, wave) = (k.workgroup_id(Axis::X), k.wave());
    let start = k.times(group, WAVES * OUTPUTS);
    let own = k.times(wave, OUTPUTS);
    k.add(start, own)
}

/// Sums of matrices over a whole row of activations, reduced.
fn products(k: &mut Builder, matrices: &[Rows], from: &Activations) -> Vec<Value> {
    let zero = k.int(0);
    let mut sums = Vec::new();
    let alike = |rows: &Rows| is_coded(rows.kind) == is_coded(matrices[0].kind);
    let together = matrices.iter().all(alike);
    for matrices in matrices.chunks(if together { matrices.len() } else { 1 }) {
        let initial = zeros(k, matrices.len() * OUTPUTS as usize);
        sums.extend(accumulate(k, matrices, from, zero, &initial));
    }
    finish(k, &sums)
}

/// Whether any of two types is coded, and whether any is not.
fn kinds(factors: &[Factor]) -> [bool; 2] {
    [true, false].map(|coded| factors.iter().any(|factor| is_coded(factor.kind) == Some(coded)))
}

impl ExpertsUp {
    /// Unique name.
    pub(crate) fn name(self) -> String {
        let norm = if self.norm { "_norm" } else { "" };
        let (gate, up) = (self.gate.name(), self.up.name());
        format!("experts_{}_{}{norm}_{gate}_{}_{up}", self.top_k, self.cols, self.bend.name())
    }

    /// The function.
    pub(crate) fn function(self) -> Result<Function, RecipeError> {
        let mut k = Builder::new(&self.name(), GROUP);
        let (input, ids) = (k.buffer("input"), k.buffer("ids"));
        let norm = self.norm.then(|| (k.buffer("norm"), k.scalar("eps", Elem::Float)));
        let (gate, up) = (self.gate.arguments(&mut k, "gate"), self.up.arguments(&mut k, "up"));
        let out = k.buffer("hidden");
        let [coded, plain] = kinds(&[self.gate.factor, self.up.factor]);
        let from = Activations::new(&mut k, [self.cols, 1], coded, plain)?;
        if from.pieces() != 1 {
            return Err(RecipeError::Shape);
        }
        let (number, row) = (k.workgroup_id(Axis::Y), k.workgroup_id(Axis::Z));
        let slot = k.times(row, self.top_k);
        let slot = k.add(slot, number);
        let place = k.left(slot, 2);
        let expert = k.read_same(ids, place);
        let start = k.times(row, 4 * self.cols);
        let mut source = Source { base: input, rows: alloc::vec![start], norm: None };
        if let Some((weight, eps)) = norm {
            source.norm = Some((weight, from.norm_factors(&mut k, input, &source.rows, eps)));
        }
        let zero = k.int(0);
        from.fill(&mut k, &source, zero);
        k.barrier(false);
        let output = first_output(&mut k);
        let matrices = [(self.gate, &gate), (self.up, &up)]
            .map(|(stack, own)| stack.wave_rows(&mut k, own.base, self.cols, expert, output));
        let sums = products(&mut k, &matrices, &from);
        let lane = k.lane();
        let (gates, ups) = sums.split_at(OUTPUTS as usize);
        let (y, u) = (choose(&mut k, lane, gates), choose(&mut k, lane, ups));
        let column = k.add(output, lane);
        let (all, width) = (k.int(OUTPUTS), k.int(self.gate.rows));
        let used = k.lt_u(lane, all);
        let inside = k.lt_u(column, width);
        let used = k.both(used, inside);
        k.when(used, |k| {
            let y = self.gate.weighted(k, y, &gate, expert, column);
            let u = self.up.weighted(k, u, &up, expert, column);
            let y = self.bend.apply(k, y, u);
            let start = k.times(slot, self.gate.rows);
            let place = k.add(start, column);
            let place = k.left(place, 2);
            k.write(out, place, y);
        });
        Ok(k.finish())
    }
}

impl ExpertsDown {
    /// Unique name.
    pub(crate) fn name(self) -> String {
        format!("experts_down_{}_{}_{}", self.top_k, self.cols, self.down.name())
    }

    /// The function.
    pub(crate) fn function(self) -> Result<Function, RecipeError> {
        let mut k = Builder::new(&self.name(), GROUP);
        let (hidden, ids, weights) = (k.buffer("hidden"), k.buffer("ids"), k.buffer("weights"));
        let down = self.down.arguments(&mut k, "down");
        let to = k.buffer("to");
        let [coded, plain] = kinds(&[self.down.factor]);
        let from = Activations::new(&mut k, [self.cols, 1], coded, plain)?;
        if from.pieces() != 1 {
            return Err(RecipeError::Shape);
        }
        let row = k.workgroup_id(Axis::Y);
        let output = first_output(&mut k);
        let lane = k.lane();
        let column = k.add(output, lane);
        let first = k.times(row, self.top_k);
        let zero = k.float(0.0);
        let (none, end, one) = (k.int(0), k.int(self.top_k), k.int(1));
        let sum = k.for_range([none, end, one], &[zero], |k, number, sum| {
            let slot = k.add(first, number);
            let place = k.left(slot, 2);
            let expert = k.read_same(ids, place);
            let weight = k.read(weights, place);
            let start = k.times(slot, 4 * self.cols);
            let source = Source { base: hidden, rows: alloc::vec![start], norm: None };
            k.barrier(false);
            let zero = k.int(0);
            from.fill(k, &source, zero);
            k.barrier(false);
            let rows = self.down.wave_rows(k, down.base, self.cols, expert, output);
            let sums = products(k, core::slice::from_ref(&rows), &from);
            let y = choose(k, lane, &sums);
            let y = self.down.weighted(k, y, &down, expert, column);
            alloc::vec![k.fma(weight, y, sum[0])]
        })[0];
        let (all, width) = (k.int(OUTPUTS), k.int(self.down.rows));
        let used = k.lt_u(lane, all);
        let inside = k.lt_u(column, width);
        let used = k.both(used, inside);
        k.when(used, |k| {
            let start = k.times(row, self.down.rows);
            let place = k.add(start, column);
            let place = k.left(place, 2);
            let old = k.read(to, place);
            let sum = k.fadd(old, sum);
            k.write(to, place, sum);
        });
        Ok(k.finish())
    }
}
