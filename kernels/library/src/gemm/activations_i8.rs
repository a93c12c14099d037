//! Activations for integer WMMA: rows normalized where asked, in codes of eight bits with a factor for every 32.
//!
//! `x = d * code` as in `Activation::Q8_0` of core, but for `d`, which stays f32. The sum of 32 stands beside its factor,
//! for weights with minima. Not here: f16 (`halve`).

use crate::builder_ext::{BuilderExt, at};
use crate::gemm::activations_f16::norm_scale;
use crate::gemm::stage::{CHUNK, STEP};
use crate::gemv::activations::{MAGIC, bytes, largest};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value, Width};

/// `out[row] = codes(norm(x[row]))`, the columns padded with zeros to a multiple of 256. Of each 128 columns: the codes,
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
    /// Bytes of a row of so many columns.
    pub(crate) fn row_bytes(cols: u32) -> u32 {
        cols.next_multiple_of(STEP) / CHUNK * LINE
    }

    /// The kernel's name.
    pub fn name(&self) -> String {
        match self.norm {
            Some(eps) => format!("quantize_{}_norm{eps:08x}", self.cols),
            None => format!("quantize_{}", self.cols),
        }
    }

    /// Arguments `x`, `weight` (of the norm, else absent), `out`; one workgroup a row.
    pub fn function(&self) -> Function {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let x = k.buffer("x");
        let weight = self.norm.map(|eps| (k.buffer("weight"), f32::from_bits(eps)));
        let out = k.buffer("out");
        let slots = k.local(4 * WORKGROUP / 32);
        let row = k.workgroup_id(Axis::X);
        let from = k.times(row, 4 * self.cols);
        let to = k.times(row, Self::row_bytes(self.cols));
        let norm = weight.map(|(weight, eps)| {
            let scale = norm_scale(&mut k, self.cols, eps, [x, from], slots);
            (weight, scale)
        });
        let item = k.workitem_id();
        let own = k.left(item, 2);
        let padded = self.cols.next_multiple_of(STEP);
        let (zero, end, step) = (k.int(0), k.int(padded), k.int(4 * WORKGROUP));
        let _ = k.for_range([zero, end, step], &[], |k, start, _| {
            let column = k.add(start, own);
            let padded = k.int(padded);
            let here = k.lt_u(column, padded);
            k.when(here, |k| {
                let values = self.four(k, x, from, column, norm);
                Self::keep(k, &values, out, to, column);
            });
            Vec::new()
        });
        k.finish()
    }

    /// Four columns, normalized; zeros beyond the last.
    fn four(
        &self,
        k: &mut Builder,
        x: Value,
        from: Value,
        column: Value,
        norm: Option<(Value, Value)>,
    ) -> Vec<Value> {
        let cols = k.int(self.cols);
        let inside = k.lt_u(column, cols);
        let offset = k.left(column, 2);
        k.choose(
            inside,
            |k| {
                let place = k.add(from, offset);
                let values = k.load(k.global(x, place), Width::Dwords(4), Elem::Float);
                let mut values = k.elements(values, 4);
                if let Some((weight, scale)) = norm {
                    let factors = k.load(k.global(weight, offset), Width::Dwords(4), Elem::Float);
                    for (value, factor) in values.iter_mut().zip(k.elements(factors, 4)) {
                        let scaled = k.fmul(*value, scale);
                        *value = k.fmul(scaled, factor);
                    }
                }
                values
            },
            |k| (0..4).map(|_| k.float(0.0)).collect(),
        )
    }

    /// Writes four columns' codes; the first of eight lanes that share a block writes its factor and sum.
    fn keep(k: &mut Builder, values: &[Value], out: Value, to: Value, column: Value) {
        let largest = largest(k, values, &[1, 2, 4]);
        let factor = k.scaled(largest, 1.0 / 127.0);
        let inverse = k.rcp(largest);
        let inverse = k.scaled(inverse, 127.0);
        let magic = k.float(MAGIC);
        let numbers: Vec<Value> = values
            .iter()
            .map(|value| {
                let number = k.fma(*value, inverse, magic);
                k.bits(number, Elem::Int)
            })
            .collect();
        let codes = bytes(k, &numbers);
        let (ones, none) = (k.int(0x0101_0101), k.int(0));
        let mut sum = k.dot4(true, true, [codes, ones, none]);
        for mask in [1, 2, 4] {
            let other = k.lane_xor(sum, mask);
            sum = k.add(sum, other);
        }
        let sum = k.cvt_f_i(sum);
        let sum = k.fmul(sum, factor);
        let chunk = k.right(column, CHUNK.trailing_zeros());
        let line = k.times(chunk, LINE);
        let line = k.add(to, line);
        let within = k.mask(column, CHUNK - 1);
        let place = k.add(line, within);
        k.write(out, place, codes);
        let first = k.mask(column, BLOCK - 1);
        let leads = k.eq(first, none);
        k.when(leads, |k| {
            let block = k.right(within, BLOCK.trailing_zeros());
            let block = k.left(block, 2);
            let place = k.add(line, block);
            let address = k.global(out, place);
            k.store(at(address, CHUNK), Width::Dwords(1), factor);
            k.store(at(address, CHUNK + 16), Width::Dwords(1), sum);
        });
    }
}
