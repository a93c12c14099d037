//! `to = scale * (to + RMS(input))`, and `to = scale * RMS(input)`: one workgroup a row, or a part of a row that is
//! normalized by itself.

use crate::builder_ext::BuilderExt;
use crate::gemv::activations::{Activations, Forms, WORKGROUP};
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function};
use doorbell_compiler::isa::Target;

/// The norm of a branch, its addition to the stream if it `adds`, and a factor on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NormAdd {
    /// Elements of what is normalized: a row, or one of its parts.
    pub cols: u32,
    /// True if the result is added to the old content.
    pub adds: bool,
    /// True if the sum has a factor.
    pub scaled: bool,
}

impl Kernel for NormAdd {
    fn name(&self) -> String {
        let [adds, scaled] =
            [(self.adds, "add_"), (self.scaled, "scaled_")].map(|(is, name)| if is { name } else { "" });
        format!("norm_{adds}{scaled}{}", self.cols)
    }

    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (input, weight) = (k.buffer("input"), k.buffer("weight"));
        let eps = k.scalar("eps", Elem::Float);
        let to = k.buffer("to");
        let scale = self.scaled.then(|| k.scalar("scale", Elem::Float));
        let from = Activations::new(&mut k, self.cols, 1, Forms { coded: false, plain: false })?;
        let number = k.workgroup_id(Axis::X);
        let row = k.eval(number * (4 * self.cols));
        let factor = from.norm_factors(&mut k, input, &[row], eps)[0];
        let item = k.workitem_id();
        let range = k.range(0, self.cols, WORKGROUP);
        let [_, cols, _] = range;
        let _ = k.for_range(range, &[], |k, begin, _| {
            let column = k.eval(begin + item);
            k.when(column.lt(cols), |k| {
                let offset = k.eval(column << 2);
                let in_row = k.eval(offset + row);
                let (x, w) = (k.read(input, in_row), k.read(weight, offset));
                let old = self.adds.then(|| k.read(to, in_row));
                let scaled = k.eval(x * factor * w);
                let sum = old.map_or(scaled, |old| k.fadd(old, scaled));
                let y = scale.map_or(sum, |scale| k.fmul(sum, scale));
                k.write(to, in_row, y);
            });
            vec![]
        });
        Ok(k.finish())
    }
}
