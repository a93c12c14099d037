//! The sum of `weight * down hidden` over the chosen experts of a row, added to `to` or in its place: grid X outputs, Y
//! rows.

use super::experts::{ExpertMatrix, OUTPUTS, first_output, products};
use crate::builder_ext::BuilderExt;
use crate::gemv::activations::{ActivationSource, Activations, WORKGROUP};
use crate::gemv::spec::forms;
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use doorbell_compiler::ir::{Axis, Builder, Function};
use doorbell_compiler::isa::Target;

/// The sum of `weight * down hidden` over the chosen experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExpertsDown {
    /// Elements of a hidden row.
    pub cols: u32,
    /// Chosen experts of a row.
    pub top_k: u32,
    /// The matrix.
    pub down: ExpertMatrix,
    /// True if the sum is added to the old content.
    pub adds: bool,
}

impl Kernel for ExpertsDown {
    fn name(&self) -> String {
        let new = if self.adds { "" } else { "_new" };
        format!("experts_down_{}_{}_{}{new}", self.top_k, self.cols, self.down.name())
    }

    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (hidden, ids, weights) = (k.buffer("hidden"), k.buffer("ids"), k.buffer("weights"));
        let down = self.down.arguments(&mut k, "down");
        let to = k.buffer("to");
        let from = Activations::new(&mut k, self.cols, 1, forms(&[self.down.factor]))?;
        if from.pieces() != 1 {
            return Err(SpecError::Shape);
        }
        let row = k.workgroup_id(Axis::Y);
        let output = first_output(&mut k);
        let lane = k.lane();
        let column = k.eval(output + lane);
        let first = k.eval(row * self.top_k);
        let zero = k.float(0.0);
        let range = k.range(0, self.top_k, 1);
        let sum = k.for_range(range, &[zero], |k, number, sum| {
            let slot = k.eval(first + number);
            let offset = k.eval(slot << 2);
            let expert = k.read_same(ids, offset);
            let weight = k.read(weights, offset);
            let start = k.eval(slot * (4 * self.cols));
            let source = ActivationSource { base: hidden, rows: alloc::vec![start], norm: None };
            k.barrier(false);
            let zero = k.int(0);
            from.fill(k, &source, zero);
            k.barrier(false);
            let rows = self.down.wave_rows(k, down.base, self.cols, expert, output);
            let sums = products(k, core::slice::from_ref(&rows), &from);
            let product = k.by_lane(lane, &sums);
            let y = self.down.weighted(k, product, &down, expert, column);
            alloc::vec![k.fma(weight, y, sum[0])]
        })[0];
        let (all, width) = (k.int(OUTPUTS), k.int(self.down.rows));
        k.when(lane.lt(all) & column.lt(width), |k| {
            let offset = k.eval((row * self.down.rows + column) << 2);
            let mut value = sum;
            if self.adds {
                let old = k.read(to, offset);
                value = k.fadd(old, sum);
            }
            k.write(to, offset, value);
        });
        Ok(k.finish())
    }
}
