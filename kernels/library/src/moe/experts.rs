//! The chosen experts of every row: gate, up and their non-linearity into scratch (`experts_up`); then down, weights and
//! residual (`experts_down`).
//!
//! One row at a time (grid Z or Y); the slots of a row, its chosen experts, are taken in their order. Matrices of all
//! experts lie one after the other. Not here: rows grouped by expert (`grouped_gemm`).

use crate::builder_ext::BuilderExt;
use crate::gemv::activations::{Activations, WAVES};
use crate::gemv::product::{WeightRows, accumulate, finish, zeros};
use crate::gemv::spec::{MatrixArguments, MatrixSpec};
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
    /// True if there is a factor for every expert.
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

    pub(crate) fn arguments(self, k: &mut Builder, name: &str) -> MatrixArguments {
        let base = k.buffer(name);
        let scale = self.factor.scale.then(|| k.buffer("scale"));
        let bias = self.factor.bias.then(|| k.buffer("bias"));
        MatrixArguments { base, scale, bias }
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
        let start = k.eval(expert * self.stride);
        let offsets = (0..OUTPUTS).map(|index| {
            let mut row = k.eval(output + index);
            if !self.rows.is_multiple_of(WAVES * OUTPUTS) {
                row = k.min_u(row, self.rows - 1);
            }
            k.eval((start + row) * bytes)
        });
        WeightRows { ty: self.factor.ty, base, offsets: offsets.collect() }
    }

    /// A product with the expert's factor and bias.
    pub(crate) fn weighted(
        self,
        k: &mut Builder,
        y: Value,
        own: &MatrixArguments,
        expert: Value,
        column: Value,
    ) -> Value {
        let mut y = y;
        if let Some(scale) = own.scale {
            let offset = if self.own_scale { k.eval(expert << 2) } else { k.int(0) };
            let factor = k.read(scale, offset);
            y = k.fmul(y, factor);
        }
        if let Some(bias) = own.bias {
            let row = k.eval(expert * self.rows);
            let within = k.min_u(column, self.rows - 1);
            let addend = k.read(bias, (row + within) << 2);
            y = k.fadd(y, addend);
        }
        y
    }
}

/// The wave's first output, of workgroup X.
pub(crate) fn first_output(k: &mut Builder) -> Value {
    let (group, wave) = (k.workgroup_id(Axis::X), k.wave());
    k.eval(group * (WAVES * OUTPUTS) + wave * OUTPUTS)
}

/// Sums of matrices over a whole row of activations, reduced.
pub(crate) fn products(k: &mut Builder, matrices: &[WeightRows], from: &Activations) -> Vec<Value> {
    let zero = k.int(0);
    let mut sums = Vec::new();
    let together = matrices.iter().all(|rows| rows.is_coded() == matrices[0].is_coded());
    for matrices in matrices.chunks(if together { matrices.len() } else { 1 }) {
        let initial = zeros(k, matrices.len() * OUTPUTS as usize);
        sums.extend(accumulate(k, matrices, from, zero, &initial));
    }
    finish(k, &sums)
}
