//! The gates of a chunk's tokens: factors before the recurrence, and the gated norm of its results. A wave takes a token.
//!
//! Queries and keys stay as the convolution leaves them; their lengths are among the factors.

use super::context::DeltaContext;
use super::spec::{FACTORS, Run};
use crate::builder_ext::{BuilderExt, LOG2_E};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width, global, lds};

/// Vectors of the model, and columns of betas and alphas.
pub(crate) struct Gates {
    /// Byte of the head's beta and of its alpha in a row.
    columns: [Value; 2],
    decay: Value,
    step_bias: Value,
    /// The lane's weights of the norm.
    norm: Vec<Value>,
}

/// Values that are read early for the tokens of a wave: beta and alpha of each, and the lane's output gates.
pub(crate) struct TokenGates {
    gates: [Value; 2],
    output: Vec<Value>,
}

/// Rows of a run that a chunk has; uniform.
#[derive(Clone, Copy)]
pub(crate) struct Chunk {
    /// The first, counted in the run.
    pub(crate) first: Value,
    /// Their number.
    pub(crate) count: Value,
}

/// An element of a vector that a lane has.
struct LaneElement {
    /// Its byte, or that of the last element where there is none.
    offset: Value,
    /// True in lanes that have it; `None` if all have.
    inside: Option<Value>,
}

impl LaneElement {
    /// The lane's elements of a vector of `count`: every thirty-second one.
    fn of(k: &mut Builder, count: u32) -> Vec<Self> {
        let lane = k.lane();
        let each = (0..count).step_by(32).map(|first| {
            let number = k.eval(lane + first);
            if first + 32 <= count {
                return Self { offset: k.eval(number << 2), inside: None };
            }
            let inside = k.eval(number.lt(count));
            Self { offset: k.eval(number.min(count - 1) << 2), inside: Some(inside) }
        });
        each.collect()
    }

    /// A sum with the product of two numbers, where there is an element.
    fn add(&self, k: &mut Builder, [a, b]: [Value; 2], sum: Value) -> Value {
        let next = k.fma(a, b, sum);
        self.inside.map_or(next, |inside| k.select(inside, next, sum))
    }
}

/// From this power on `softplus` is a logarithm, and from the second number on it is the number itself.
const LEAST_POWER: f32 = 0.01;
const LARGE: f32 = 20.0;

fn uniform_float(k: &mut Builder, base: Value, offset: Value) -> Value {
    k.load_uniform(global(base, offset), Width::Dwords(1), Elem::Float)
}

impl Gates {
    pub(crate) fn new(k: &mut Builder, context: &DeltaContext) -> Self {
        let (shape, arguments, head) = (context.spec.shape, &context.arguments, context.head);
        let own = k.eval(head << 2);
        let columns = if context.spec.fused_gates {
            let share = shape.value_heads / shape.key_heads;
            let group = k.eval(head / share);
            let beta = k.eval((head + group * share) << 2);
            [beta, k.eval(beta + 4 * share)]
        } else {
            [own, own]
        };
        let decay = uniform_float(k, arguments.decay, own);
        let step_bias = uniform_float(k, arguments.step_bias, own);
        let elements = LaneElement::of(k, shape.value_dim);
        let norm = elements.iter().map(|element| k.read(arguments.norm, element.offset)).collect();
        Self { columns, decay, step_bias, norm }
    }

    /// Numbers of the wave's tokens in a chunk, uniform. Those behind the chunk's end stand for nothing.
    fn tokens(k: &mut Builder, context: &DeltaContext) -> Vec<Value> {
        let (wave, waves) = (k.wave(), context.spec.waves());
        (0..context.spec.tokens).step_by(waves as usize).map(|first| k.eval(wave + first)).collect()
    }

    /// Row of the batch of a token; past the end of the run the last one.
    fn row(k: &mut Builder, run: Run, first: Value, token: Value) -> Value {
        let last = k.eval(run.rows - 1);
        k.eval((first + token).min(last) + run.first)
    }

    /// Byte of the head in a row of results, or of output gates.
    fn head_start(k: &mut Builder, context: &DeltaContext, row: Value) -> Value {
        let shape = context.spec.shape;
        let head = k.eval(context.head * (4 * shape.value_dim));
        k.eval(row * (4 * shape.value_width() as u32) + head)
    }

    pub(crate) fn read(
        &self,
        k: &mut Builder,
        context: &DeltaContext,
        run: Run,
        first: Value,
    ) -> Vec<TokenGates> {
        let (shape, arguments) = (context.spec.shape, &context.arguments);
        let width = 4 * shape.value_heads * if context.spec.fused_gates { 2 } else { 1 };
        let elements = LaneElement::of(k, shape.value_dim);
        let tokens = Self::tokens(k, context);
        let each = tokens.into_iter().map(|token| {
            let row = Self::row(k, run, first, token);
            let gates = [(arguments.beta, self.columns[0]), (arguments.alpha, self.columns[1])].map(
                |(base, column)| {
                    let offset = k.eval(row * width + column);
                    uniform_float(k, base, offset)
                },
            );
            let start = Self::head_start(k, context, row);
            let output =
                elements.iter().map(|element| k.read(arguments.gate, element.offset + start)).collect();
            TokenGates { gates, output }
        });
        each.collect()
    }

