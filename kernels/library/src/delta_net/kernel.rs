//! The kernel of a delta net: grid X value heads, Y runs of the batch, which are the rows of one sequence.
//!
//! A head's state is read once, kept in registers while the rows of the run pass, and written once. Rows pass in chunks:
//! convolution to LDS (`convolution`), factors of the tokens and the gated norm of results (`chunk`), and between them the
//! recurrence (`recurrence`), which has no barrier. The inputs of the next chunk are on their way meanwhile. Steps whose
//! sequences have one row each take a kernel without the loops.

use super::chunk::{Chunk, Gates};
use super::context::DeltaContext;
use super::convolution::Channels;
use super::spec::{COLUMNS, DeltaNetSpec, Run};
use crate::builder_ext::BuilderExt;
use crate::kernel::{Kernel, SpecError};
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Function, Value};
use doorbell_compiler::isa::Target;

impl Kernel for DeltaNetSpec {
    fn name(&self) -> String {
        self.symbol()
    }

    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        if !Self::fits(&self.shape) {
            return Err(SpecError::Shape);
        }
        let mut k = Builder::new(&self.symbol(), self.items());
        let context = DeltaContext::new(&mut k, *self);
        let channels = Channels::new(&mut k, &context);
        let gates = Gates::new(&mut k, &context);
        let number = k.workgroup_id(Axis::Y);
        if self.is_single() {
            let run = context.arguments.runs.run(&mut k, number);
            context.single(&mut k, &channels, &gates, run);
            return Ok(k.finish());
        }
        let count = k.read_uniform(context.arguments.runs.runs, 0);
        let range = [number, count, context.arguments.groups];
        let _ = k.for_range_maybe(range, &[], |k, number, _| {
            let run = context.arguments.runs.run(k, number);
            context.rows(k, &channels, &gates, run);
            Vec::new()
        });
        Ok(k.finish())
    }
}

impl DeltaContext {
    /// The only row of a run. The state is on its way while the row is convolved.
    fn single(&self, k: &mut Builder, channels: &Channels, gates: &Gates, run: Run) {
        let state = self.load_state(k, run);
        let before = channels.before(k, self, run);
        let zero = k.int(0);
        let fetched = channels.fetch(k, self, run, zero);
        let read = gates.read(k, self, run, zero);
        let _ = channels.convolve(k, self, &before, &fetched);
        channels.keep(k, self, run, &fetched);
        k.barrier(false);
        gates.factors(k, self, &read);
        k.barrier(false);
        let nothing = k.float(0.0);
        let state: Vec<Value> = state.iter().map(|cell| k.select(run.empty, nothing, *cell)).collect();
        let state = self.token(k, zero, &state);
        k.barrier(false);
        let chunk = Chunk { first: zero, count: k.int(1) };
        gates.finish(k, self, run, chunk, &read);
        self.store_state(k, run, &state);
    }

    /// All rows of a run. Its last inputs are kept by a launch of their own (`keep`).
    fn rows(&self, k: &mut Builder, channels: &Channels, gates: &Gates, run: Run) {
        let tokens = self.spec.tokens;
        let nothing = k.float(0.0);
        let nothing = alloc::vec![nothing; (COLUMNS * self.spec.rows()) as usize];
        let mut carried = k.choose(run.empty, |_| nothing, |k| self.load_state(k, run));
        let count = carried.len();
        let before = channels.before(k, self, run);
        let zero = k.int(0);
        carried.extend(&before);
        carried.extend(channels.fetch(k, self, run, zero));
        let range = k.range(0, run.rows, tokens);
        let carried = k.for_range(range, &carried, |k, first, carried| {
            let (state, inputs) = carried.split_at(count);
            let (before, fetched) = inputs.split_at(before.len());
            let read = gates.read(k, self, run, first);
            let before = channels.convolve(k, self, before, fetched);
            k.barrier(false);
            let next = k.eval(first + tokens);
            let fetched = channels.fetch(k, self, run, next);
            gates.factors(k, self, &read);
            k.barrier(false);
            let chunk = Chunk { first, count: k.eval((run.rows - first).min(tokens)) };
            let range = k.range(0, chunk.count, 1);
            let mut carried = k.for_range(range, state, |k, token, state| self.token(k, token, state));
            k.barrier(false);
            gates.finish(k, self, run, chunk, &read);
            carried.extend(before);
            carried.extend(fetched);
            carried
        });
        self.store_state(k, run, &carried[..count]);
    }
}
