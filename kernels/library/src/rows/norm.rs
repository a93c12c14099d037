//! `to += RMS(input)`, and `to = RMS(input)` where the hidden state itself is wanted: one workgroup a row.

use crate::builder_ext::BuilderExt;
use crate::gemv::activations::{Activations, WORKGROUP};
use crate::spec_error::SpecError;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function};

/// The norm of a branch, and its addition to the stream if it `adds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NormAdd {
    /// Elements of a row.
    pub cols: u32,
    /// Whether the result is added to what is there.
    pub adds: bool,
}

impl NormAdd {
    /// Unique name.
    pub(crate) fn name(self) -> String {
        format!("norm_{}{}", if self.adds { "add_" } else { "" }, self.cols)
    }

    /// The function.
    pub(crate) fn function(self) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (input, weight) = (k.buffer("input"), k.buffer("weight"));
        let eps = k.scalar("eps", Elem::Float);
        let to = k.buffer("to");
        let from = Activations::new(&mut k, [self.cols, 1], false, false)?;
        let row = k.workgroup_id(Axis::X);
        let row = k.times(row, 4 * self.cols);
        let factor = from.norm_factors(&mut k, input, &[row], eps)[0];
        let item = k.workitem_id();
        let (zero, cols, step) = (k.int(0), k.int(self.cols), k.int(WORKGROUP));
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
