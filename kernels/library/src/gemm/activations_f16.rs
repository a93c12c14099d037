//! Activations for WMMA: rows normalized where asked and rounded to f16.

use crate::builder_ext::BuilderExt;
use alloc::format;
use alloc::string::String;
use doorbell_compiler::ir::{Alu, Axis, Builder, Elem, Function, Value, Width};

/// `out[row] = f16(norm(x[row]))`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActivationsF16 {
    /// Columns, even.
    pub cols: u32,
    /// Bits of the norm's epsilon, where there is a norm.
    pub norm: Option<u32>,
}

/// Work items per row; each takes two columns a trip.
const WORKGROUP: u32 = 256;

/// Bytes of a line of the caches.
const LINE: u32 = 128;

impl ActivationsF16 {
    /// Bytes from row to row: an odd number of lines. Rows that an expert takes are often as many apart as a power of
    /// two, and would otherwise be in few sets of a cache.
    pub(crate) const fn row_bytes(cols: u32) -> u32 {
        ((2 * cols).div_ceil(LINE) | 1) * LINE
    }

    /// The kernel's name.
    pub fn name(&self) -> String {
        match self.norm {
            Some(eps) => format!("halve_{}_norm{eps:08x}", self.cols),
            None => format!("halve_{}", self.cols),
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
        let none = k.int(0);
        columns(&mut k, self.cols, none, |k, column, none| {
            let offset = k.left(column, 2);
            let place = k.add(from, offset);
            let pair = k.load(k.global(x, place), Width::Dwords(2), Elem::Float);
            let mut pair = k.elements(pair, 2);
            if let Some((weight, scale)) = norm {
                let factors = k.load(k.global(weight, offset), Width::Dwords(2), Elem::Float);
                for (value, factor) in pair.iter_mut().zip(k.elements(factors, 2)) {
                    let scaled = k.fmul(*value, scale);
                    *value = k.fmul(scaled, factor);
                }
            }
            let pair = k.half_pair(pair[0], pair[1]);
            let place = k.left(column, 1);
            let place = k.add(to, place);
            k.write(out, place, pair);
            none
        });
        k.finish()
    }
}

/// Runs `body` for the work item's pairs of columns of a row.
fn columns(
    k: &mut Builder,
    cols: u32,
    initial: Value,
    body: impl FnOnce(&mut Builder, Value, Value) -> Value,
) -> Value {
    let item = k.workitem_id();
    let own = k.left(item, 1);
    let (zero, end, step) = (k.int(0), k.int(cols), k.int(2 * WORKGROUP));
    k.for_range([zero, end, step], &[initial], |k, start, carried| {
        let column = k.add(start, own);
        let cols = k.int(cols);
        let here = k.lt_u(column, cols);
        k.choose(
            here,
            |k| {
                let next = body(k, column, carried[0]);
                alloc::vec![next]
            },
            |_| alloc::vec![carried[0]],
        )
    })[0]
}

/// The factor that a norm multiplies a row with, the same in all work items of a group of 256. `[x, from]`: the rows, and
/// the byte at which this one starts; `slots`: LDS of a word a wave.
pub(crate) fn norm_scale(k: &mut Builder, cols: u32, eps: f32, [x, from]: [Value; 2], slots: u32) -> Value {
    let zero = k.float(0.0);
    let sum = columns(k, cols, zero, |k, column, sum| {
        let offset = k.left(column, 2);
        let place = k.add(from, offset);
        let pair = k.load(k.global(x, place), Width::Dwords(2), Elem::Float);
        let pair = k.elements(pair, 2);
        let sum = k.fma(pair[0], pair[0], sum);
        k.fma(pair[1], pair[1], sum)
    });
    let total = k.reduce_group(sum, Alu::fadd, slots, WORKGROUP / 32);
    let mean = k.scaled(total, 1.0 / cols as f32);
    let eps = k.float(eps);
    let mean = k.fadd(mean, eps);
    k.rsq(mean)
}
