//! Weights on their way to LDS: rows of 128 columns, unpacked by the whole workgroup, 32 weights a work item, to f16 or
//! to codes of eight bits.
//!
//! Loading and unpacking are apart, so that loads are in flight while the tile before is multiplied. Not here: the stores
//! to LDS (`weights_f16`, `weights_i8`).

use super::path::MatrixPath;
use crate::formats::lane_format::LaneFormat;
use crate::formats::spec::FormatSpec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width, global};
use doorbell_core::quant::Type;

/// Columns to which weights are padded: a block of the widest format.
pub(crate) const STEP: u32 = 256;
/// Columns of a tile; half a step.
pub(crate) const CHUNK: u32 = STEP / 2;

/// Bytes from row to row in LDS: 16 more than the data, so that lanes of one fragment use different banks.
pub(crate) fn stride(path: MatrixPath) -> u32 {
    match path {
        MatrixPath::F16 => 2 * CHUNK + 16,
        MatrixPath::I8 => CHUNK + 16,
    }
}

/// A work item's part of 256 columns of a type. Made anew where it is used: registers are scarcer than the few
/// operations that it takes.
pub(crate) struct StageLayout {
    /// The type.
    pub(crate) ty: Type,
    /// The work item's eighth.
    pub(crate) part: Value,
    pub(crate) format: Option<LaneFormat>,
}

/// Elements of a work item's two runs in 256 columns.
pub(crate) struct RunColumns {
    /// First element of the first run.
    pub(crate) first: Value,
    /// Elements from the first to the second run.
    pub(crate) distance: u32,
}

impl StageLayout {
    /// In half `half` of the columns.
    pub(crate) fn new(k: &mut Builder, ty: Type, half: u32) -> Self {
        let item = k.workitem_id();
        let part = k.eval((item & 3) + 4 * half);
        let format = FormatSpec::of(ty).is_coded().then(|| LaneFormat::new(k, ty, part));
        Self { ty, part, format }
    }

    /// The columns of the work item's runs.
    pub(crate) fn columns(&self, k: &mut Builder) -> RunColumns {
        match &self.format {
            Some(format) => {
                RunColumns { first: format.spread.first(k, self.part), distance: format.spread.distance() }
            }
            None => RunColumns { first: k.eval(self.part << 5), distance: 16 },
        }
    }
}

/// LDS bytes of rows of weights.
#[derive(Clone, Copy)]
pub(crate) struct WeightLds {
    /// The first row's first column.
    pub(crate) weights: u32,
    /// The first row's first factor.
    pub(crate) factors: u32,
    /// Bytes from line to line of factors.
    pub(crate) line: u32,
}

/// Source of rows of a matrix, and their destination in LDS.
pub(crate) struct StagedRows {
    pub(crate) ty: Type,
    pub(crate) cols: u32,
    pub(crate) path: MatrixPath,
    /// The matrix.
    pub(crate) base: Value,
    /// Its first row that is wanted.
    pub(crate) first: Value,
    /// Its last row.
    pub(crate) last: Value,
    /// Rows after which work items begin again at the first: a power of two.
    pub(crate) fold: u32,
    pub(crate) lds: WeightLds,
}

/// Rows of one matrix on their way into LDS.
pub(crate) struct WeightStage {
    pub(crate) ty: Type,
    pub(crate) cols: u32,
    path: MatrixPath,
    base: Value,
    /// Byte offset of the work item's row in the matrix.
    row: Value,
    /// Byte offset in LDS of the work item's first element.
    pub(crate) target: Value,
    /// Byte offset in LDS of the work item's row in the first line of factors.
    pub(crate) factors: Value,
    /// Bytes from line to line of factors.
    pub(crate) line: u32,
}

impl WeightStage {
    /// Rows that a workgroup of `items` work items takes.
    pub(crate) fn rows(items: u32) -> u32 {
        items / 4
    }

    /// A work item's part of rows.
    pub(crate) fn new(k: &mut Builder, staged: &StagedRows) -> Self {
        let StagedRows { ty, cols, path, base, lds, .. } = *staged;
        let item = k.workitem_id();
        let own = k.eval(item >> 2);
        let row_bytes = ty.row_bytes(cols as usize).unwrap_or(0) as u32;
        let row = (staged.first + (own & (staged.fold - 1))).min(staged.last);
        let row = k.eval(row * row_bytes);
        let column = StageLayout::new(k, ty, 0).columns(k).first;
        let line = k.eval(own * stride(path));
        let within = if path == MatrixPath::F16 { k.eval(column << 1) } else { column };
        let target = k.eval(line + within + lds.weights);
        let factors = k.eval((own << 2) + lds.factors);
        Self { ty, cols, path, base, row, target, factors, line: lds.line }
    }

    /// The row of the table of weight formats.
    pub(crate) fn spec(&self) -> &'static FormatSpec {
        FormatSpec::of(self.ty)
    }

    /// Loads the work item's weights of columns `256 * step..`, in the half of `layout`, which is of the stage's type.
    pub(crate) fn fetch(&self, k: &mut Builder, step: Value, layout: &StageLayout) -> Vec<Value> {
        let Some(format) = &layout.format else { return self.fetch_floats(k, step, layout.part) };
        let start = format.start(k, layout.part);
        let block = (start + step * (format.advance / 4)).min(format.last(self.cols));
        let block = k.eval(block);
        let offset = k.add(self.row, block);
        format.load(k, self.base, offset)
    }

    /// Unpacks the loads of [`WeightStage::fetch`] into LDS.
    pub(crate) fn keep(&self, k: &mut Builder, step: Value, layout: &StageLayout, loaded: &[Value]) {
        match self.path {
            MatrixPath::F16 => self.keep_f16(k, step, layout, loaded),
            MatrixPath::I8 => self.keep_i8(k, layout, loaded),
        }
    }

    /// 32 floats of any width.
    fn fetch_floats(&self, k: &mut Builder, step: Value, part: Value) -> Vec<Value> {
        let wide = self.ty == Type::F32;
        let bytes = if wide { 4 } else { 2 };
        let within = (step * (STEP * bytes) + part * (32 * bytes)).min((self.cols - 32) * bytes);
        let within = k.eval(within);
        let offset = k.add(self.row, within);
        let elem = if wide { Elem::Float } else { Elem::Int };
        (0..2 * bytes)
            .map(|quad| k.load(global(self.base, offset).plus(16 * quad), Width::Dwords(4), elem))
            .collect()
    }
}
