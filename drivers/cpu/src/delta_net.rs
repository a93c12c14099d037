//! The gated delta rule on blocks of tokens of one value head: short convolution, unit length, recurrence, gated norm.
//!
//! The recurrence runs token after token, whatever the number of rows, so that a token's result never depends on where
//! a prompt was cut. It is fast because the state's columns do not depend on each other: it is kept in panels of
//! [`PART_COLUMNS`] columns, which stay in the first-level cache while a block of tokens goes through. The definition is
//! `doorbell_core::reference::delta_step`. Not here: which thread takes which head, see `backend::delta_net`.

use crate::elementwise::{norm_scale, sum_of_squares, times_sigmoid};
use crate::simd::{Kernel, Simd};

/// Columns of a part of the state: two vectors of the widest form.
pub(crate) const PART_COLUMNS: usize = 32;

/// Tokens of a block.
pub(crate) const BLOCK: usize = 16;

/// Floats of one value head's state, `[panels, key_dim, PART_COLUMNS]`; columns beyond the last value are 0.
pub(crate) const fn head_state(key_dim: usize, value_dim: usize) -> usize {
    value_dim.div_ceil(PART_COLUMNS) * PART_COLUMNS * key_dim
}

/// `out = silu(sum of tap weights times the inputs of the last tokens)` for some channels of one token.
#[derive(Debug)]
pub(crate) struct Convolve<'a> {
    /// `[taps]`: the channels' weights, oldest token first.
    pub(crate) kernel: &'a [&'a [f32]],
    /// `[taps]`: the channels' inputs, oldest token first.
    pub(crate) inputs: &'a [&'a [f32]],
    /// As long as each of these.
    pub(crate) out: &'a mut [f32],
}

impl Kernel for Convolve<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Self { kernel, inputs, out } = self;
        let whole = out.len() / S::LANES * S::LANES;
        for at in (0..whole).step_by(S::LANES) {
            let mut sum = simd.splat_f(0.0);
            for (kernel, input) in kernel.iter().zip(inputs) {
                sum = simd.fma(simd.read_f(&input[at..]), simd.read_f(&kernel[at..]), sum);
            }
            simd.write_f(&mut out[at..], times_sigmoid(simd, sum, simd.splat_f(1.0)));
        }
        if whole < out.len() {
            // the same lanes, padded: a channel's result does not depend on where it stands
            let mut padded = [0.0; 16];
            let mut sum = simd.splat_f(0.0);
            for (kernel, input) in kernel.iter().zip(inputs) {
                let (mut a, mut b) = ([0.0; 16], [0.0; 16]);
                a[..out.len() - whole].copy_from_slice(&input[whole..out.len()]);
                b[..out.len() - whole].copy_from_slice(&kernel[whole..out.len()]);
                sum = simd.fma(simd.read_f(&a), simd.read_f(&b), sum);
            }
            simd.write_f(&mut padded, times_sigmoid(simd, sum, simd.splat_f(1.0)));
            let rest = out.len() - whole;
            out[whole..].copy_from_slice(&padded[..rest]);
        }
    }
}

/// `x *= scale / sqrt(sum x^2 + eps)`
#[derive(Debug)]
pub(crate) struct UnitLength<'a> {
    pub(crate) x: &'a mut [f32],
    pub(crate) eps: f32,
    pub(crate) scale: f32,
}

impl Kernel for UnitLength<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let scale = self.scale / libm::sqrtf(sum_of_squares(simd, self.x) + self.eps);
        self.x.iter_mut().for_each(|x| *x *= scale);
    }
}

/// The recurrence of one head over a block of tokens.
#[derive(Debug)]
pub(crate) struct Recurrence<'a> {
    /// `[tokens, key_dim]`: of unit length, queries divided by the root of `key_dim`.
    pub(crate) queries: &'a [f32],
    /// `[tokens, key_dim]`
    pub(crate) keys: &'a [f32],
    /// `[tokens, panels * PART_COLUMNS]`
    pub(crate) values: &'a [f32],
    /// `[tokens]`: decay of the state and strength of the write.
    pub(crate) factors: &'a [(f32, f32)],
    pub(crate) key_dim: usize,
    /// [`head_state`]
    pub(crate) state: &'a mut [f32],
    /// `[tokens, panels * PART_COLUMNS]`
    pub(crate) out: &'a mut [f32],
}

