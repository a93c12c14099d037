//! `to += RMS(input)`, and `to = RMS(input)` where the hidden state itself is wanted: one workgroup a row.

use super::activation::{Activations, GROUP};
use super::idiom::Idiom;
use super::{Cost, Launch, Recipe, RecipeError, Step};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function};
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::plan::{Norm, TensorId};

/// The norm of a branch, and its addition to the stream if it `adds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NormAddition {
    /// Elements of a row.
    pub cols: u32,
    /// Whether the result is added to what is there.
    pub adds: bool,
}

/// The launch of `to += RMS(input)`.
pub(crate) fn norm_add(step: &Step<'_, '_>, input: TensorId, norm: Norm, to: TensorId) -> Launch {
    launch(step, input, norm, (step.tensor(to), true))
}

/// The launch of `result = RMS(input)`.
pub(crate) fn hidden(step: &Step<'_, '_>, input: TensorId, norm: Norm) -> Launch {
    launch(step, input, norm, (step.inputs.result, false))
}

fn launch(step: &Step<'_, '_>, input: TensorId, norm: Norm, (to, adds): (u64, bool)) -> Launch {
    let (cols, rows) = (step.plan.tensor(input).width, step.rows_of(input));
    let bytes = 4 * u64::from(cols) * u64::from(rows);
    Launch {
        recipe: Recipe::NormAdd(NormAddition { cols, adds }),
        groups: [rows, 1, 1],
        arguments: vec![
            ArgumentValue::Buffer(step.tensor(input)),
            ArgumentValue::Buffer(step.vector(norm.weight)),
            ArgumentValue::Scalar(norm.eps.to_bits()),
            ArgumentValue::Buffer(to),
        ],
        waits: true,
        cost: Cost { read: if adds { 2 * bytes } else { bytes }, written: bytes, products: 0 },
    }
}

impl NormAddition {
    /// Unique name.
    pub(crate) fn name(self) -> String {
        format!("norm_{}{}", if self.adds { "add_" } else { "" }, self.cols)
    }

    /// The function.
    pub(crate) fn function(self) -> Result<Function, RecipeError> {
        let mut k = Builder::new(&self.name(), GROUP);
        let (input, weight) = (k.buffer("input"), k.buffer("weight"));
        let eps = k.scalar("eps", Elem::Float);
        let to = k.buffer("to");
        let from = Activations::new(&mut k, [self.cols, 1], false, false)?;
        let row = k.workgroup_id(Axis::X);
        let row = k.times(row, 4 * self.cols);
        let factor = from.norm_factors(&mut k, input, &[row], eps)[0];
        let item = k.workitem_id();
        let (zero, cols, step) = (k.int(0), k.int(self.cols), k.int(GROUP));
        let _ = k.for_range([zero, cols, step], &[], |k, begin, _| {
            let column = k.add(begin, item);
            let inside = k.lt_u(column, cols);
            k.when(inside, |k| {
                let place = k.left(column, 2);
                let at_row = k.add(place, row);
                let (x, w) = (k.read(input, at_row), k.read(weight, place));
                let old = self.adds.then(|| k.read(to, at_row));
                let scaled = k.fmul(x, factor);
                let y = k.fmul(scaled, w);
                let y = old.map_or(y, |old| k.fadd(old, y));
                k.write(to, at_row, y);
            });
            vec![]
        });
        Ok(k.finish())
    }
}
