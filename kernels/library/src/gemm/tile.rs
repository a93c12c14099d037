//! The loop of matrix kernels over columns: activations and weights into LDS, then a wave's blocks of results.
//!
//! Not here: the matrix instructions of a tile (`multiply`).

use crate::builder_ext::{BuilderExt, at};
use crate::gemm::activations_f16::ActivationsF16;
use crate::gemm::activations_i8::{ActivationsI8, LINE};
use crate::gemm::path::MatrixPath;
use crate::gemm::stage::{CHUNK, STEP, StageLayout, WeightStage, stride};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width};
use doorbell_core::quant::Type;

/// LDS of a workgroup: bytes where tiles start.
#[derive(Clone, Copy)]
pub(crate) struct TileLds {
    /// Activations, and their factors and sums.
    pub(crate) rows: [u32; 2],
    /// Bytes from line to line of those.
    pub(crate) row_line: u32,
    /// Weights, and their factors and minima.
    pub(crate) weights: [u32; 2],
    /// Bytes from line to line of those.
    pub(crate) weight_line: u32,
}

impl TileLds {
    /// TileLds for so many rows of activations and of weights.
    pub(crate) fn new(k: &mut Builder, path: MatrixPath, rows: u32, weights: u32) -> Self {
        let [row_line, weight_line] = [4 * rows + 16, 4 * weights + 32];
        let mut take = |count: u32, line: u32| {
            let codes = k.local(count * stride(path));
            [codes, if path == MatrixPath::I8 { k.local(8 * line) } else { 0 }]
        };
        Self { rows: take(rows, row_line), row_line, weights: take(weights, weight_line), weight_line }
    }
}

/// Sixteen outputs of a wave.
#[derive(Clone, Copy)]
pub(crate) struct OutputBlock {
    /// First row of weights in LDS.
    pub(crate) first: u32,
    pub(crate) ty: Type,
}

/// One workgroup's product, and a wave's part of it.
#[derive(Clone, Copy)]
pub(crate) struct TileProduct<'p> {
    pub(crate) path: MatrixPath,
    /// Columns.
    pub(crate) cols: u32,
    /// Work items.
    pub(crate) items: u32,
    /// Weights.
    pub(crate) stages: &'p [WeightStage],
    /// Activations by `ActivationsF16` or `ActivationsI8`.
    pub(crate) x: Value,
    /// Byte offsets of the rows that the work item copies, see [`TileProduct::copied`].
    pub(crate) copied: &'p [Value],
    pub(crate) room: TileLds,
    /// Row of the tile that the lane takes of the wave's first block of sixteen.
    pub(crate) row: Value,
    /// First row of that block.
    pub(crate) first_row: Value,
    /// Blocks of rows of the wave, and rows from one to the next.
    pub(crate) blocks: u32,
    pub(crate) apart: u32,
    /// How many of those blocks have rows, uniform; all without.
    pub(crate) used: Option<Value>,
    /// Output of the tile that the lane takes, less those of `columns`.
    pub(crate) column: Value,
    pub(crate) columns: &'p [OutputBlock],
    /// Lane divided by 16.
    pub(crate) half: Value,
    pub(crate) gfx12: bool,
}

/// Registers of activations, weights and accumulators that leave enough for fragments.
const MOST: usize = 116;

/// Work items that copy one row of a tile, 16 bytes each.
fn copiers(path: MatrixPath) -> u32 {
    match path {
        MatrixPath::F16 => CHUNK / 8,
        MatrixPath::I8 => CHUNK / 16,
    }
}

/// Blocks of sixteen rows, `apart` rows from one to the next, that lie below `count` if the first starts at `first`.
pub(crate) fn used(k: &mut Builder, count: Value, first: Value, apart: u32) -> Value {
    let beyond = k.plus(count, apart - 1);
    let beyond = k.max_u(beyond, first);
    let rows = k.sub(beyond, first);
    k.right(rows, apart.trailing_zeros())
}

