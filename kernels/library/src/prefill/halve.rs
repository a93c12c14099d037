//! Activations for WMMA: rows normalised where asked and rounded to f16.

use crate::idiom::Idiom;
use alloc::format;
use alloc::string::String;
use doorbell_compiler::ir::{Alu, Axis, Builder, Elem, Function, Value, Width};

/// `out[row] = f16(norm(x[row]))`, the columns padded with zeros to a multiple of 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Halve {
    /// Columns of `x`, even.
    pub cols: u32,
    /// Bits of the norm's epsilon, where there is a norm.
    pub norm: Option<u32>,
}

/// Work items per row; each takes two columns a trip.
const GROUP: u32 = 256;

impl Halve {
    /// Columns with their padding.
    pub fn padded(&self) -> u32 {
        self.cols.next_multiple_of(super::stage::STEP)
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
        let mut k = Builder::new(&self.name(), GROUP);
        let x = k.buffer("x");
        let weight = self.norm.map(|eps| (k.buffer("weight"), f32::from_bits(eps)));
        let out = k.buffer("out");
        let slots = k.local(4 * GROUP / 32);
        let row = k.workgroup_id(Axis::X);
        let from = k.times(row, 4 * self.cols);
        let to = k.times(row, 2 * self.padded());
        let item = k.workitem_id();
        let own = k.left(item, 1);
        let norm = weight.map(|(weight, eps)| {
            let squares = self.squares(&mut k, x, from, own);
            let total = k.reduce_group(squares, Alu::fadd, slots, GROUP / 32);
            let mean = k.scaled(total, 1.0 / self.cols as f32);
            let eps = k.float(eps);
            let mean = k.fadd(mean, eps);
            (weight, k.rsq(mean))
        });
        let none = k.int(0);
        self.columns(&mut k, own, none, |k, column, none| {
            let offset = k.left(column, 2);
            let inside = self.inside(k, column);
            let values = k.choose(
                inside,
                |k| {
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
                    alloc::vec![k.bits(pair, Elem::Int)]
                },
                |k| alloc::vec![k.int(0)],
            );
            let place = k.left(column, 1);
            let place = k.add(to, place);
            k.write(out, place, values[0]);
            none
        });
        k.finish()
    }

    fn inside(&self, k: &mut Builder, column: Value) -> Value {
        let cols = k.int(self.cols);
        k.lt_u(column, cols)
    }

    /// Runs `body` for the work item's pairs of columns.
    fn columns(
        &self,
        k: &mut Builder,
        own: Value,
        initial: Value,
        body: impl FnOnce(&mut Builder, Value, Value) -> Value,
    ) -> Value {
        let (zero, end, step) = (k.int(0), k.int(self.padded()), k.int(2 * GROUP));
        k.for_range([zero, end, step], &[initial], |k, at, carried| {
            let column = k.add(at, own);
            let padded = k.int(self.padded());
            let here = k.lt_u(column, padded);
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

    fn squares(&self, k: &mut Builder, x: Value, from: Value, own: Value) -> Value {
        let zero = k.float(0.0);
        self.columns(k, own, zero, |k, column, sum| {
            let inside = self.inside(k, column);
            k.choose(
                inside,
                |k| {
                    let offset = k.left(column, 2);
                    let place = k.add(from, offset);
                    let pair = k.load(k.global(x, place), Width::Dwords(2), Elem::Float);
                    let pair = k.elements(pair, 2);
                    let sum = k.fma(pair[0], pair[0], sum);
                    alloc::vec![k.fma(pair[1], pair[1], sum)]
                },
                |_| alloc::vec![sum],
            )[0]
        })
    }
}
