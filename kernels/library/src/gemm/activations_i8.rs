//! Activations for integer WMMA: rows normalized where asked, in codes of eight bits with a factor for every 32.
//!
//! `x = d * code` as in `Activation::Q8_0` of core, but for `d`, which stays f32. The sum of 32 stands beside its factor,
//! for weights with minima. Not here: f16 (`activations_f16`).

use super::activations_f16::{InputRow, RowNorm};
use super::stage::{CHUNK, STEP};
use crate::builder_ext::BuilderExt;
use crate::gemv::activations::{MAGIC, bytes, largest};
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Function, Value, Width, global};
use doorbell_compiler::isa::Target;

/// `out[row] = codes(norm(x[row]))`, the columns padded with zeros to a multiple of 256. For each 128 columns: the codes,
/// four factors, four sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActivationsI8 {
    /// Columns of `x`, a multiple of 32.
    pub cols: u32,
    /// Bits of the norm's epsilon, where there is a norm.
    pub norm: Option<u32>,
}

/// Work items per row.
const WORKGROUP: u32 = 256;
/// Bytes of 128 columns.
pub(crate) const LINE: u32 = CHUNK + 32;
/// Columns of a factor.
pub(crate) const BLOCK: u32 = 32;

impl ActivationsI8 {
    /// Bytes of a row.
    pub(crate) fn row_bytes(cols: u32) -> u32 {
        cols.next_multiple_of(STEP) / CHUNK * LINE
    }

    /// Four columns of the row at byte `from` of `x`, normalized; zeros beyond the last.
    fn four(
        self,
        k: &mut Builder,
        x: Value,
        from: Value,
        column: Value,
        norm: Option<RowNorm>,
    ) -> Vec<Value> {
        let inside = k.lt_u(column, self.cols);
        let offset = k.eval(column << 2);
        k.choose(
            inside,
            |k| {
                let loaded = k.load(global(x, from + offset), Width::Dwords(4), Elem::Float);
                let mut values = k.elements(loaded, 4);
                if let Some(norm) = norm {
                    norm.apply(k, offset, &mut values);
                }
                values
            },
            |k| (0..4).map(|_| k.float(0.0)).collect(),
        )
    }
}

impl Kernel for ActivationsI8 {
    fn name(&self) -> String {
        match self.norm {
            Some(eps) => format!("quantize_{}_norm{eps:08x}", self.cols),
            None => format!("quantize_{}", self.cols),
        }
    }

    /// Arguments `x`, `weight` (of the norm, else absent), `out`; one workgroup a row.
    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let InputRow { x, out, row, slots, weight } = InputRow::new(&mut k, self.norm);
        let from = k.eval(row * (4 * self.cols));
        let to = k.eval(row * Self::row_bytes(self.cols));
        let norm = weight.map(|weight| weight.scaled(&mut k, self.cols, x, from, slots));
        let item = k.workitem_id();
        let own = k.eval(item << 2);
        let padded = self.cols.next_multiple_of(STEP);
        let range = k.range(0, padded, 4 * WORKGROUP);
        let _ = k.for_range(range, &[], |k, start, _| {
            let column = k.eval(start + own);
            k.when(column.lt(padded), |k| {
                let values = self.four(k, x, from, column, norm);
                keep(k, &values, out, to, column);
            });
            Vec::new()
        });
        Ok(k.finish())
    }
}

/// Writes the codes of four columns; the first of eight lanes that share a block writes its factor and sum.
fn keep(k: &mut Builder, values: &[Value], out: Value, to: Value, column: Value) {
    let largest = largest(k, values, &[1, 2, 4]);
    let factor = k.eval(largest * (1.0 / 127.0));
    let inverse = k.eval(largest.rcp() * 127.0);
    let magic = k.float(MAGIC);
    let numbers: Vec<Value> =
        values.iter().map(|value| k.eval(value.mul_add(inverse, magic).as_int())).collect();
    let codes = bytes(k, &numbers);
    let (ones, none) = (k.int(0x0101_0101), k.int(0));
    let mut code_sum = k.dot4(true, true, [codes, ones, none]);
    for mask in [1, 2, 4] {
        let other = k.lane_xor(code_sum, mask);
        code_sum = k.add(code_sum, other);
    }
    let sum = k.eval(code_sum.i32_to_f32() * factor);
    let chunk = k.eval(column >> CHUNK.trailing_zeros());
    let line = k.eval(to + chunk * LINE);
    let within = k.eval(column & (CHUNK - 1));
    k.write(out, line + within, codes);
    let first = k.eval(column & (BLOCK - 1));
    k.when(first.eq(none), |k| {
        let block = k.eval((within >> BLOCK.trailing_zeros()) << 2);
        let offset = k.eval(line + block);
        k.store(global(out, offset).plus(CHUNK), Width::Dwords(1), factor);
        k.store(global(out, offset).plus(CHUNK + 16), Width::Dwords(1), sum);
    });
}
