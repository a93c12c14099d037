//! A wave's products of one tile of 128 columns: fragments from LDS, matrix instructions, factors of integer sums.

use super::activations_i8::BLOCK;
use super::path::MatrixPath;
use super::stage::{CHUNK, stride};
use super::tile::{OutputBlock, TileProduct, WaveRows};
use crate::builder_ext::{BuilderExt, fragment};
use crate::formats::spec::FormatSpec;
use crate::gemv::activations::MAGIC;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Fragment, MatrixOp, Value, Width, lds};

/// LDS bytes of a lane's fragments and factors.
struct FragmentOffsets {
    rows: Value,
    columns: Value,
    row_factors: Value,
    column_factors: Value,
}

/// A scale of integer sums.
#[derive(Clone, Copy)]
struct SumScale {
    factor: Value,
    /// Undoes the start of the sums.
    start: Value,
}

/// The factors of integer sums, for one column of a lane.
struct ColumnFactors {
    /// By sixteen columns of weights.
    scales: Vec<SumScale>,
    minimum: Option<Value>,
}

impl TileProduct<'_> {
    /// Sums of nothing, as [`TileProduct::multiply`] carries them: fragments of f32, or floats.
    pub(crate) fn zeros(&self, k: &mut Builder) -> Vec<Value> {
        let count = self.rows.blocks as usize * self.columns.len();
        match self.path {
            MatrixPath::F16 => (0..count).map(|_| k.zero_fragment(Fragment::FloatAcc)).collect(),
            MatrixPath::I8 => (0..8 * count).map(|_| k.float(0.0)).collect(),
        }
    }

    /// The floats of sums.
    pub(crate) fn split(&self, k: &mut Builder, sums: &[Value]) -> Vec<Vec<Value>> {
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
        let Some(used) = self.used.filter(|_| self.rows.blocks > 1) else { return self.whole(k, sums) };
        k.choose(
            used.gt(1),
            |k| self.whole(k, sums),
            |k| {
                let (first, rest) = sums.split_at(sums.len() / self.rows.blocks as usize);
                let mut sums = Self { rows: WaveRows { blocks: 1, ..self.rows }, ..*self }.whole(k, first);
                sums.extend(rest);
                sums
            },
        )
    }

    fn whole(&self, k: &mut Builder, sums: &[Value]) -> Vec<Value> {
        match self.path {
            MatrixPath::F16 => self.multiply_f16(k, sums),
            MatrixPath::I8 => self.multiply_i8(k, sums),
        }
    }

    /// `later`: bytes that the upper half of the wave starts later, on gfx12.
    fn offsets(&self, k: &mut Builder, later: u32) -> FragmentOffsets {
        let WaveRows { row, first_row, .. } = self.rows;
        let own = if self.gfx12 { k.eval(self.half * later) } else { k.int(0) };
        let [rows, columns] = [(row, self.lds.rows), (self.column, self.lds.weights)]
            .map(|(row, start)| k.eval(row * stride(self.path) + own + start));
        let row_factors = k.eval(((first_row + (self.half << 3)) << 2) + self.lds.row_factors);
        let column_factors = k.eval((self.column << 2) + self.lds.weight_factors);
        FragmentOffsets { rows, columns, row_factors, column_factors }
    }

    fn multiply_f16(&self, k: &mut Builder, sums: &[Value]) -> Vec<Value> {
        // gfx12 splits a fragment's columns over the halves of the wave; any split will do if both sides agree.
        let FragmentOffsets { rows, columns, .. } = self.offsets(k, 16);
        // Many accumulators leave fewer registers for fragments.
        let parts = if sums.len() > 4 { 1 } else { 2 };
        let stride = stride(self.path);
        let range = k.range(0, 2 * CHUNK, 32 * parts);
        k.for_range(range, sums, |k, byte, sums| {
            let [rows, columns] = [rows, columns].map(|row| k.add(row, byte));
            let mut sums = sums.to_vec();
            for part in 0..parts {
                let left: Vec<Value> = (0..self.rows.blocks)
                    .map(|block| {
                        fragment(k, rows, self.rows.distance * block * stride + 32 * part, self.gfx12)
                    })
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

    fn multiply_i8(&self, k: &mut Builder, sums: &[Value]) -> Vec<Value> {
        let offsets = self.offsets(k, 8);
        let start_bits = k.int(MAGIC.to_bits());
        // Integer sums on top of these bits are the bits of 1.5 * 2^23 + sum.
        let start = k.fragment(&[start_bits; 8], Fragment::IntAcc);
        let range = k.range(0, CHUNK, BLOCK);
        k.for_range(range, sums, |k, byte, sums| {
            let stride = stride(self.path);
            let [rows, columns] = [offsets.rows, offsets.columns].map(|row| k.add(row, byte));
            let number = k.eval(byte / BLOCK);
            let pieces = |k: &mut Builder, from: Value, ahead: u32| {
                [0, 16].map(|piece| byte_fragment(k, from, ahead + piece, self.gfx12))
            };
            let left: Vec<[Value; 2]> = (0..self.rows.blocks)
                .map(|block| pieces(k, rows, self.rows.distance * block * stride))
                .collect();
            let right: Vec<[Value; 2]> =
                self.columns.iter().map(|column| pieces(k, columns, column.first * stride)).collect();
            let factors: Vec<ColumnFactors> =
                self.columns.iter().map(|column| self.column_factors(k, &offsets, *column, number)).collect();
            let from = k.eval(offsets.row_factors + number * self.lds.row_line);
            self.scaled_sums(k, &left, &right, &factors, from, start, sums)
        })
    }

    /// Products of 32 columns, scaled and added to `sums`; factors of rows start at `from`.
    #[expect(clippy::too_many_arguments, reason = "the operands of all blocks of a wave")]
    fn scaled_sums(
        &self,
        k: &mut Builder,
        left: &[[Value; 2]],
        right: &[[Value; 2]],
        factors: &[ColumnFactors],
        from: Value,
        start: Value,
        sums: &[Value],
    ) -> Vec<Value> {
        let minima = factors.iter().any(|column| column.minimum.is_some());
        let mut next = Vec::new();
        for block in 0..self.rows.blocks {
            let ahead = 4 * self.rows.distance * block;
            let row_factors = eight(k, from, ahead);
            let row_sums = if minima { eight(k, from, ahead + 4 * self.lds.row_line) } else { Vec::new() };
            for (right, column) in right.iter().zip(factors) {
                let values = scaled(k, start, left[block as usize], *right, column);
                for (register, value) in values.into_iter().enumerate() {
                    let mut sum = k.fma(value, row_factors[register], sums[next.len()]);
                    if let Some(minimum) = column.minimum {
                        sum = k.fma(minimum, row_sums[register], sum);
                    }
                    next.push(sum);
                }
            }
        }
        next
    }

    /// Factors of the lane's column for the 32 columns of number `number`.
    fn column_factors(
        &self,
        k: &mut Builder,
        offsets: &FragmentOffsets,
        column: OutputBlock,
        number: Value,
    ) -> ColumnFactors {
        let spec = FormatSpec::of(column.ty);
        let line = self.lds.weight_line;
        let count = BLOCK / spec.scale_group;
        let from = k.eval(offsets.column_factors + number * (count * line));
        let read = |k: &mut Builder, line_ahead: u32| {
            let ahead = line_ahead * line + 4 * column.first;
            k.load(lds(from).plus(ahead), Width::Dwords(1), Elem::Float)
        };
        let scales = (0..count)
            .map(|index| {
                let factor = read(k, index);
                // Exact: no factor of a format has more than 18 bits.
                SumScale { factor, start: k.eval(factor * -MAGIC) }
            })
            .collect();
        let minimum = spec.has_minimum.then(|| read(k, 4));
        ColumnFactors { scales, minimum }
    }
}

/// A lane's eight sums of 32 columns, by the factors of the column.
fn scaled(
    k: &mut Builder,
    start: Value,
    left: [Value; 2],
    right: [Value; 2],
    column: &ColumnFactors,
) -> Vec<Value> {
    let op = MatrixOp::Byte { signed_a: true, signed_b: true };
    let [first, second] = [[left[0], right[0]], [left[1], right[1]]];
    let sums = match column.scales.len() {
        1 => {
            let sum = k.matrix(op, first[0], first[1], start);
            alloc::vec![k.matrix(op, second[0], second[1], sum)]
        }
        _ => [first, second].iter().map(|pair| k.matrix(op, pair[0], pair[1], start)).collect(),
    };
    (0..8u8)
        .map(|register| {
            let parts = sums.iter().zip(&column.scales).map(|(sum, scale)| {
                let bits = k.accumulator(*sum, register);
                k.eval(bits.as_float().mul_add(scale.factor, scale.start))
            });
            let parts: Vec<Value> = parts.collect();
            parts.iter().skip(1).fold(parts[0], |sum, part| k.fadd(sum, *part))
        })
        .collect()
}

/// Sixteen bytes of a row in LDS; on gfx12 the half's eight.
fn byte_fragment(k: &mut Builder, start: Value, constant: u32, gfx12: bool) -> Value {
    let width = Width::Dwords(if gfx12 { 2 } else { 4 });
    let bytes = k.load(lds(start).plus(constant), width, Elem::Int);
    k.fragment(&[bytes], Fragment::Byte)
}

/// Eight floats in LDS.
fn eight(k: &mut Builder, start: Value, constant: u32) -> Vec<Value> {
    let mut values = Vec::new();
    for later in [0, 16] {
        let four = k.load(lds(start).plus(constant + later), Width::Dwords(4), Elem::Float);
        values.extend(k.elements(four, 4));
    }
    values
}