    /// Writes the factors of a chunk's tokens to LDS; [`super::recurrence`] reads them.
    pub(crate) fn factors(&self, k: &mut Builder, context: &DeltaContext, read: &[TokenGates]) {
        let spec = context.spec;
        for (token, own) in Self::tokens(k, context).into_iter().zip(read) {
            k.when(token.lt(spec.tokens), |k| {
                let [queries, keys, both] = Self::lengths(k, context, token);
                let [query, key] = [queries, keys].map(|sum| k.fadd(sum, context.arguments.eps));
                // With the factor 1 / sqrt(key_dim) on queries.
                let query = k.eval((query * spec.shape.key_dim as f32).rsq());
                let key = k.rsq(key);
                let [beta, alpha] = own.gates;
                let decay = self.decayed(k, alpha);
                let beta = k.sigmoid(beta, 1.0);
                let lane = k.lane();
                k.when(lane.eq(0), |k| {
                    let start = k.eval(token * (4 * FACTORS));
                    let four = k.pack(&[decay, beta, key, query]);
                    k.store(lds(start).plus(context.lds.factors), Width::Dwords(4), four);
                    k.store(lds(start).plus(context.lds.factors + 16), Width::Dwords(1), both);
                });
            });
        }
    }

    /// The squares of query and key of a token, and their product, summed.
    fn lengths(k: &mut Builder, context: &DeltaContext, token: Value) -> [Value; 3] {
        let (spec, key_dim) = (context.spec, context.spec.shape.key_dim);
        let start = k.eval(token * (4 * spec.channels()));
        let mut sums = [k.float(0.0); 3];
        for element in LaneElement::of(k, key_dim) {
            let offset = k.add(element.offset, start);
            let [query, key] = [0, 4 * key_dim].map(|ahead| {
                k.load(lds(offset).plus(context.lds.mixed + ahead), Width::Dwords(1), Elem::Float)
            });
            for (sum, pair) in sums.iter_mut().zip([[query; 2], [key; 2], [query, key]]) {
                *sum = element.add(k, pair, *sum);
            }
        }
        sums.map(|sum| k.reduce_wave(sum, Alu::fadd))
    }

    /// `exp(decay * softplus(alpha + step_bias))`
    fn decayed(&self, k: &mut Builder, alpha: Value) -> Value {
        let x = k.fadd(alpha, self.step_bias);
        let power = k.eval((x * LOG2_E).exp2());
        let log2 = k.log2(power + 1.0);
        let near = k.eval(log2 * core::f32::consts::LN_2);
        // A sum with 1 would lose what is small.
        let inner = k.fma(power, 1.0 / 3.0, -0.5);
        let series = k.eval(power * inner.mul_add(power, 1.0));
        let (least, large) = (k.float(LEAST_POWER), k.float(LARGE));
        let near = k.select(power.lt(least), series, near);
        let softplus = k.select(x.gt(large), x, near);
        k.eval((self.decay * softplus * LOG2_E).exp2())
    }

    /// Norm and gate of a chunk's results.
    pub(crate) fn finish(
        &self,
        k: &mut Builder,
        context: &DeltaContext,
        run: Run,
        chunk: Chunk,
        read: &[TokenGates],
    ) {
        for (token, own) in Self::tokens(k, context).into_iter().zip(read) {
            k.when(token.lt(chunk.count), |k| self.finish_token(k, context, run, chunk.first, token, own));
        }
    }

    fn finish_token(
        &self,
        k: &mut Builder,
        context: &DeltaContext,
        run: Run,
        first: Value,
        token: Value,
        own: &TokenGates,
    ) {
        let value_dim = context.spec.shape.value_dim;
        let start = k.eval(token * (4 * value_dim));
        let elements = LaneElement::of(k, value_dim);
        let mut sum = k.float(0.0);
        let mut values = Vec::new();
        for element in &elements {
            let offset = lds(element.offset + start).plus(context.lds.out);
            let value = k.load(offset, Width::Dwords(1), Elem::Float);
            sum = element.add(k, [value; 2], sum);
            values.push(value);
        }
        let total = k.reduce_wave(sum, Alu::fadd);
        let factor = k.rsq(total.mul_add(1.0 / value_dim as f32, context.arguments.eps));
        let row = Self::row(k, run, first, token);
        let start = Self::head_start(k, context, row);
        for (((element, value), weight), gate) in elements.iter().zip(values).zip(&self.norm).zip(&own.output)
        {
            let share = k.sigmoid(*gate, 1.0);
            let result = k.eval(value * factor * *weight * (*gate * share));
            let write = |k: &mut Builder| k.write(context.arguments.out, element.offset + start, result);
            match element.inside {
                Some(inside) => k.when(inside, write),
                None => write(k),
            }
        }
    }
}
