//! What becomes of products of grouped rows: gate and up become hidden activations in the order of slots, products of
//! down are weighted and go to their slots, both as f16.

use crate::builder_ext::BuilderExt;
use crate::gemm::activations_f16::ActivationsF16;
use crate::gemm::path::MatrixPath;
use crate::gemv::epilogue::weighted;
use crate::gemv::spec::PartArguments;
use crate::moe::combine::SHARE;
use crate::moe::grouped_spec::{GroupedBuffers, GroupedGemm, TileJob};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width};

/// Where a wave's results go.
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
    pub(crate) rows_apart: u32,
}

impl GroupedGemm {
    pub(crate) fn write(&self, k: &mut Builder, output: &GroupedOutput<'_>, sums: &[Vec<Value>]) {
        for (block, sums) in (0u32..).zip(sums.chunks(2)) {
            // A block of none has been left out.
            let first = k.plus(output.row, self.apart() * block);
            let some = k.lt_u(first, output.job.count);
            k.when(some, |k| match self.up {
                Some(_) => self.write_hidden(k, output, first, sums),
                None => self.write_products(k, output, first, sums),
            });
        }
    }

    /// The rows of a block's registers, and whether they are rows of the tile.
    fn rows(&self, k: &mut Builder, output: &GroupedOutput<'_>, first: Value) -> Vec<(Value, Value)> {
        (0..8)
            .map(|register| {
                let row = k.plus(first, register * output.rows_apart);
                let here = k.lt_u(row, output.job.count);
                (k.add(output.job.first, row), here)
            })
            .collect()
    }

    fn write_hidden(&self, k: &mut Builder, output: &GroupedOutput<'_>, first: Value, sums: &[Vec<Value>]) {
        let (Some((_, glu)), Some(up)) = (self.up, &output.part.up) else { return };
        let (inside, out) = self.inside(k, output.out);
        let rows = self.rows(k, output, first);
        for (register, (slot, here)) in rows.into_iter().enumerate() {
            let gate = weighted(k, sums[0][register], &output.part.matrix, out);
            let up = weighted(k, sums[1][register], up, out);
            let value = glu.apply(k, gate, up);
            let here = k.both(here, inside);
            k.when(here, |k| {
                if self.path == MatrixPath::I8 {
                    let place = k.times(slot, self.matrix.rows);
                    let place = k.add(place, output.out);
                    let place = k.left(place, 2);
                    k.write(output.part.out, place, value);
                } else {
                    let row = k.times(slot, ActivationsF16::row_bytes(self.matrix.rows));
                    put(k, output.part.out, [row, output.out], value);
                }
            });
        }
    }

    fn write_products(&self, k: &mut Builder, output: &GroupedOutput<'_>, first: Value, sums: &[Vec<Value>]) {
        let Some(weights) = output.buffers.weights else { return };
        let rows = self.rows(k, output, first);
        // All loads before any of their uses. Beyond the last row the first is read.
        let slots: Vec<Value> = rows
            .iter()
            .map(|(slot, here)| {
                let slot = k.select(*here, *slot, output.job.first);
                let place = k.left(slot, 2);
                k.load(k.global(output.buffers.map, place), Width::Dwords(1), Elem::Int)
            })
            .collect();
        let shares: Vec<Value> = slots
            .iter()
            .map(|slot| {
                let place = k.left(*slot, 2);
                k.read(weights, place)
            })
            .collect();
        let bytes = ActivationsF16::row_bytes(self.matrix.rows);
        let places: Vec<Value> = slots.iter().map(|slot| k.times(*slot, bytes)).collect();
        for (column, sums) in (0u32..).zip(sums) {
            let out = k.plus(output.out, output.second * column);
            let (inside, known) = self.inside(k, out);
            for (register, (_, here)) in rows.iter().enumerate() {
                let value = weighted(k, sums[register], &output.part.matrix, known);
                let share = k.scaled(shares[register], 1.0 / SHARE);
                let value = k.fmul(value, share);
                let here = k.both(*here, inside);
                k.when(here, |k| put(k, output.part.out, [places[register], out], value));
            }
        }
    }

    /// Whether there is such an output, and one that there is.
    fn inside(&self, k: &mut Builder, out: Value) -> (Value, Value) {
        let (limit, last) = (k.int(self.matrix.rows), k.int(self.matrix.rows - 1));
        (k.lt_u(out, limit), k.min_u(out, last))
    }
}

/// Writes an f16: `[row, out]` are the byte at which its row starts and its place there.
fn put(k: &mut Builder, to: Value, [row, out]: [Value; 2], value: Value) {
    let value = k.cvt_h_f(value);
    let column = k.left(out, 1);
    let place = k.add(row, column);
    k.store(k.global(to, place), Width::U16, value);
}
