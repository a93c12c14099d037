//! The inner loop of matrix kernels: activations and weights into LDS, fragments, WMMA.

use super::stage::{CHUNK, Layout, STEP, STRIDE, Stage};
use crate::idiom::{Idiom, at, fragment};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Fragment, MatrixOp, Value, Width};

/// One workgroup's product, and a wave's part of it.
pub(crate) struct Product<'p> {
    /// Columns.
    pub(crate) cols: u32,
    /// Work items.
    pub(crate) items: u32,
    /// Weights.
    pub(crate) stages: &'p [Stage],
    /// f16 activations, their columns padded to whole [`STEP`]s.
    pub(crate) x: Value,
    /// Byte offsets of the rows that the work item copies, see [`Product::copied`].
    pub(crate) copied: &'p [Value],
    /// LDS of activations, and of weights.
    pub(crate) local: [u32; 2],
    /// Row of the tile that the lane takes of the wave's first block of sixteen.
    pub(crate) row: Value,
    /// Blocks of rows of the wave.
    pub(crate) blocks: u32,
    /// Output of the tile that the lane takes, less those of `columns`.
    pub(crate) column: Value,
    /// Per block of sixteen outputs its first in the tile.
    pub(crate) columns: &'p [u32],
    /// Lane divided by 16.
    pub(crate) half: Value,
    pub(crate) gfx12: bool,
}

/// Registers of activations, weights and accumulators that leave enough for fragments.
const MOST: usize = 116;
/// Work items that copy one row of a chunk, 16 bytes each.
const COPIERS: u32 = CHUNK / 8;

impl Product<'_> {
    /// The row of the tile that a work item copies in round `round`, and the rounds.
    pub(crate) fn copied(k: &mut Builder, items: u32, round: u32) -> Value {
        let item = k.workitem_id();
        let row = k.right(item, COPIERS.trailing_zeros());
        k.plus(row, round * items / COPIERS)
    }

    /// Rounds that copy `rows` rows.
    pub(crate) fn rounds(items: u32, rows: u32) -> u32 {
        rows.div_ceil(items / COPIERS)
    }

    /// Accumulators `[row block][output block]`. Sums run over columns in order.
    pub(crate) fn sums(&self, k: &mut Builder) -> Vec<Value> {
        let steps = self.cols.div_ceil(STEP);
        let count = self.blocks as usize * self.columns.len();
        let mut carried = vec![k.zero_fragment(Fragment::FloatAcc); count];
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
        sums
    }

    /// Whether weights are loaded while the tile before is multiplied: where registers suffice. Accumulators are there
    /// twice, at the edges of loops.
    fn early(&self) -> bool {
        let weights: usize = self.stages.iter().map(Stage::registers).sum();
        let accumulators = 16 * self.blocks as usize * self.columns.len();
        4 * self.copied.len() + weights + accumulators <= MOST
    }

    /// One for each type of weights.
    fn layouts(&self, k: &mut Builder, half: u32) -> Vec<Layout> {
        let mut layouts: Vec<Layout> = Vec::new();
        for stage in self.stages {
            if layouts.iter().all(|layout| layout.kind != stage.kind()) {
                layouts.push(Layout::new(k, stage.kind(), half));
            }
        }
        layouts
    }

    /// Each stage's.
    fn layout_of<'l>(&self, layouts: &'l [Layout]) -> Vec<&'l Layout> {
        let of = |stage: &Stage| layouts.iter().find(|layout| layout.kind == stage.kind());
        self.stages.iter().filter_map(of).collect()
    }

    /// Loads what the work item brings to a tile.
    fn fetch(&self, k: &mut Builder, step: Value, half: u32) -> Vec<Value> {
        let item = k.workitem_id();
        let own = k.mask(item, COPIERS - 1);
        let own = k.left(own, 4);
        let ahead = k.times(step, 2 * STEP);
        let from = k.add(own, ahead);
        let mut fetched: Vec<Value> = self
            .copied
            .iter()
            .map(|row| {
                let from = k.add(*row, from);
                let address = at(k.global(self.x, from), 2 * CHUNK * half);
                k.load(address, Width::Dwords(4), Elem::Int)
            })
            .collect();
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
        let (rows, weights) = fetched.split_at(self.copied.len());
        let item = k.workitem_id();
        let own = k.mask(item, COPIERS - 1);
        let own = k.left(own, 4);
        let row = k.right(item, COPIERS.trailing_zeros());
        let row = k.times(row, STRIDE);
        let to = k.add(row, own);
        for (round, values) in (0u32..).zip(rows) {
            let ahead = self.local[0] + round * self.items / COPIERS * STRIDE;
            k.store(at(k.lds(to), ahead), Width::Dwords(4), *values);
        }
        let mut weights = weights;
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

    /// Adds the products of a tile.
    fn multiply(&self, k: &mut Builder, sums: &[Value]) -> Vec<Value> {
        // gfx12 splits a fragment's columns over the halves of the wave; any split will do if both sides agree.
        let later = if self.gfx12 { k.left(self.half, 4) } else { k.int(0) };
        let [rows, columns] = [(self.row, 0), (self.column, 1)].map(|(row, which)| {
            let row = k.times(row, STRIDE);
            let row = k.add(row, later);
            k.plus(row, self.local[which])
        });
        // Many accumulators leave fewer registers for fragments.
        let parts = if sums.len() > 4 { 1 } else { 2 };
        let (start, end, step) = (k.int(0), k.int(2 * CHUNK), k.int(32 * parts));
        k.for_range([start, end, step], sums, |k, byte, sums| {
            let [rows, columns] = [rows, columns].map(|row| k.add(row, byte));
            let mut sums = sums.to_vec();
            for part in 0..parts {
                let left: Vec<Value> = (0..self.blocks)
                    .map(|block| fragment(k, rows, 16 * block * STRIDE + 32 * part, self.gfx12))
                    .collect();
                let right: Vec<Value> = self
                    .columns
                    .iter()
                    .map(|block| fragment(k, columns, block * STRIDE + 32 * part, self.gfx12))
                    .collect();
                for (index, sum) in sums.iter_mut().enumerate() {
                    let (row, column) = (index / right.len(), index % right.len());
                    *sum = k.matrix(MatrixOp::Half, left[row], right[column], *sum);
                }
            }
            sums
        })
    }
}
