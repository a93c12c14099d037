//! The last inputs of runs, for the convolution of the rows that follow: grid X channels, Y runs.

use super::spec::{Run, RunArguments};
use crate::builder_ext::BuilderExt;
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value};
use doorbell_compiler::isa::Target;

/// Keeps the inputs of a run's last rows in its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeepInputs {
    /// Channels of a row.
    pub channels: u32,
    /// Rows that the state has, a power of two.
    pub taps: u32,
}

pub(crate) const WORKGROUP: u32 = 256;

impl Kernel for KeepInputs {
    fn name(&self) -> String {
        format!("keep_inputs_{}x{}", self.taps, self.channels)
    }

    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let arguments = RunArguments::new(&mut k);
        let mixed = k.buffer("mixed");
        let groups = k.scalar("groups", Elem::Int);
        let (group, item) = (k.workgroup_id(Axis::X), k.workitem_id());
        let channel = k.eval(group * WORKGROUP + item);
        let count = k.read_uniform(arguments.runs, 0);
        let number = k.workgroup_id(Axis::Y);
        let _ = k.for_range_maybe([number, count, groups], &[], |k, number, _| {
            let run = arguments.run(k, number);
            k.when(channel.lt(self.channels), |k| self.keep(k, mixed, run, channel));
            Vec::new()
        });
        Ok(k.finish())
    }
}

impl KeepInputs {
    fn keep(&self, k: &mut Builder, mixed: Value, run: Run, channel: Value) {
        let (own, row_bytes) = (k.eval(channel << 2), 4 * self.channels);
        for back in 1..=self.taps {
            let there = k.eval(run.rows.ge(back));
            k.when(there, |k| {
                let row = k.eval(run.rows - back);
                let source = k.eval((row + run.first) * row_bytes);
                let target = k.eval(((row + run.position) & (self.taps - 1)) * row_bytes);
                let input = k.read(mixed, source + own);
                k.write(run.state, target + own, input);
            });
        }
    }
}
