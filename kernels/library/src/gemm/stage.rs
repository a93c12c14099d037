//! Weights on their way to LDS: rows of 128 columns, unpacked by the whole workgroup, 32 weights a work item, to f16 or
//! to codes of eight bits.
//!
//! Loading and unpacking are apart, so that loads are in flight while the tile before is multiplied. Not here: what is
//! written (`halves`, `codes`).

use crate::builder_ext::{BuilderExt, at};
use crate::formats::lane_format::{LaneFormat, is_coded, values};
use crate::gemm::path::MatrixPath;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width};
use doorbell_core::quant::Type;

/// Columns that weights are padded to: a block of the widest format.
pub(crate) const STEP: u32 = 256;
/// Columns of a tile; half a step.
pub(crate) const CHUNK: u32 = STEP / 2;

/// Bytes from row to row in LDS: 16 more than the data, so that lanes of one fragment meet different banks.
pub(crate) fn stride(path: MatrixPath) -> u32 {
    match path {
        MatrixPath::F16 => 2 * CHUNK + 16,
        MatrixPath::I8 => CHUNK + 16,
    }
}

/// A work item's place in 256 columns of a type. Made anew where it is used: registers are scarcer than the few
/// operations that it takes.
pub(crate) struct StageLayout {
    /// The type.
    pub(crate) ty: Type,
    /// The work item's eighth.
    pub(crate) part: Value,
    pub(crate) format: Option<LaneFormat>,
}

impl StageLayout {
    /// In half `half` of the columns.
    pub(crate) fn new(k: &mut Builder, ty: Type, half: u32) -> Self {
        let item = k.workitem_id();
        let part = k.mask(item, 3);
        let part = k.plus(part, 4 * half);
        let format = (is_coded(ty) == Some(true)).then(|| LaneFormat::new(k, ty, part));
        Self { ty, part, format }
    }

    /// First element of the work item's first run in the columns; of its second run, so many further on.
    pub(crate) fn first(&self, k: &mut Builder) -> (Value, u32) {
        match &self.format {
            Some(format) => (format.spread.first(k, self.part), format.spread.distance()),
            None => (k.left(self.part, 5), 16),
        }
    }
}

/// Where rows of a matrix come from, and where they go in LDS.
pub(crate) struct StagedRows {
    pub(crate) ty: Type,
    pub(crate) cols: u32,
    pub(crate) path: MatrixPath,
    /// The matrix, its first row that is wanted, and its last row.
    pub(crate) base: Value,
    pub(crate) first: Value,
    pub(crate) last: Value,
    /// Rows after which work items begin again at the first: a power of two.
    pub(crate) fold: u32,
    /// LDS bytes of the first row's first column, of its first factor, and from line to line of factors.
    pub(crate) lds: [u32; 3],
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
    pub(crate) place: Value,
    /// Byte offset in LDS of the work item's row in the first line of factors, and bytes from line to line.
    pub(crate) factors: Value,
    pub(crate) line: u32,
}

impl WeightStage {
    /// Rows that a workgroup of so many work items takes.
    pub(crate) fn rows(items: u32) -> u32 {
        items / 4
    }

    /// A work item's part of rows.
    pub(crate) fn new(k: &mut Builder, staged: &StagedRows) -> Self {
        let StagedRows { ty, cols, path, base, .. } = *staged;
        let item = k.workitem_id();
        let own = k.right(item, 2);
        let folded = k.mask(own, staged.fold - 1);
        let row = k.add(staged.first, folded);
        let row = k.min_u(row, staged.last);
        let row_bytes = ty.row_bytes(cols as usize).unwrap_or(0) as u32;
        let row = k.times(row, row_bytes);
        let (first, _) = StageLayout::new(k, ty, 0).first(k);
        let place = k.times(own, stride(path));
        let first = if path == MatrixPath::F16 { k.left(first, 1) } else { first };
        let place = k.add(place, first);
        let place = k.plus(place, staged.lds[0]);
        let factors = k.left(own, 2);
        let factors = k.plus(factors, staged.lds[1]);
        Self { ty, cols, path, base, row, place, factors, line: staged.lds[2] }
    }

    /// The type of the weights.
    pub(crate) fn ty(&self) -> Type {
        self.ty
    }

    /// Loads the work item's weights of columns `256 * step..`, in the half of `layout`, which is of the stage's type.
    pub(crate) fn fetch(&self, k: &mut Builder, step: Value, layout: &StageLayout) -> Vec<Value> {
        let Some(format) = &layout.format else { return self.fetch_floats(k, step, layout.part) };
        let start = format.start(k, layout.part);
        let ahead = k.times(step, format.advance / 4);
        let offset = k.add(start, ahead);
        let last = k.int(format.last(self.cols));
        let offset = k.min_u(offset, last);
        let offset = k.add(self.row, offset);
        format.load(k, self.base, offset)
    }

    /// Registers that those take.
    pub(crate) fn registers(&self) -> usize {
        match self.ty {
            Type::F32 => 32,
            Type::F16 | Type::BF16 => 16,
            Type::Q5_K => 12,
            Type::Q6_K => 11,
            Type::Q8_0 => 9,
            Type::Q4_K => 8,
            _ => 6,
        }
    }

    /// How many values [`WeightStage::fetch`] loads.
    pub(crate) fn values(&self) -> usize {
        match self.ty {
            Type::F32 => 8,
            Type::F16 | Type::BF16 => 4,
            ty => values(ty),
        }
    }

    /// Unpacks what [`WeightStage::fetch`] loaded into LDS.
    pub(crate) fn keep(&self, k: &mut Builder, step: Value, layout: &StageLayout, loaded: &[Value]) {
        match self.path {
            MatrixPath::F16 => self.keep_halves(k, step, layout, loaded),
            MatrixPath::I8 => self.keep_codes(k, layout, loaded),
        }
    }

    /// 32 floats of any width.
    fn fetch_floats(&self, k: &mut Builder, step: Value, part: Value) -> Vec<Value> {
        let wide = self.ty == Type::F32;
        let bytes = if wide { 4 } else { 2 };
        let ahead = k.times(step, STEP * bytes);
        let own = k.times(part, 32 * bytes);
        let offset = k.add(ahead, own);
        let last = k.int((self.cols - 32) * bytes);
        let offset = k.min_u(offset, last);
        let offset = k.add(self.row, offset);
        let elem = if wide { Elem::Float } else { Elem::Int };
        (0..2 * bytes)
            .map(|quad| k.load(at(k.global(self.base, offset), 16 * quad), Width::Dwords(4), elem))
            .collect()
    }
}