impl TileProduct<'_> {
    /// The row of the tile that a work item copies in round `round`.
    pub(crate) fn copied(k: &mut Builder, path: MatrixPath, items: u32, round: u32) -> Value {
        let item = k.workitem_id();
        let row = k.right(item, copiers(path).trailing_zeros());
        k.plus(row, round * items / copiers(path))
    }

    /// Rounds that copy `rows` rows.
    pub(crate) fn rounds(path: MatrixPath, items: u32, rows: u32) -> u32 {
        rows.div_ceil(items / copiers(path))
    }

    /// Bytes of a row of activations.
    pub(crate) fn row_bytes(path: MatrixPath, cols: u32) -> u32 {
        match path {
            MatrixPath::F16 => ActivationsF16::row_bytes(cols),
            MatrixPath::I8 => ActivationsI8::row_bytes(cols),
        }
    }

    /// Eight sums of a lane for each `[row block][output block]`. Sums run over columns in order.
    pub(crate) fn sums(&self, k: &mut Builder) -> Vec<Vec<Value>> {
        let steps = self.cols.div_ceil(STEP);
        let mut carried = self.zeros(k);
        let count = carried.len();
        let (zero, end, one) = (k.int(0), k.int(steps), k.int(1));
        carried.extend(self.fetch(k, zero, 0));
        let mut sums = k.for_range([zero, end, one], &carried, |k, step, carried| {
            let (sums, fetched) = carried.split_at(count);
            self.keep(k, step, 0, fetched);
            k.barrier(false);
            let fetched = self.fetch(k, step, 1);
            let sums = self.multiply(k, sums);
            k.barrier(false);
            self.keep(k, step, 1, &fetched);
            k.barrier(false);
            let last = k.int(steps - 1);
            let following = k.plus(step, 1);
            let following = k.min_u(following, last);
            let fetched = self.fetch(k, following, 0);
            let mut next = self.multiply(k, &sums);
            k.barrier(false);
            next.extend(fetched);
            next
        });
        sums.truncate(count);
        self.apart(k, &sums)
    }

    /// Whether weights are loaded while the tile before is multiplied: where registers suffice. Accumulators are there
    /// twice, at the edges of loops.
    fn early(&self) -> bool {
        let weights: usize = self.stages.iter().map(WeightStage::registers).sum();
        let accumulators = 16 * self.blocks as usize * self.columns.len();
        let row = if self.path == MatrixPath::F16 { 4 } else { 5 };
        row * self.copied.len() + weights + accumulators <= MOST
    }

    /// One for each type of weights.
    fn layouts(&self, k: &mut Builder, half: u32) -> Vec<StageLayout> {
        let mut layouts: Vec<StageLayout> = Vec::new();
        for stage in self.stages {
            if layouts.iter().all(|layout| layout.ty != stage.ty()) {
                layouts.push(StageLayout::new(k, stage.ty(), half));
            }
        }
        layouts
    }

    /// Each stage's.
    fn layout_of<'l>(&self, layouts: &'l [StageLayout]) -> Vec<&'l StageLayout> {
        let of = |stage: &WeightStage| layouts.iter().find(|layout| layout.ty == stage.ty());
        self.stages.iter().filter_map(of).collect()
    }

    /// The work item's place in a row, in bytes.
    fn own(&self, k: &mut Builder) -> Value {
        let item = k.workitem_id();
        let own = k.mask(item, copiers(self.path) - 1);
        k.left(own, 4)
    }

    /// Loads what the work item brings to a tile.
    fn fetch(&self, k: &mut Builder, step: Value, half: u32) -> Vec<Value> {
        let own = self.own(k);
        let width = if self.path == MatrixPath::F16 { 2 * CHUNK } else { LINE };
        let ahead = k.times(step, 2 * width);
        let mut from = k.add(own, ahead);
        let mut later = half * width;
        if self.path == MatrixPath::F16 && !self.cols.is_multiple_of(STEP) {
            // Beyond the last column weights are zero, but activations have to be numbers.
            from = k.plus(from, later);
            let last = k.int(2 * self.cols - 16);
            from = k.min_u(from, last);
            later = 0;
        }
        let mut fetched = Vec::new();
        for row in self.copied {
            let place = k.add(*row, from);
            let address = at(k.global(self.x, place), later);
            fetched.push(k.load(address, Width::Dwords(4), Elem::Int));
        }
        if self.path == MatrixPath::I8 {
            // Each of the eight work items of a row brings a factor or a sum.
            let own = k.right(own, 2);
            let from = k.add(own, ahead);
            for row in self.copied {
                let place = k.add(*row, from);
                let address = at(k.global(self.x, place), later + CHUNK);
                fetched.push(k.load(address, Width::Dwords(1), Elem::Float));
            }
        }
        if self.early() {
            let layouts = self.layouts(k, half);
            for (stage, layout) in self.stages.iter().zip(self.layout_of(&layouts)) {
                fetched.extend(stage.fetch(k, step, layout));
            }
        }
        fetched
    }

    /// Puts that to LDS.
    fn keep(&self, k: &mut Builder, step: Value, half: u32, fetched: &[Value]) {
        let (rows, mut weights) = fetched.split_at(self.copied.len());
        let own = self.own(k);
        let row = Self::copied(k, self.path, self.items, 0);
        let to = k.times(row, stride(self.path));
        let to = k.add(to, own);
        let round_rows = self.items / copiers(self.path);
        for (round, values) in (0u32..).zip(rows) {
            let ahead = self.room.rows[0] + round * round_rows * stride(self.path);
            k.store(at(k.lds(to), ahead), Width::Dwords(4), *values);
        }
        if self.path == MatrixPath::I8 {
            let (factors, rest) = weights.split_at(self.copied.len());
            weights = rest;
            let line = k.right(own, 4);
            let line = k.times(line, self.room.row_line);
            let row = self.by_half(k, row);
            let row = k.left(row, 2);
            let to = k.add(line, row);
            for (round, value) in (0u32..).zip(factors) {
                let ahead = self.room.rows[1] + 4 * round * round_rows;
                k.store(at(k.lds(to), ahead), Width::Dwords(1), *value);
            }
        }
        let layouts = self.layouts(k, half);
        for (stage, layout) in self.stages.iter().zip(self.layout_of(&layouts)) {
            if !self.early() {
                let own = stage.fetch(k, step, layout);
                stage.keep(k, step, layout, &own);
                continue;
            }
            let (own, rest) = weights.split_at(stage.values());
            stage.keep(k, step, layout, own);
            weights = rest;
        }
    }

    /// A row's place among factors: those of the rows that one half of a wave has stand together. Rows of a round are
    /// a multiple of 16.
    fn by_half(&self, k: &mut Builder, row: Value) -> Value {
        if self.gfx12 {
            return row;
        }
        let block = k.mask(row, !15);
        let odd = k.mask(row, 1);
        let odd = k.left(odd, 3);
        let number = k.right(row, 1);
        let number = k.mask(number, 7);
        let place = k.or(block, odd);
        k.or(place, number)
    }
}
