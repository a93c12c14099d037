//! The inner loop of matrix kernels: weights into LDS, fragments, WMMA.

use super::stage::{STEP, STRIDE, Stage};
use crate::idiom::{Idiom, at};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Fragment, MatrixOp, Value, Width};
use doorbell_compiler::isa::{Generation, Target};

/// One wave's part of a product.
pub(crate) struct Product<'p> {
    /// Columns.
    pub(crate) cols: u32,
    /// f16 activations, their columns padded to whole [`STEP`]s.
    pub(crate) x: Value,
    /// Per block of 16 rows the row of the lane modulo 16.
    pub(crate) rows: &'p [Value],
    /// Lane divided by 16.
    pub(crate) half: Value,
    /// Row of the tile in LDS that the lane modulo 16 takes, less those of `columns`.
    pub(crate) column: Value,
    /// Per block of 16 outputs its first row of the tile.
    pub(crate) columns: &'p [u32],
}

impl Product<'_> {
    /// Accumulators `[row block][output block]`. Sums run over columns in order. The workgroup's stages fill the tile
    /// at byte `lds`.
    pub(crate) fn sums(&self, k: &mut Builder, stages: &[Stage], lds: u32, target: Target) -> Vec<Value> {
        let padded = self.cols.next_multiple_of(STEP);
        // gfx12 splits a fragment's columns over the halves of the wave; any split will do if both sides agree.
        let gfx12 = target.generation() == Generation::Gfx12;
        let later = if gfx12 { k.left(self.half, 4) } else { k.int(0) };
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let row = k.times(*row, 2 * padded);
                k.add(row, later)
            })
            .collect();
        let column = k.times(self.column, STRIDE);
        let column = k.add(column, later);
        let column = k.plus(column, lds);
        let initial = vec![k.zero_fragment(Fragment::FloatAcc); rows.len() * self.columns.len()];
        let (start, end, step) = (k.int(0), k.int(padded / STEP), k.int(1));
        k.for_range([start, end, step], &initial, |k, number, sums| {
            stages.iter().for_each(|stage| stage.fill(k, number));
            k.barrier(false);
            let ahead = k.left(number, (2 * STEP).trailing_zeros());
            let (start, end, step) = (k.int(0), k.int(2 * STEP), k.int(128));
            let sums = k.for_range([start, end, step], sums, |k, byte, sums| {
                let to = k.add(column, byte);
                let from = k.add(ahead, byte);
                let rows: Vec<Value> = rows.iter().map(|row| k.add(*row, from)).collect();
                let mut sums = sums.to_vec();
                for quarter in 0..4 {
                    self.multiply(k, gfx12, [&rows, &[to]], 32 * quarter, &mut sums);
                }
                sums
            });
            k.barrier(false);
            sums
        })
    }

    /// Adds the products of 16 columns.
    fn multiply(
        &self,
        k: &mut Builder,
        gfx12: bool,
        [rows, to]: [&[Value]; 2],
        constant: u32,
        sums: &mut [Value],
    ) {
        let fragments = |k: &mut Builder, load: &mut dyn FnMut(&mut Builder, u32) -> Value| {
            let pieces: &[u32] = if gfx12 { &[0] } else { &[0, 16] };
            let parts: Vec<Value> = pieces.iter().map(|piece| load(k, constant + piece)).collect();
            k.fragment(&parts, Fragment::Half)
        };
        let left: Vec<Value> = rows
            .iter()
            .map(|row| {
                fragments(k, &mut |k, constant| {
                    k.load(at(k.global(self.x, *row), constant), Width::Dwords(4), Elem::Int)
                })
            })
            .collect();
        let right: Vec<Value> = self
            .columns
            .iter()
            .map(|block| {
                fragments(k, &mut |k, constant| {
                    let address = at(k.lds(to[0]), block * STRIDE + constant);
                    k.load(address, Width::Dwords(4), Elem::Int)
                })
            })
            .collect();
        for (index, sum) in sums.iter_mut().enumerate() {
            let (row, column) = (index / right.len(), index % right.len());
            *sum = k.matrix(MatrixOp::Half, left[row], right[column], *sum);
        }
    }
}
