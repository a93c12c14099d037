//! The loop of matrix kernels over columns: activations and weights into LDS, then a wave's blocks of results.
//!
//! Not here: the matrix instructions of a tile (`multiply`).

use super::activations_f16::ActivationsF16;
use super::activations_i8::{ActivationsI8, LINE};
use super::path::MatrixPath;
use super::stage::{CHUNK, STEP, StageLayout, WeightLds, WeightStage, stride};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width, global, lds};
use doorbell_core::quant::Type;

/// LDS of a workgroup: bytes at which tiles start.
#[derive(Clone, Copy)]
pub(crate) struct TileLds {
    /// Activations.
    pub(crate) rows: u32,
    /// Factors and sums of activations.
    pub(crate) row_factors: u32,
    /// Bytes from line to line of those.
    pub(crate) row_line: u32,
    /// Weights.
    pub(crate) weights: u32,
    /// Factors and minima of weights.
    pub(crate) weight_factors: u32,
    /// Bytes from line to line of those.
    pub(crate) weight_line: u32,
}

impl TileLds {
    /// Reserves LDS for rows of activations and rows of weights.
    pub(crate) fn new(k: &mut Builder, path: MatrixPath, rows: u32, weights: u32) -> Self {
        let [row_line, weight_line] = [4 * rows + 16, 4 * weights + 32];
        let mut take = |count: u32, line: u32| {
            let codes = k.local(count * stride(path));
            (codes, if path == MatrixPath::I8 { k.local(8 * line) } else { 0 })
        };
        let (rows, row_factors) = take(rows, row_line);
        let (weights, weight_factors) = take(weights, weight_line);
        Self { rows, row_factors, row_line, weights, weight_factors, weight_line }
    }

    /// Of weights from row `first` on.
    pub(crate) fn weight_rows(self, path: MatrixPath, first: u32) -> WeightLds {
        WeightLds {
            weights: self.weights + first * stride(path),
            factors: self.weight_factors + 4 * first,
            line: self.weight_line,
        }
    }
}

/// Sixteen outputs of a wave.
#[derive(Clone, Copy)]
pub(crate) struct OutputBlock {
    /// First row of weights in LDS.
    pub(crate) first: u32,
    pub(crate) ty: Type,
}

/// The rows of a wave, in blocks of sixteen.
#[derive(Clone, Copy)]
pub(crate) struct WaveRows {
    /// Row of the tile that the lane takes of the first block.
    pub(crate) row: Value,
    /// First row of that block.
    pub(crate) first_row: Value,
    /// Blocks.
    pub(crate) blocks: u32,
    /// Rows from one block to the next.
    pub(crate) distance: u32,
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
    /// Byte offsets of the rows that the work item copies, see [`TileProduct::copied_row`].
    pub(crate) copied: &'p [Value],
    pub(crate) lds: TileLds,
    pub(crate) rows: WaveRows,
    /// Number of those blocks that have rows, uniform; `None` if all have.
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

/// Blocks of sixteen rows, `distance` rows from one to the next, below row `count` if the first starts at `first`.
pub(crate) fn used_blocks(k: &mut Builder, count: Value, first: Value, distance: u32) -> Value {
    k.eval(((count + (distance - 1)).max(first) - first) / distance)
}

impl TileProduct<'_> {
    /// The row of the tile that a work item copies in round `round`.
    pub(crate) fn copied_row(k: &mut Builder, path: MatrixPath, items: u32, round: u32) -> Value {
        let item = k.workitem_id();
        k.eval(item / copiers(path) + round * items / copiers(path))
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
        let range = k.range(0, steps, 1);
        carried.extend(self.fetch(k, range[0], 0));
        let mut sums = k.for_range(range, &carried, |k, step, carried| {
            let (sums, fetched) = carried.split_at(count);
            self.keep(k, step, 0, fetched);
            k.barrier(false);
            let second_half = self.fetch(k, step, 1);
            let sums = self.multiply(k, sums);
            k.barrier(false);
            self.keep(k, step, 1, &second_half);
            k.barrier(false);
            let last = k.int(steps - 1);
            let following = k.eval((step + 1).min(last));
            let next_step = self.fetch(k, following, 0);
            let mut next = self.multiply(k, &sums);
            k.barrier(false);
            next.extend(next_step);
            next
        });
        sums.truncate(count);
        self.split(k, &sums)
    }

    /// True if weights are loaded while the tile before is multiplied: where registers suffice. Accumulators are there
    /// twice, at the edges of loops.
    fn loads_early(&self) -> bool {
        let weights: usize = self.stages.iter().map(|stage| stage.spec().registers).sum();
        let accumulators = 16 * self.rows.blocks as usize * self.columns.len();
        let row = if self.path == MatrixPath::F16 { 4 } else { 5 };
        row * self.copied.len() + weights + accumulators <= MOST
    }

