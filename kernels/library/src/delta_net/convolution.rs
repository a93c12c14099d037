//! The short convolution: a work item takes some channels of its head, and all tokens of a chunk.
//!
//! Inputs before the run come from the state, in which the input at position `p` is in row `p % taps`. Not here: keeping
//! the inputs of runs of several rows (`keep`), which may take the place of those that other workgroups still read.

use super::context::DeltaContext;
use super::spec::Run;
use crate::builder_ext::BuilderExt;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Value, Width, lds};

/// A channel of a work item.
struct Channel {
    /// Its number in the head, query, key and value one after the other.
    own: Value,
    /// Byte of its input in a row of all channels.
    offset: Value,
    /// True in work items that have it; `None` if all have.
    used: Option<Value>,
    /// Its weights, the oldest token's first.
    weights: Vec<Value>,
}

/// The channels of a work item.
pub(crate) struct Channels(Vec<Channel>);

impl Channel {
    fn when_used(&self, k: &mut Builder, body: impl FnOnce(&mut Builder)) {
        match self.used {
            Some(used) => k.when(used, body),
            None => body(k),
        }
    }
}

impl Channels {
    pub(crate) fn new(k: &mut Builder, context: &DeltaContext) -> Self {
        let (spec, item) = (context.spec, k.workitem_id());
        let (shape, all) = (spec.shape, spec.channels());
        let (key_dim, key_width) = (shape.key_dim, shape.key_width() as u32);
        let query = k.eval(context.key_head * key_dim);
        let key = k.eval(query + (key_width - key_dim));
        let value = k.eval(context.head * shape.value_dim + 2 * (key_width - key_dim));
        let row_bytes = 4 * shape.channels() as u32;
        let channels = (0..all.div_ceil(spec.items())).map(|round| {
            let number = k.eval(item + round * spec.items());
            let whole = (round + 1) * spec.items() <= all;
            let used = (!whole).then(|| k.eval(number.lt(all)));
            let own = if whole { number } else { k.eval(number.min(all - 1)) };
            let early = k.eval(own.lt(key_dim).select(query, key));
            let start = k.eval(own.lt(2 * key_dim).select(early, value));
            let offset = k.eval((own + start) << 2);
            let weights =
                (0..shape.taps).map(|tap| k.read(context.arguments.convolution, offset + tap * row_bytes));
            let weights = weights.collect();
            Channel { own, offset, used, weights }
        });
        Self(channels.collect())
    }

    /// The inputs before a run that its first token sees: those of the first channel, then of the next.
    pub(crate) fn before(&self, k: &mut Builder, context: &DeltaContext, run: Run) -> Vec<Value> {
        let shape = context.spec.shape;
        let (row_bytes, back) = (4 * shape.channels() as u32, shape.taps - 1);
        let rows: Vec<(Value, Value)> = (0..back)
            .map(|number| {
                // Before the first position there is nothing.
                let exists = k.eval(run.position.ge(back - number));
                let row = k.eval((run.position + (number + 1)) & (shape.taps - 1));
                (exists, k.eval(row * row_bytes))
            })
            .collect();
        let mut inputs = Vec::new();
        for channel in &self.0 {
            for (exists, row) in &rows {
                let kept = k.read(run.state, *row + channel.offset);
                let nothing = k.float(0.0);
                inputs.push(k.select(*exists, kept, nothing));
            }
        }
        inputs
    }

    /// The inputs of a chunk from row `first` of the run on, channel by channel; past the end the last is repeated.
    pub(crate) fn fetch(
        &self,
        k: &mut Builder,
        context: &DeltaContext,
        run: Run,
        first: Value,
    ) -> Vec<Value> {
        let row_bytes = 4 * context.spec.shape.channels() as u32;
        let last = k.eval(run.rows - 1);
        let rows: Vec<Value> = (0..context.spec.tokens)
            .map(|token| k.eval(((first + token).min(last) + run.first) * row_bytes))
            .collect();
        let mut inputs = Vec::new();
        for channel in &self.0 {
            inputs.extend(rows.iter().map(|row| k.read(context.arguments.mixed, *row + channel.offset)));
        }
        inputs
    }

    /// Writes a chunk's convolved channels to LDS; the inputs before the next chunk.
    pub(crate) fn convolve(
        &self,
        k: &mut Builder,
        context: &DeltaContext,
        before: &[Value],
        fetched: &[Value],
    ) -> Vec<Value> {
        let spec = context.spec;
        let (taps, tokens) = (spec.shape.taps as usize, spec.tokens as usize);
        let mut next = Vec::new();
        let inputs = before.chunks(taps - 1).zip(fetched.chunks(tokens));
        for (channel, (before, fetched)) in self.0.iter().zip(inputs) {
            let inputs = [before, fetched].concat();
            let mut results = Vec::new();
            for seen in inputs.windows(taps) {
                let mut sum = k.fmul(seen[0], channel.weights[0]);
                for (input, weight) in seen.iter().zip(&channel.weights).skip(1) {
                    sum = k.fma(*input, *weight, sum);
                }
                let share = k.sigmoid(sum, 1.0);
                results.push(k.fmul(sum, share));
            }
            channel.when_used(k, |k| {
                let offset = k.eval(channel.own << 2);
                for (result, token) in results.iter().zip(0u32..) {
                    let ahead = context.lds.mixed + 4 * spec.channels() * token;
                    k.store(lds(offset).plus(ahead), Width::Dwords(1), *result);
                }
            });
            next.extend(&inputs[tokens..]);
        }
        next
    }

    /// Puts the input of a run's only row into the state: no workgroup reads that row of it.
    pub(crate) fn keep(&self, k: &mut Builder, context: &DeltaContext, run: Run, inputs: &[Value]) {
        let shape = context.spec.shape;
        let row = k.eval((run.position & (shape.taps - 1)) * (4 * shape.channels() as u32));
        for (channel, input) in self.0.iter().zip(inputs) {
            // Value heads share their key head's channels.
            let mut keeps = k.eval(channel.own.ge(2 * shape.key_dim) | context.leads);
            if let Some(used) = channel.used {
                keeps = k.both(keeps, used);
            }
            k.when(keeps, |k| k.write(run.state, row + channel.offset, *input));
        }
    }
}
