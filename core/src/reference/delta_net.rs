//! The gated delta rule of one token: short convolution, gates, recurrence and gated norm.
//!
//! Source: Gated Delta Networks (arXiv 2412.06464) as Qwen3-Next and Qwen3.5 use it; `delta-net-base.cpp` of
//! llama.cpp (2026). Not here: where states are kept, see `state`.

use super::elementwise::{rms_norm, sigmoid};
use crate::plan::DeltaNet;

/// The model's vectors that a delta net reads.
#[derive(Clone, Copy, Debug)]
pub struct DeltaWeights<'w> {
    /// `[taps, channels]`, the last row for the newest token.
    pub convolution: &'w [f32],
    /// `[value_heads]`: minus the rate of decay.
    pub decay: &'w [f32],
    /// `[value_heads]`, added to alpha.
    pub step_bias: &'w [f32],
    /// `[value_dim]`
    pub norm: &'w [f32],
}

/// One token's products.
#[derive(Clone, Copy, Debug)]
pub struct DeltaInputs<'i> {
    /// `[channels]`: queries and keys of all key heads, then values of all value heads, before the convolution.
    pub mixed: &'i [f32],
    /// `[value_heads, value_dim]`: the output gate.
    pub gate: &'i [f32],
    /// Beta of a value head, before the sigmoid, and its alpha.
    pub gates: &'i dyn DeltaGateValues,
}

/// Where beta and alpha of a head are read.
pub trait DeltaGateValues: core::fmt::Debug {
    /// `(beta, alpha)` of a value head.
    fn of(&self, head: usize) -> (f32, f32);
}

/// One sequence's state in one layer.
#[derive(Debug)]
pub struct DeltaState<'s> {
    /// `[taps, channels]`: the input at position `p` is in row `p % taps`.
    pub convolution: &'s mut [f32],
    /// `[value_heads, key_dim, value_dim]`
    pub recurrent: &'s mut [f32],
}

/// Where one token's computation works.
#[derive(Debug)]
pub struct DeltaBuffers<'s> {
    /// `[channels]`
    pub mixed: &'s mut [f32],
    /// `[value_dim]`
    pub change: &'s mut [f32],
    /// The result, `[value_heads, value_dim]`.
    pub out: &'s mut [f32],
}

/// Advances a state by the token at `position` and gives the token's output.
pub fn delta_step(
    op: &DeltaNet,
    position: u32,
    weights: DeltaWeights<'_>,
    inputs: DeltaInputs<'_>,
    state: DeltaState<'_>,
    DeltaBuffers { mixed, change, out }: DeltaBuffers<'_>,
) {
    let shape = op.shape;
    convolve(position as usize, weights.convolution, inputs.mixed, state.convolution, mixed);
    let (key_dim, value_dim) = (shape.key_dim as usize, shape.value_dim as usize);
    let (queries, rest) = mixed.split_at_mut(shape.key_width());
    let (keys, values) = rest.split_at_mut(shape.key_width());
    for head in queries.chunks_exact_mut(key_dim).chain(keys.chunks_exact_mut(key_dim)) {
        unit_length(head, op.norm.eps);
    }
    let scale = 1.0 / libm::sqrtf(key_dim as f32);
    let heads = state.recurrent.chunks_exact_mut(key_dim * value_dim);
    for (head, (state, out)) in heads.zip(out.chunks_exact_mut(value_dim)).enumerate() {
        let (beta, alpha) = inputs.gates.of(head);
        let key_head = shape.key_head(head as u32) as usize * key_dim;
        let (query, key) = (&queries[key_head..key_head + key_dim], &keys[key_head..key_head + key_dim]);
        let value = &values[head * value_dim..(head + 1) * value_dim];
        let log_decay = weights.decay[head] * softplus(alpha + weights.step_bias[head]);
        let rule = Rule { decay: libm::expf(log_decay), beta: sigmoid(beta), scale };
        rule.advance(state, query, key, value, change, out);
        change.copy_from_slice(out);
        rms_norm(change, weights.norm, op.norm.eps, out);
        let gates = &inputs.gate[head * value_dim..(head + 1) * value_dim];
        out.iter_mut().zip(gates).for_each(|(out, &gate)| *out *= gate * sigmoid(gate));
    }
}

