//! `to += sum of weight * down hidden` over the chosen experts of a row: grid X outputs, Y rows.

use crate::builder_ext::BuilderExt;
use crate::gemv::activations::{ActivationSource, Activations, WORKGROUP};
use crate::moe::experts::{ExpertMatrix, OUTPUTS, first_output, forms, products};
use crate::spec_error::SpecError;
use alloc::format;
use alloc::string::String;
use doorbell_compiler::ir::{Axis, Builder, Function};

/// `to += sum of weight * down hidden` over the chosen experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExpertsDown {
    /// Elements of a hidden row.
    pub cols: u32,
    /// Chosen experts of a row.
    pub top_k: u32,
    /// The matrix.
    pub down: ExpertMatrix,
}

impl ExpertsDown {
    /// Unique name.
    pub(crate) fn name(self) -> String {
        format!("experts_down_{}_{}_{}", self.top_k, self.cols, self.down.name())
    }

    /// The function.
    pub(crate) fn function(self) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (hidden, ids, weights) = (k.buffer("hidden"), k.buffer("ids"), k.buffer("weights"));
        let down = self.down.arguments(&mut k, "down");
        let to = k.buffer("to");
        let [coded, plain] = forms(&[self.down.factor]);
        let from = Activations::new(&mut k, [self.cols, 1], coded, plain)?;
        if from.pieces() != 1 {
            return Err(SpecError::Shape);
        }
        let row = k.workgroup_id(Axis::Y);
        let output = first_output(&mut k);
        let lane = k.lane();
        let column = k.add(output, lane);
        let first = k.times(row, self.top_k);
        let zero = k.float(0.0);
        let (none, end, one) = (k.int(0), k.int(self.top_k), k.int(1));
        let sum = k.for_range([none, end, one], &[zero], |k, number, sum| {
            let slot = k.add(first, number);
            let place = k.left(slot, 2);
            let expert = k.read_same(ids, place);
            let weight = k.read(weights, place);
            let start = k.times(slot, 4 * self.cols);
            let source = ActivationSource { base: hidden, rows: alloc::vec![start], norm: None };
            k.barrier(false);
            let zero = k.int(0);
            from.fill(k, &source, zero);
            k.barrier(false);
            let rows = self.down.wave_rows(k, down.base, self.cols, expert, output);
            let sums = products(k, core::slice::from_ref(&rows), &from);
            let y = k.by_lane(lane, &sums);
            let y = self.down.weighted(k, y, &down, expert, column);
            alloc::vec![k.fma(weight, y, sum[0])]
        })[0];
        let (all, width) = (k.int(OUTPUTS), k.int(self.down.rows));
        let used = k.lt_u(lane, all);
        let inside = k.lt_u(column, width);
        let used = k.both(used, inside);
        k.when(used, |k| {
            let start = k.times(row, self.down.rows);
            let place = k.add(start, column);
            let place = k.left(place, 2);
            let old = k.read(to, place);
            let sum = k.fadd(old, sum);
            k.write(to, place, sum);
        });
        Ok(k.finish())
    }
}
