//! The chosen experts of every row: gate, up and their non-linearity into scratch (`up`); then down, weights and
//! residual (`down`).
//!
//! One row at a time (grid Z or Y); the slots of a row, its chosen experts, are taken in their order. Matrices of all
//! experts lie one behind the other. Not here: rows grouped by expert.

use crate::builder_ext::BuilderExt;
use crate::formats::lane_format::is_coded;
use crate::gemv::activations::{Activations, WAVES};
use crate::gemv::product::{WeightRows, accumulate, finish, zeros};
use crate::gemv::spec::MatrixSpec;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Value};
use doorbell_core::model::Model;
use doorbell_core::plan::Matrix;

/// One matrix of every expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExpertMatrix {
    /// Type, factor, bias.
    pub factor: MatrixSpec,
    /// Output rows that are used.
    pub rows: u32,
    /// Output rows of each expert in the file.
    pub stride: u32,
    /// Whether there is a factor for every expert.
    pub own_scale: bool,
}

/// Output rows per wave.
pub(crate) const OUTPUTS: u32 = 2;

impl ExpertMatrix {
    pub(crate) fn new(model: &Model<'_>, matrix: &Matrix) -> Self {
        let own_scale = matrix.scale.is_some_and(|id| model.vector(id).len() > 1);
        let stride = model.weight(matrix.weight).rows as u32;
        Self { factor: MatrixSpec::new(model, matrix), rows: matrix.rows, stride, own_scale }
    }

    pub(crate) fn name(self) -> String {
        let own = if self.own_scale { "e" } else { "" };
        format!("{}of{}{}{own}", self.rows, self.stride, self.factor.name())
    }

    pub(crate) fn arguments(self, k: &mut Builder, name: &str) -> ExpertArguments {
        let base = k.buffer(name);
        let scale = self.factor.scale.then(|| k.buffer("scale"));
        let bias = self.factor.bias.then(|| k.buffer("bias"));
        ExpertArguments { base, scale, bias }
    }

    /// The wave's rows of an expert's matrix.
    pub(crate) fn wave_rows(
        self,
        k: &mut Builder,
        base: Value,
        cols: u32,
        expert: Value,
        output: Value,
    ) -> WeightRows {
        let bytes = self.factor.ty.row_bytes(cols as usize).unwrap_or(0) as u32;
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
        WeightRows { ty: self.factor.ty, base, offsets: offsets.collect() }
    }

    /// A product with the expert's factor and bias.
    pub(crate) fn weighted(
        self,
        k: &mut Builder,
        y: Value,
        own: &ExpertArguments,
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

pub(crate) struct ExpertArguments {
    pub(crate) base: Value,
    pub(crate) scale: Option<Value>,
    pub(crate) bias: Option<Value>,
}

/// The wave's first output, of workgroup X.
pub(crate) fn first_output(k: &mut Builder) -> Value {
    let (group, wave) = (k.workgroup_id(Axis::X), k.wave());
    let start = k.times(group, WAVES * OUTPUTS);
    let own = k.times(wave, OUTPUTS);
    k.add(start, own)
}

/// Sums of matrices over a whole row of activations, reduced.
pub(crate) fn products(k: &mut Builder, matrices: &[WeightRows], from: &Activations) -> Vec<Value> {
    let zero = k.int(0);
    let mut sums = Vec::new();
    let alike = |rows: &WeightRows| is_coded(rows.ty) == is_coded(matrices[0].ty);
    let together = matrices.iter().all(alike);
    for matrices in matrices.chunks(if together { matrices.len() } else { 1 }) {
        let initial = zeros(k, matrices.len() * OUTPUTS as usize);
        sums.extend(accumulate(k, matrices, from, zero, &initial));
    }
    finish(k, &sums)
}

/// Whether any of two types is coded, and whether any is not.
pub(crate) fn forms(factors: &[MatrixSpec]) -> [bool; 2] {
    [true, false].map(|coded| factors.iter().any(|factor| is_coded(factor.ty) == Some(coded)))
}
