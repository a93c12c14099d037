//! Stores of the products of grouped rows: gate and up become hidden activations in sorted order, products of down are
//! weighted and go to their slots, both as f16.

use super::combine::SHARE;
use super::grouped_spec::{GroupedBuffers, GroupedGemm, TileJob};
use crate::builder_ext::BuilderExt;
use crate::gemm::activations_f16::ActivationsF16;
use crate::gemm::path::MatrixPath;
use crate::gemv::epilogue::weighted;
use crate::gemv::spec::PartArguments;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Expr, Value, Width, global};

/// The destination of a wave's results.
pub(crate) struct GroupedOutput<'s> {
    pub(crate) buffers: GroupedBuffers,
    pub(crate) job: &'s TileJob,
    pub(crate) part: &'s PartArguments,
    /// The lane's first row in the tile.
    pub(crate) row: Value,
    /// The lane's output.
    pub(crate) out: Value,
    /// Outputs from the first to the second sixteen of a wave.
    pub(crate) second: u32,
    /// Rows from one register to the next.
    pub(crate) row_distance: u32,
}

/// The row of a register of a lane.
struct RegisterRow {
    /// Its sorted slot.
    slot: Value,
    /// True if it is a row of the tile.
    real: Value,
}

impl GroupedGemm {
    pub(crate) fn write(&self, k: &mut Builder, output: &GroupedOutput<'_>, sums: &[Vec<Value>]) {
        for (block, sums) in (0u32..).zip(sums.chunks(2)) {
            // A block without rows has been left out.
            let first = k.eval(output.row + self.block_distance() * block);
            k.when(first.lt(output.job.count), |k| match self.up {
                Some(_) => self.write_hidden(k, output, first, sums),
                None => self.write_products(k, output, first, sums),
            });
        }
    }

    /// The rows of a block's registers.
    fn rows(k: &mut Builder, output: &GroupedOutput<'_>, first: Value) -> Vec<RegisterRow> {
        (0..8)
            .map(|register| {
                let row = k.eval(first + register * output.row_distance);
                let real = k.lt_u(row, output.job.count);
                RegisterRow { slot: k.add(output.job.first, row), real }
            })
            .collect()
    }

    fn write_hidden(&self, k: &mut Builder, output: &GroupedOutput<'_>, first: Value, sums: &[Vec<Value>]) {
        let (Some((_, glu)), Some(up)) = (self.up, &output.part.up) else { return };
        let (inside, out) = self.inside(k, output.out);
        let rows = Self::rows(k, output, first);
        for (register, row) in rows.into_iter().enumerate() {
            let gated = weighted(k, sums[0][register], &output.part.matrix, out);
            let linear = weighted(k, sums[1][register], up, out);
            let value = glu.apply(k, gated, linear);
            k.when(row.real & inside, |k| {
                if self.path == MatrixPath::I8 {
                    k.write(output.part.out, (row.slot * self.matrix.rows + output.out) << 2, value);
                } else {
                    let start = row.slot * ActivationsF16::row_bytes(self.matrix.rows);
                    put(k, output.part.out, start, output.out, value);
                }
            });
        }
    }

    fn write_products(&self, k: &mut Builder, output: &GroupedOutput<'_>, first: Value, sums: &[Vec<Value>]) {
        let Some(weights) = output.buffers.weights else { return };
        let rows = Self::rows(k, output, first);
        // All loads before any of their uses. Beyond the last row the first is read.
        let slots: Vec<Value> = rows
            .iter()
            .map(|row| {
                let slot = row.real.select(row.slot, output.job.first);
                k.read_int(output.buffers.map, slot << 2)
            })
            .collect();
        let shares: Vec<Value> = slots.iter().map(|slot| k.read(weights, *slot << 2)).collect();
        let bytes = ActivationsF16::row_bytes(self.matrix.rows);
        let starts: Vec<Value> = slots.iter().map(|slot| k.eval(*slot * bytes)).collect();
        for (column, sums) in (0u32..).zip(sums) {
            let out = k.eval(output.out + output.second * column);
            let (inside, known) = self.inside(k, out);
            for (register, row) in rows.iter().enumerate() {
                let product = weighted(k, sums[register], &output.part.matrix, known);
                let value = k.eval(product * (shares[register] * (1.0 / SHARE)));
                k.when(row.real & inside, |k| put(k, output.part.out, starts[register], out, value));
            }
        }
    }

    /// True if there is output `out`, and an output that there is.
    fn inside(&self, k: &mut Builder, out: Value) -> (Value, Value) {
        let (limit, last) = (k.int(self.matrix.rows), k.int(self.matrix.rows - 1));
        (k.lt_u(out, limit), k.min_u(out, last))
    }
}

/// Writes an f16 to element `out` of the row that starts at byte `start`.
fn put(k: &mut Builder, to: Value, start: impl Into<Expr>, out: Value, value: Value) {
    let start = k.eval(start);
    let half = k.cvt_h_f(value);
    k.store(global(to, start + (out << 1)), Width::U16, half);
}