/// `out = silu(sum of the last tokens' inputs times their taps)`; the state takes the newest.
fn convolve(position: usize, kernel: &[f32], newest: &[f32], state: &mut [f32], out: &mut [f32]) {
    let channels = newest.len();
    let taps = kernel.len() / channels;
    let row = |position: usize| position % taps * channels..(position % taps + 1) * channels;
    state[row(position)].copy_from_slice(newest);
    out.fill(0.0);
    for (tap, kernel) in kernel.chunks_exact(channels).enumerate() {
        // the oldest tap first; rows of positions before the first are zeros
        let input = &state[row(position + tap + 1)];
        for ((out, &x), &weight) in out.iter_mut().zip(input).zip(kernel) {
            *out = libm::fmaf(x, weight, *out);
        }
    }
    out.iter_mut().for_each(|y| *y *= sigmoid(*y));
}

/// `x / sqrt(sum(x^2) + eps)`
fn unit_length(x: &mut [f32], eps: f32) {
    let sum: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let scale = (1.0 / libm::sqrt(sum + f64::from(eps))) as f32;
    x.iter_mut().for_each(|x| *x *= scale);
}

/// `ln(1 + exp(x))`, `x` itself where the exponential would overflow.
pub fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { libm::log1pf(libm::expf(x)) }
}

/// The factors of one token and head.
struct Rule {
    decay: f32,
    beta: f32,
    /// Factor on queries.
    scale: f32,
}

impl Rule {
    /// `S = decay S; u = beta (v - S'k); S += k u'; out = S'q scale`, with `S` `[key_dim, value_dim]`.
    fn advance(
        &self,
        state: &mut [f32],
        query: &[f32],
        key: &[f32],
        value: &[f32],
        change: &mut [f32],
        out: &mut [f32],
    ) {
        let width = value.len();
        change.fill(0.0);
        for (row, &key) in state.chunks_exact_mut(width).zip(key) {
            for (cell, sum) in row.iter_mut().zip(change.iter_mut()) {
                *cell *= self.decay;
                *sum = libm::fmaf(*cell, key, *sum);
            }
        }
        change.iter_mut().zip(value).for_each(|(change, value)| *change = self.beta * (value - *change));
        out.fill(0.0);
        for ((row, &key), &query) in state.chunks_exact_mut(width).zip(key).zip(query) {
            for ((cell, &change), out) in row.iter_mut().zip(change.iter()).zip(out.iter_mut()) {
                *cell = libm::fmaf(key, change, *cell);
                *out = libm::fmaf(*cell, query * self.scale, *out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_again_under_its_key() {
        let mut state = [0.0; 6];
        let (mut change, mut out) = ([0.0; 3], [0.0; 3]);
        let rule = Rule { decay: 1.0, beta: 1.0, scale: 1.0 };
        rule.advance(&mut state, &[0.0, 1.0], &[1.0, 0.0], &[1.0, 2.0, 3.0], &mut change, &mut out);
        assert_eq!(out, [0.0; 3], "nothing is stored under the other key");
        rule.advance(&mut state, &[1.0, 0.0], &[0.0, 1.0], &[4.0, 5.0, 6.0], &mut change, &mut out);
        assert_eq!(out, [1.0, 2.0, 3.0]);
        // a second value under a key replaces the first
        rule.advance(&mut state, &[1.0, 0.0], &[1.0, 0.0], &[7.0, 8.0, 9.0], &mut change, &mut out);
        assert_eq!(out, [7.0, 8.0, 9.0]);
        let forgets = Rule { decay: 0.5, beta: 0.0, scale: 2.0 };
        forgets.advance(&mut state, &[0.0, 1.0], &[0.0, 1.0], &[1.0; 3], &mut change, &mut out);
        assert_eq!(out, [4.0, 5.0, 6.0]);
    }

    #[test]
    fn convolutions_see_the_last_tokens() {
        let mut state = [0.0; 6];
        let mut out = [0.0; 2];
        let kernel = [1.0, 0.0, 10.0, 0.0, 100.0, 1.0];
        // silu of large sums is the sum itself
        for (position, expected) in [100.0, 210.0, 321.0, 432.0].into_iter().enumerate() {
            let token = position as f32 + 1.0;
            convolve(position, &kernel, &[token, 50.0 * token], &mut state, &mut out);
            assert_eq!(out, [expected, 50.0 * token]);
        }
        assert_eq!(state, [4.0, 200.0, 2.0, 100.0, 3.0, 150.0]);
    }

    #[test]
    fn softplus_never_overflows() {
        assert_eq!(softplus(1000.0), 1000.0);
        assert_eq!(softplus(-1000.0), 0.0);
        assert!((softplus(0.0) - core::f32::consts::LN_2).abs() < 1e-7);
    }
}