    /// One for each type of weights.
    fn layouts(&self, k: &mut Builder, half: u32) -> Vec<StageLayout> {
        let mut layouts: Vec<StageLayout> = Vec::new();
        for stage in self.stages {
            if layouts.iter().all(|layout| layout.ty != stage.ty) {
                layouts.push(StageLayout::new(k, stage.ty, half));
            }
        }
        layouts
    }

    /// Each stage with its layout.
    fn staged<'l>(
        &'l self,
        layouts: &'l [StageLayout],
    ) -> impl Iterator<Item = (&'l WeightStage, &'l StageLayout)> {
        let of = |stage: &WeightStage| layouts.iter().find(|layout| layout.ty == stage.ty);
        self.stages.iter().filter_map(move |stage| Some((stage, of(stage)?)))
    }

    /// The work item's offset in a row, in bytes.
    fn own(&self, k: &mut Builder) -> Value {
        let item = k.workitem_id();
        k.eval((item & (copiers(self.path) - 1)) << 4)
    }

    /// Loads the work item's part of a tile.
    fn fetch(&self, k: &mut Builder, step: Value, half: u32) -> Vec<Value> {
        let own = self.own(k);
        let width = if self.path == MatrixPath::F16 { 2 * CHUNK } else { LINE };
        let ahead = k.eval(step * (2 * width));
        let mut from = k.add(own, ahead);
        let mut later = half * width;
        if self.path == MatrixPath::F16 && !self.cols.is_multiple_of(STEP) {
            // Beyond the last column weights are zero, but activations have to be numbers.
            from = k.eval((from + later).min(2 * self.cols - 16));
            later = 0;
        }
        let mut fetched = Vec::new();
        for row in self.copied {
            let codes = global(self.x, *row + from).plus(later);
            fetched.push(k.load(codes, Width::Dwords(4), Elem::Int));
        }
        if self.path == MatrixPath::I8 {
            // Each of the eight work items of a row brings a factor or a sum.
            let from = k.eval((own >> 2) + ahead);
            for row in self.copied {
                let factor = global(self.x, *row + from).plus(later + CHUNK);
                fetched.push(k.load(factor, Width::Dwords(1), Elem::Float));
            }
        }
        if self.loads_early() {
            let layouts = self.layouts(k, half);
            for (stage, layout) in self.staged(&layouts) {
                fetched.extend(stage.fetch(k, step, layout));
            }
        }
        fetched
    }

    /// Stores the loads of [`Self::fetch`] to LDS.
    fn keep(&self, k: &mut Builder, step: Value, half: u32, fetched: &[Value]) {
        let (rows, mut weights) = fetched.split_at(self.copied.len());
        let own = self.own(k);
        let row = Self::copied_row(k, self.path, self.items, 0);
        let target = k.eval(row * stride(self.path) + own);
        let round_rows = self.items / copiers(self.path);
        for (round, values) in (0u32..).zip(rows) {
            let ahead = self.lds.rows + round * round_rows * stride(self.path);
            k.store(lds(target).plus(ahead), Width::Dwords(4), *values);
        }
        if self.path == MatrixPath::I8 {
            let (factors, rest) = weights.split_at(self.copied.len());
            weights = rest;
            let line = k.eval((own >> 4) * self.lds.row_line);
            let row = self.by_half(k, row);
            let target = k.eval(line + (row << 2));
            for (round, value) in (0u32..).zip(factors) {
                let ahead = self.lds.row_factors + 4 * round * round_rows;
                k.store(lds(target).plus(ahead), Width::Dwords(1), *value);
            }
        }
        let layouts = self.layouts(k, half);
        for (stage, layout) in self.staged(&layouts) {
            if !self.loads_early() {
                let own = stage.fetch(k, step, layout);
                stage.keep(k, step, layout, &own);
                continue;
            }
            let (own, rest) = weights.split_at(stage.spec().loads);
            stage.keep(k, step, layout, own);
            weights = rest;
        }
    }

    /// A row's index among factors: those of the rows that one half of a wave has stand together. Rows of a round are
    /// a multiple of 16.
    fn by_half(&self, k: &mut Builder, row: Value) -> Value {
        if self.gfx12 {
            return row;
        }
        let block = k.eval(row & !15);
        let odd = k.eval((row & 1) << 3);
        let number = k.eval((row >> 1) & 7);
        k.eval(block | odd | number)
    }
}
