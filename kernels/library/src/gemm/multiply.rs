//! A wave's products of one tile of 128 columns: fragments from LDS, matrix instructions, factors of integer sums.

use crate::builder_ext::{BuilderExt, at, fragment};
use crate::gemm::activations_i8::BLOCK;
use crate::gemm::path::MatrixPath;
use crate::gemm::stage::{CHUNK, stride};
use crate::gemm::tile::{OutputBlock, TileProduct};
use crate::gemm::weights_i8::{grain, has_minimum};
use crate::gemv::activations::MAGIC;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Fragment, MatrixOp, Value, Width};

/// Where a lane's fragments and factors start in LDS.
struct FragmentOffsets {
    rows: Value,
    columns: Value,
    row_factors: Value,
    column_factors: Value,
}

/// What integer sums are multiplied by, for one column of a lane.
struct ColumnFactors {
    /// By sixteen columns of weights: the factor, and what undoes the start of the sums.
    factors: Vec<[Value; 2]>,
    minimum: Option<Value>,
}

impl TileProduct<'_> {
    /// Sums of nothing, as [`TileProduct::multiply`] carries them: fragments of f32, or floats.
    pub(crate) fn zeros(&self, k: &mut Builder) -> Vec<Value> {
        let count = self.blocks as usize * self.columns.len();
        match self.path {
            MatrixPath::F16 => (0..count).map(|_| k.zero_fragment(Fragment::FloatAcc)).collect(),
            MatrixPath::I8 => (0..8 * count).map(|_| k.float(0.0)).collect(),
        }
    }

    /// The floats of sums.
    pub(crate) fn apart(&self, k: &mut Builder, sums: &[Value]) -> Vec<Vec<Value>> {
        match self.path {
            MatrixPath::F16 => sums
                .iter()
                .map(|sum| (0..8).map(|register| k.accumulator(*sum, register)).collect())
                .collect(),
            MatrixPath::I8 => sums.chunks(8).map(<[Value]>::to_vec).collect(),
        }
    }

    /// Adds the products of a tile. Blocks without rows are left out, but for a wave's first.
    pub(crate) fn multiply(&self, k: &mut Builder, sums: &[Value]) -> Vec<Value> {
        let Some(used) = self.used.filter(|_| self.blocks > 1) else { return self.whole(k, sums) };
        let one = k.int(1);
        let more = k.gt_u(used, one);
        k.choose(
            more,
            |k| self.whole(k, sums),
            |k| {
                let (first, rest) = sums.split_at(sums.len() / self.blocks as usize);
                let mut sums = Self { blocks: 1, ..*self }.whole(k, first);
                sums.extend(rest);
                sums
            },
        )
    }

    fn whole(&self, k: &mut Builder, sums: &[Value]) -> Vec<Value> {
        match self.path {
            MatrixPath::F16 => self.halves(k, sums),
            MatrixPath::I8 => self.bytes(k, sums),
        }
    }

    /// `later`: bytes that the upper half of the wave starts later, on gfx12.
    fn places(&self, k: &mut Builder, later: u32) -> FragmentOffsets {
        let own = if self.gfx12 { k.left(self.half, later.trailing_zeros()) } else { k.int(0) };
        let [rows, columns] =
            [(self.row, self.room.rows[0]), (self.column, self.room.weights[0])].map(|(row, start)| {
                let row = k.times(row, stride(self.path));
                let row = k.add(row, own);
                k.plus(row, start)
            });
        let half = k.left(self.half, 3);
        let first = k.add(self.first_row, half);
        let first = k.left(first, 2);
        let row_factors = k.plus(first, self.room.rows[1]);
        let column_factors = k.left(self.column, 2);
        let column_factors = k.plus(column_factors, self.room.weights[1]);
        FragmentOffsets { rows, columns, row_factors, column_factors }
    }

    fn halves(&self, k: &mut Builder, sums: &[Value]) -> Vec<Value> {
        // gfx12 splits a fragment's columns over the halves of the wave; any split will do if both sides agree.
        let FragmentOffsets { rows, columns, .. } = self.places(k, 16);
        // Many accumulators leave fewer registers for fragments.
        let parts = if sums.len() > 4 { 1 } else { 2 };
        let stride = stride(self.path);
        let (start, end, step) = (k.int(0), k.int(2 * CHUNK), k.int(32 * parts));
        k.for_range([start, end, step], sums, |k, byte, sums| {
            let [rows, columns] = [rows, columns].map(|row| k.add(row, byte));
            let mut sums = sums.to_vec();
            for part in 0..parts {
                let left: Vec<Value> = (0..self.blocks)
                    .map(|block| fragment(k, rows, self.apart * block * stride + 32 * part, self.gfx12))
                    .collect();
                let right: Vec<Value> = self
                    .columns
                    .iter()
                    .map(|block| fragment(k, columns, block.first * stride + 32 * part, self.gfx12))
                    .collect();
                for (index, sum) in sums.iter_mut().enumerate() {
                    let (row, column) = (index / right.len(), index % right.len());
                    *sum = k.matrix(MatrixOp::Half, left[row], right[column], *sum);
                }
            }
            sums
        })
    }

    fn bytes(&self, k: &mut Builder, sums: &[Value]) -> Vec<Value> {
        let places = self.places(k, 8);
        let start = k.int(MAGIC.to_bits());
        // Integer sums on top of these bits are the bits of 1.5 * 2^23 + sum.
        let start = k.fragment(&[start; 8], Fragment::IntAcc);
        let (zero, end, step) = (k.int(0), k.int(CHUNK), k.int(BLOCK));
        k.for_range([zero, end, step], sums, |k, byte, sums| {
            let stride = stride(self.path);
            let [rows, columns] = [places.rows, places.columns].map(|row| k.add(row, byte));
            let number = k.right(byte, BLOCK.trailing_zeros());
            let pieces = |k: &mut Builder, from: Value, ahead: u32| {
                [0, 16].map(|piece| byte_fragment(k, from, ahead + piece, self.gfx12))
            };
            let left: Vec<[Value; 2]> =
                (0..self.blocks).map(|block| pieces(k, rows, self.apart * block * stride)).collect();
            let right: Vec<[Value; 2]> =
                self.columns.iter().map(|column| pieces(k, columns, column.first * stride)).collect();
            let column_factors: Vec<ColumnFactors> =
                self.columns.iter().map(|column| self.column_factors(k, &places, *column, number)).collect();
            let ahead = k.times(number, self.room.row_line);
            let from = k.add(places.row_factors, ahead);
            let minima = column_factors.iter().any(|column_factors| column_factors.minimum.is_some());
            let mut next = Vec::new();
            for block in 0..self.blocks {
                let ahead = 4 * self.apart * block;
                let factors = eight(k, from, ahead);
                let row_sums =
                    if minima { eight(k, from, ahead + 4 * self.room.row_line) } else { Vec::new() };
                for (right, column_factors) in right.iter().zip(&column_factors) {
                    let left = left[block as usize];
                    let values = weighed(k, start, left, *right, column_factors);
                    for (register, value) in values.into_iter().enumerate() {
                        let mut sum = k.fma(value, factors[register], sums[next.len()]);
                        if let Some(minimum) = column_factors.minimum {
                            sum = k.fma(minimum, row_sums[register], sum);
                        }
                        next.push(sum);
                    }
                }
            }
            next
        })
    }

    /// Factors of the lane's column for the 32 columns of number `number`.
    fn column_factors(
        &self,
        k: &mut Builder,
        places: &FragmentOffsets,
        column: OutputBlock,
        number: Value,
    ) -> ColumnFactors {
        let line = self.room.weight_line;
        let count = BLOCK / grain(column.ty);
        let ahead = k.times(number, count * line);
        let from = k.add(places.column_factors, ahead);
        let read = |k: &mut Builder, line_ahead: u32| {
            let address = at(k.lds(from), line_ahead * line + 4 * column.first);
            k.load(address, Width::Dwords(1), Elem::Float)
        };
        let factors = (0..count)
            .map(|index| {
                let factor = read(k, index);
                // Exact: no factor of a format has more than 18 bits.
                let start = k.scaled(factor, -MAGIC);
                [factor, start]
            })
            .collect();
        let minimum = has_minimum(column.ty).then(|| read(k, 4));
        ColumnFactors { factors, minimum }
    }
}