impl Kernel for Recurrence<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Self { queries, keys, values, factors, key_dim, state, out } = self;
        let part_len = key_dim * PART_COLUMNS;
        let width = state.len() / key_dim;
        for (part, state) in state.chunks_exact_mut(part_len).enumerate() {
            for (token, &(decay, beta)) in factors.iter().enumerate() {
                let vector = token * key_dim..(token + 1) * key_dim;
                let cells = token * width + part * PART_COLUMNS;
                let step = Token {
                    query: &queries[vector.clone()],
                    key: &keys[vector],
                    value: &values[cells..cells + PART_COLUMNS],
                    decay,
                    beta,
                };
                step.advance(simd, state, &mut out[cells..cells + PART_COLUMNS]);
            }
        }
    }
}

/// One token and one part.
struct Token<'a> {
    query: &'a [f32],
    key: &'a [f32],
    value: &'a [f32],
    decay: f32,
    beta: f32,
}

/// Vectors of a part in the narrowest form that has its own instructions.
const VECTORS: usize = 4;

impl Token<'_> {
    /// With `S' = decay S`: `u = beta (v - k'S')`, `S = S' + k u'`, `out = q'S' + (q'k) u`.
    #[inline(always)]
    fn advance<S: Simd>(&self, simd: S, state: &mut [f32], out: &mut [f32]) {
        let zero = simd.splat_f(0.0);
        // parts of PART_COLUMNS columns that fit the registers; the portable form has more of them
        for first in (0..PART_COLUMNS).step_by(VECTORS * S::LANES) {
            let vectors = ((PART_COLUMNS - first) / S::LANES).min(VECTORS);
            let (mut stored, mut asked) = ([zero; VECTORS], [zero; VECTORS]);
            for ((row, &key), &query) in state.chunks_exact(PART_COLUMNS).zip(self.key).zip(self.query) {
                let (key, query) = (simd.splat_f(key), simd.splat_f(query));
                for vector in 0..vectors {
                    let cells = simd.read_f(&row[first + vector * S::LANES..]);
                    stored[vector] = simd.fma(cells, key, stored[vector]);
                    asked[vector] = simd.fma(cells, query, asked[vector]);
                }
            }
            let decay = simd.splat_f(self.decay);
            let beta = simd.splat_f(self.beta);
            let along = simd.splat_f(self.query.iter().zip(self.key).fold(0.0, |sum, (q, k)| sum + q * k));
            let mut change = [zero; VECTORS];
            for vector in 0..vectors {
                let at = first + vector * S::LANES;
                let missing = simd.fnma(decay, stored[vector], simd.read_f(&self.value[at..]));
                change[vector] = simd.mul_f(beta, missing);
                let answer = simd.fma(along, change[vector], simd.mul_f(decay, asked[vector]));
                simd.write_f(&mut out[at..], answer);
            }
            for (row, &key) in state.chunks_exact_mut(PART_COLUMNS).zip(self.key) {
                let key = simd.splat_f(key);
                for vector in 0..vectors {
                    let cells = &mut row[first + vector * S::LANES..];
                    let kept = simd.mul_f(decay, simd.read_f(cells));
                    simd.write_f(cells, simd.fma(key, change[vector], kept));
                }
            }
        }
    }
}

/// The decay of the state and the strength of the write, of one token and head.
pub(crate) fn factors(rate: f32, alpha: f32, beta: f32) -> (f32, f32) {
    use doorbell_core::reference::{sigmoid, softplus};
    (libm::expf(rate * softplus(alpha)), sigmoid(beta))
}

/// `out = x weight / sqrt(mean x^2 + eps) silu(gate)`
#[derive(Debug)]
pub(crate) struct GatedNorm<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) weight: &'a [f32],
    pub(crate) eps: f32,
    pub(crate) gate: &'a [f32],
    pub(crate) out: &'a mut [f32],
}

impl Kernel for GatedNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let scale = norm_scale(simd, self.x, self.eps);
        let pairs = self.out.iter_mut().zip(self.x).zip(self.weight);
        pairs.for_each(|((out, x), weight)| *out = x * scale * weight);
        let mut gates = [0.0; 16];
        let one = simd.splat_f(1.0);
        for (out, gate) in self.out.chunks_mut(S::LANES).zip(self.gate.chunks(S::LANES)) {
            gates[..gate.len()].copy_from_slice(gate);
            let silu = times_sigmoid(simd, simd.read_f(&gates), one);
            simd.write_f(&mut gates, silu);
            out.iter_mut().zip(&gates).for_each(|(out, gate)| *out *= gate);
        }
    }
}
