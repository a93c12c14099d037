//! Activations for WMMA: rows normalized where asked and rounded to f16.

use crate::builder_ext::BuilderExt;
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use doorbell_compiler::ir::{Alu, Axis, Builder, Elem, Function, Value, Width, global};
use doorbell_compiler::isa::Target;

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
    /// Bytes from row to row: an odd number of lines. Rows that an expert takes are often a power of two apart, and would
    /// otherwise be in few sets of a cache.
    pub(crate) const fn row_bytes(cols: u32) -> u32 {
        ((2 * cols).div_ceil(LINE) | 1) * LINE
    }
}

impl Kernel for ActivationsF16 {
    fn name(&self) -> String {
        match self.norm {
            Some(eps) => format!("halve_{}_norm{eps:08x}", self.cols),
            None => format!("halve_{}", self.cols),
        }
    }

    /// Arguments `x`, `weight` (of the norm, else absent), `out`; one workgroup a row.
    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let InputRow { x, out, row, slots, weight } = InputRow::new(&mut k, self.norm);
        let from = k.eval(row * (4 * self.cols));
        let to = k.eval(row * Self::row_bytes(self.cols));
        let norm = weight.map(|weight| weight.scaled(&mut k, self.cols, x, from, slots));
        let none = k.int(0);
        columns(&mut k, self.cols, none, |k, column, none| {
            let offset = k.eval(column << 2);
            let loaded = k.load(global(x, from + offset), Width::Dwords(2), Elem::Float);
            let mut pair = k.elements(loaded, 2);
            if let Some(norm) = norm {
                norm.apply(k, offset, &mut pair);
            }
            let halves = k.half_pair(pair[0], pair[1]);
            let column = k.eval(column << 1);
            k.write(out, to + column, halves);
            none
        });
        Ok(k.finish())
    }
}

/// Arguments and LDS of kernels that convert a row of activations.
pub(crate) struct InputRow {
    pub(crate) x: Value,
    pub(crate) out: Value,
    pub(crate) row: Value,
    /// LDS of a word a wave.
    pub(crate) slots: u32,
    pub(crate) weight: Option<NormWeight>,
}

/// The weight of a norm, and its epsilon.
#[derive(Clone, Copy)]
pub(crate) struct NormWeight {
    weight: Value,
    eps: f32,
}

/// The norm of one row.
#[derive(Clone, Copy)]
pub(crate) struct RowNorm {
    weight: Value,
    /// The factor of the row.
    scale: Value,
}

impl InputRow {
    /// Declares the arguments; `norm` are the bits of an epsilon.
    pub(crate) fn new(k: &mut Builder, norm: Option<u32>) -> Self {
        let x = k.buffer("x");
        let weight = norm.map(|eps| NormWeight { weight: k.buffer("weight"), eps: f32::from_bits(eps) });
        let out = k.buffer("out");
        let slots = k.local(4 * WORKGROUP / 32);
        let row = k.workgroup_id(Axis::X);
        Self { x, out, row, slots, weight }
    }
}

impl NormWeight {
    /// The norm of the row that starts at byte `from` of `x`, by a workgroup of 256.
    pub(crate) fn scaled(self, k: &mut Builder, cols: u32, x: Value, from: Value, slots: u32) -> RowNorm {
        let zero = k.float(0.0);
        let sum = columns(k, cols, zero, |k, column, sum| {
            let offset = k.eval(column << 2);
            let loaded = k.load(global(x, from + offset), Width::Dwords(2), Elem::Float);
            let pair = k.elements(loaded, 2);
            let first = k.fma(pair[0], pair[0], sum);
            k.fma(pair[1], pair[1], first)
        });
        let total = k.reduce_workgroup(sum, Alu::fadd, slots, WORKGROUP / 32);
        let scale = k.rsq(total * (1.0 / cols as f32) + self.eps);
        RowNorm { weight: self.weight, scale }
    }
}

impl RowNorm {
    /// Normalizes two or four values whose weights start at byte `offset`.
    pub(crate) fn apply(self, k: &mut Builder, offset: Value, values: &mut [Value]) {
        let count = values.len() as u8;
        let loaded = k.load(global(self.weight, offset), Width::Dwords(count), Elem::Float);
        for (value, factor) in values.iter_mut().zip(k.elements(loaded, count)) {
            *value = k.eval(*value * self.scale * factor);
        }
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
    let own = k.eval(item << 1);
    let range = k.range(0, cols, 2 * WORKGROUP);
    k.for_range(range, &[initial], |k, start, carried| {
        let column = k.eval(start + own);
        k.choose(
            column.lt(cols),
            |k| {
                let next = body(k, column, carried[0]);
                alloc::vec![next]
            },
            |_| alloc::vec![carried[0]],
        )
    })[0]
}