/// A lane's eight sums of 32 columns, by the factors of the column.
fn weighed(
    k: &mut Builder,
    start: Value,
    left: [Value; 2],
    right: [Value; 2],
    column_factors: &ColumnFactors,
) -> Vec<Value> {
    let op = MatrixOp::Byte { signed_a: true, signed_b: true };
    let [first, second] = [[left[0], right[0]], [left[1], right[1]]];
    let sums = match column_factors.factors.len() {
        1 => {
            let sum = k.matrix(op, first[0], first[1], start);
            alloc::vec![k.matrix(op, second[0], second[1], sum)]
        }
        _ => [first, second].iter().map(|pair| k.matrix(op, pair[0], pair[1], start)).collect(),
    };
    (0..8u8)
        .map(|register| {
            let mut parts = sums.iter().zip(&column_factors.factors).map(|(sum, [factor, start])| {
                let sum = k.accumulator(*sum, register);
                let sum = k.bits(sum, Elem::Float);
                k.fma(sum, *factor, *start)
            });
            let parts: Vec<Value> = parts.by_ref().collect();
            parts.iter().skip(1).fold(parts[0], |sum, part| k.fadd(sum, *part))
        })
        .collect()
}

/// Sixteen bytes of a row in LDS; on gfx12 the half's eight.
fn byte_fragment(k: &mut Builder, start: Value, constant: u32, gfx12: bool) -> Value {
    let width = Width::Dwords(if gfx12 { 2 } else { 4 });
    let bytes = k.load(at(k.lds(start), constant), width, Elem::Int);
    k.fragment(&[bytes], Fragment::Byte)
}

/// Eight floats in LDS.
fn eight(k: &mut Builder, start: Value, constant: u32) -> Vec<Value> {
    let mut values = Vec::new();
    for later in [0, 16] {
        let four = k.load(at(k.lds(start), constant + later), Width::Dwords(4), Elem::Float);
        values.extend(k.elements(four, 4));
    }
    values
}
