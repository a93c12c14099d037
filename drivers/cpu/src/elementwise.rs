//! Row-wise arithmetic beside the products: norms, gated activations, rotation, scaling, and the vector exponential.
//!
//! Each kernel's result for a row depends on that row alone. Its definition is `doorbell_core::reference`.

use crate::simd::{Kernel, Simd};
use doorbell_core::model::Pairing;
use doorbell_core::plan::Glu;

/// `e^x` to about 1e-7 relative; 0 below −87.7 (minus infinity included), about 2.4e38 from 88.3 on, NaN for NaN.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::F) -> S::F {
    // n ln 2 is subtracted in two steps, the first of which is exact (Cephes expf).
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Least-squares coefficients of (e^r − 1 − r) / r² on |r| ≤ ln 2 / 2 (Cephes expf).
    const TERMS: [f32; 6] =
        [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    let x = simd.max_f(simd.splat_f(-88.029_69), x);
    let x = simd.min_f(simd.splat_f(88.3), x);
    let n = simd.round(simd.mul_f(x, simd.splat_f(core::f32::consts::LOG2_E)));
    let whole = simd.to_f(n);
    let r = simd.fnma(whole, simd.splat_f(LN2_LOW), simd.fnma(whole, simd.splat_f(LN2_HIGH), x));
    let mut y = simd.splat_f(TERMS[0]);
    for term in &TERMS[1..] {
        y = simd.fma(y, r, simd.splat_f(*term));
    }
    let y = simd.add_f(simd.fma(y, simd.mul_f(r, r), r), simd.splat_f(1.0));
    // 2^n; n = −127 gives an exponent field of 0, hence 0.
    simd.mul_f(y, simd.as_f(simd.shl(simd.add(n, simd.splat(127)), 23)))
}

/// `x / (1 + e^(−s x))`
#[inline(always)]
pub(crate) fn times_sigmoid<S: Simd>(simd: S, x: S::F, s: S::F) -> S::F {
    let minus = simd.fnma(s, x, simd.splat_f(0.0));
    simd.div_f(x, simd.add_f(simd.splat_f(1.0), exp(simd, minus)))
}

/// `tanh x` to about 1e-7 absolute.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(simd: S, x: S::F) -> S::F {
    let e = exp(simd, simd.add_f(x, x));
    let one = simd.splat_f(1.0);
    simd.div_f(simd.sub_f(e, one), simd.add_f(e, one))
}

#[inline(always)]
fn glu<S: Simd>(simd: S, glu: Glu, gate: S::F, up: S::F) -> S::F {
    match glu {
        Glu::Silu => simd.mul_f(times_sigmoid(simd, gate, simd.splat_f(1.0)), up),
        Glu::Gelu => {
            // (1 + tanh u) / 2 = 1 / (1 + e^(−2u)) with u = √(2/π) x (1 + 0.044715 x²)
            let square = simd.mul_f(gate, gate);
            let slope = simd.fma(square, simd.splat_f(0.044_715), simd.splat_f(1.0));
            let slope = simd.mul_f(slope, simd.splat_f(2.0 * 0.797_884_6));
            simd.mul_f(times_sigmoid(simd, gate, slope), up)
        }
        Glu::Oai { alpha, limit } => {
            let limit_high = simd.splat_f(limit);
            let gate = simd.min_f(limit_high, gate);
            let up = simd.max_f(simd.splat_f(-limit), simd.min_f(limit_high, up));
            simd.mul_f(times_sigmoid(simd, gate, simd.splat_f(alpha)), simd.add_f(up, simd.splat_f(1.0)))
        }
    }
}

/// A function of each lane. (A closure would not always be inlined, and a kernel's pieces must be.)
trait LaneFunction: Copy {
    /// The function's value.
    fn apply<S: Simd>(self, simd: S, x: S::F) -> S::F;
}

/// `factor · x`
#[derive(Clone, Copy)]
struct Scaled(f32);

impl LaneFunction for Scaled {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, x: S::F) -> S::F {
        simd.mul_f(x, simd.splat_f(self.0))
    }
}

/// `limit · tanh(scale · x / limit)`
#[derive(Clone, Copy)]
struct Capped {
    scale: f32,
    limit: f32,
}

impl LaneFunction for Capped {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, x: S::F) -> S::F {
        let limit = simd.splat_f(self.limit);
        simd.mul_f(limit, tanh(simd, simd.div_f(simd.mul_f(x, simd.splat_f(self.scale)), limit)))
    }
}

/// `e^(x − minus)`
#[derive(Clone, Copy)]
struct ExpMinus(f32);

impl LaneFunction for ExpMinus {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, x: S::F) -> S::F {
        exp(simd, simd.sub_f(x, simd.splat_f(self.0)))
    }
}

/// Replaces each `LANES` floats of `x`, the last padded with zeros, by the value of `f`.
#[inline(always)]
fn update<S: Simd>(simd: S, x: &mut [f32], f: impl LaneFunction) {
    let mut chunks = x.chunks_exact_mut(S::LANES);
    for chunk in &mut chunks {
        let x = simd.read_f(chunk);
        simd.write_f(chunk, f.apply(simd, x));
    }
    let rest = chunks.into_remainder();
    if !rest.is_empty() {
        let mut padded = [0.0; 16];
        padded[..rest.len()].copy_from_slice(rest);
        let x = simd.read_f(&padded);
        simd.write_f(&mut padded, f.apply(simd, x));
        rest.copy_from_slice(&padded[..rest.len()]);
    }
}

/// Σ x², lane by lane, then over the lanes.
#[inline(always)]
pub(crate) fn sum_of_squares<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let mut sums = [simd.splat_f(0.0); 2];
    let mut chunks = x.chunks_exact(2 * S::LANES);
    for chunk in &mut chunks {
        let (a, b) = (simd.read_f(chunk), simd.read_f(&chunk[S::LANES..]));
        sums = [simd.fma(a, a, sums[0]), simd.fma(b, b, sums[1])];
    }
    let rest: f32 = chunks.remainder().iter().map(|x| x * x).sum();
    simd.sum(simd.add_f(sums[0], sums[1])) + rest
}

/// `out = x · weight / √(mean x² + eps)`
#[derive(Debug)]
pub struct RmsNorm<'a> {
    /// The row.
    pub x: &'a [f32],
    /// As long.
    pub weight: &'a [f32],
    /// Added to the mean square.
    pub eps: f32,
    /// As long.
    pub out: &'a mut [f32],
}

impl Kernel for RmsNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let scale = norm_scale(simd, self.x, self.eps);
        for ((out, x), weight) in self.out.iter_mut().zip(self.x).zip(self.weight) {
            *out = x * scale * weight;
        }
    }
}

/// `out = (x - mean x) · weight / √(variance x + eps) + bias`
#[derive(Debug)]
pub struct LayerNorm<'a> {
    /// The row.
    pub x: &'a [f32],
    /// As long.
    pub weight: &'a [f32],
    /// As long.
    pub bias: Option<&'a [f32]>,
    /// Added to the variance.
    pub eps: f32,
    /// As long.
    pub out: &'a mut [f32],
}

impl Kernel for LayerNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Self { x, weight, bias, eps, out } = self;
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / x.len() as f64;
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = (f64::from(x) - mean) as f32);
        let scale = norm_scale(simd, out, eps);
        out.iter_mut().zip(weight).for_each(|(x, weight)| *x = *x * scale * weight);
        if let Some(bias) = bias {
            out.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
        }
    }
}

/// `to = scale · (to + x · weight / √(mean x² + eps))`, on a part of the row.
#[derive(Debug)]
pub struct NormAdd<'a> {
    /// The whole row.
    pub x: &'a [f32],
    /// As long.
    pub weight: &'a [f32],
    /// Added to the mean square.
    pub eps: f32,
    /// First element of the part.
    pub first: usize,
    /// The part.
    pub to: &'a mut [f32],
    /// False to replace `to` instead of adding to it.
    pub adds: bool,
    /// Factor on the sum.
    pub scale: f32,
}

impl Kernel for NormAdd<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let scale = norm_scale(simd, self.x, self.eps);
        let part = self.x[self.first..].iter().zip(&self.weight[self.first..]);
        for (to, (x, weight)) in self.to.iter_mut().zip(part) {
            let kept = if self.adds { *to } else { 0.0 };
            *to = (kept + x * scale * weight) * self.scale;
        }
    }
}

#[inline(always)]
pub(crate) fn norm_scale<S: Simd>(simd: S, x: &[f32], eps: f32) -> f32 {
    1.0 / libm::sqrtf(sum_of_squares(simd, x) / x.len() as f32 + eps)
}

/// `to *= sigmoid(gate)`
#[derive(Debug)]
pub struct SigmoidGate<'a> {
    /// The gates.
    pub gate: &'a [f32],
    /// As long.
    pub to: &'a mut [f32],
}

impl Kernel for SigmoidGate<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let (one, zero) = (simd.splat_f(1.0), simd.splat_f(0.0));
        let mut padded = [0.0; 16];
        for (to, gate) in self.to.chunks_mut(S::LANES).zip(self.gate.chunks(S::LANES)) {
            padded[..gate.len()].copy_from_slice(gate);
            let minus = simd.sub_f(zero, simd.read_f(&padded));
            let factors = simd.div_f(one, simd.add_f(one, exp(simd, minus)));
            simd.write_f(&mut padded, factors);
            to.iter_mut().zip(&padded).for_each(|(to, factor)| *to *= factor);
        }
    }
}

/// Per-head norm (if any), then rotation (if any), of every head of a row.
#[derive(Debug)]
pub struct Heads<'a> {
    /// `[heads, head_dim]`, changed in place.
    pub row: &'a mut [f32],
    /// Elements per head.
    pub head_dim: usize,
    /// The norm.
    pub norm: Option<HeadNorm<'a>>,
    /// The rotation.
    pub rotation: Option<Rotation<'a>>,
}

/// The norm of each head.
#[derive(Clone, Copy, Debug)]
pub struct HeadNorm<'a> {
    /// As long as a head.
    pub weight: &'a [f32],
    /// Added to the mean square.
    pub eps: f32,
}

/// The rotation of each head at a position.
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'a> {
    /// Elements that are rotated together.
    pub pairing: Pairing,
    /// One per pair.
    pub cos: &'a [f32],
    /// One per pair.
    pub sin: &'a [f32],
}

impl Kernel for Heads<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        for head in self.row.chunks_exact_mut(self.head_dim) {
            if let Some(HeadNorm { weight, eps }) = self.norm {
                let scale = norm_scale(simd, head, eps);
                for (x, weight) in head.iter_mut().zip(weight) {
                    *x = *x * scale * weight;
                }
            }
            if let Some(Rotation { pairing, cos, sin }) = self.rotation {
                rotate(pairing, head, cos, sin);
            }
        }
    }
}

#[inline(always)]
fn rotate(pairing: Pairing, head: &mut [f32], cos: &[f32], sin: &[f32]) {
    match pairing {
        Pairing::Adjacent => {
            for ((pair, cos), sin) in head.as_chunks_mut::<2>().0.iter_mut().zip(cos).zip(sin) {
                let [x, y] = *pair;
                *pair = [x * cos - y * sin, x * sin + y * cos];
            }
        }
        Pairing::Halves => {
            let (first, second) = head.split_at_mut(cos.len());
            for (((x, y), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                (*x, *y) = (*x * cos - *y * sin, *x * sin + *y * cos);
            }
        }
    }
}

/// Rows of 32, gate in the first half and up in the second: `row[..16] = glu(row[..16], row[16..])`.
#[derive(Debug)]
pub struct GatedPairs<'a> {
    /// The non-linearity.
    pub glu: Glu,
    /// Changed in place.
    pub rows: &'a mut [f32],
}

impl Kernel for GatedPairs<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        for row in self.rows.as_chunks_mut::<32>().0 {
            let (gate, up) = row.split_at_mut(16);
            for (gate, up) in gate.chunks_exact_mut(S::LANES).zip(up.chunks_exact(S::LANES)) {
                let y = glu(simd, self.glu, simd.read_f(gate), simd.read_f(up));
                simd.write_f(gate, y);
            }
        }
    }
}

/// `x = cap · tanh(scale · x / cap)`, or `scale · x` without a cap.
#[derive(Debug)]
pub struct Cap<'a> {
    /// Changed in place.
    pub x: &'a mut [f32],
    /// Factor.
    pub scale: f32,
    /// Limit.
    pub cap: Option<f32>,
}

impl Kernel for Cap<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        match self.cap {
            None => update(simd, self.x, Scaled(self.scale)),
            Some(limit) => update(simd, self.x, Capped { scale: self.scale, limit }),
        }
    }
}

/// `x = e^(x − minus)`
#[derive(Debug)]
pub struct Exponential<'a> {
    /// Changed in place.
    pub x: &'a mut [f32],
    /// Subtracted first.
    pub minus: f32,
}

impl Kernel for Exponential<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        update(simd, self.x, ExpMinus(self.minus));
    }
}

/// `1 / (1 + e^(−x))`
#[must_use]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Isa;
    use alloc::vec;
    use alloc::vec::Vec;
    use doorbell_core::reference;

    struct Each<'a, F>(&'a mut [f32], F);

    #[derive(Clone, Copy)]
    struct Exp;
    impl LaneFunction for Exp {
        #[inline(always)]
        fn apply<S: Simd>(self, simd: S, x: S::F) -> S::F {
            exp(simd, x)
        }
    }

    #[derive(Clone, Copy)]
    struct Tanh;
    impl LaneFunction for Tanh {
        #[inline(always)]
        fn apply<S: Simd>(self, simd: S, x: S::F) -> S::F {
            tanh(simd, x)
        }
    }

    impl<F: LaneFunction> Kernel for Each<'_, F> {
        type Output = ();

        #[inline(always)]
        fn call<S: Simd>(self, simd: S) {
            update(simd, self.0, self.1);
        }
    }

    fn values(count: usize, scale: f32) -> Vec<f32> {
        let mut state = count as u32;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale
            })
            .collect()
    }

    fn nmse(found: &[f32], expected: &[f32]) -> f64 {
        let pairs = || found.iter().zip(expected).map(|(&a, &b)| (f64::from(a), f64::from(b)));
        pairs().map(|(a, b)| (a - b).powi(2)).sum::<f64>() / pairs().map(|(_, b)| b * b).sum::<f64>()
    }

    #[test]
    fn exp_is_close_to_f64_and_exact_at_the_ends() {
        for isa in Isa::available() {
            let inputs: Vec<f32> = (-8700..8830).map(|i| i as f32 * 0.01).collect();
            let mut outputs = inputs.clone();
            isa.run(Each(&mut outputs, Exp));
            for (x, y) in inputs.iter().zip(&outputs) {
                let exact = f64::from(*x).exp();
                assert!((f64::from(*y) / exact - 1.0).abs() < 2e-7, "exp({x}) = {y}, {}", isa.name());
            }
            let mut ends = [f32::NEG_INFINITY, -1e30, -100.0, 0.0, f32::NAN, f32::INFINITY];
            isa.run(Each(&mut ends, Exp));
            assert_eq!(ends[..4], [0.0, 0.0, 0.0, 1.0]);
            assert!(ends[4].is_nan() && ends[5] > 1e38);
        }
    }

    #[test]
    fn tanh_is_close_to_f64() {
        for isa in Isa::available() {
            let inputs: Vec<f32> = (-3000..3000).map(|i| i as f32 * 0.01).collect();
            let mut outputs = inputs.clone();
            isa.run(Each(&mut outputs, Tanh));
            for (x, y) in inputs.iter().zip(&outputs) {
                assert!((f64::from(*y) - f64::from(*x).tanh()).abs() < 2e-7, "tanh({x}) = {y}");
            }
        }
    }

    #[test]
    fn norms_equal_the_reference() {
        for len in [1, 7, 64, 576, 640, 2048] {
            let (x, weight) = (values(len, 3.0), values(len + 1, 2.0)[1..].to_vec());
            let mut expected = vec![0.0; len];
            reference::rms_norm(&x, &weight, 1e-5, &mut expected);
            for isa in Isa::available() {
                let mut out = vec![0.0; len];
                isa.run(RmsNorm { x: &x, weight: &weight, eps: 1e-5, out: &mut out });
                assert!(nmse(&out, &expected) < 1e-12, "{len} {}", isa.name());
                let mut to = vec![1.0; len];
                let (left, right) = to.split_at_mut(len / 3);
                isa.run(NormAdd {
                    x: &x,
                    weight: &weight,
                    eps: 1e-5,
                    first: 0,
                    to: left,
                    adds: true,
                    scale: 1.0,
                });
                let first = len / 3;
                isa.run(NormAdd {
                    x: &x,
                    weight: &weight,
                    eps: 1e-5,
                    first,
                    to: right,
                    adds: true,
                    scale: 1.0,
                });
                assert_eq!(to, out.iter().map(|x| 1.0 + x).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn gated_activations_equal_the_reference() {
        for glu in [Glu::Silu, Glu::Gelu, Glu::Oai { alpha: 1.702, limit: 7.0 }] {
            let rows = values(32 * 9, 12.0);
            for isa in Isa::available() {
                let mut out = rows.clone();
                isa.run(GatedPairs { glu, rows: &mut out });
                for (row, out) in rows.as_chunks::<32>().0.iter().zip(out.as_chunks::<32>().0) {
                    let expected: Vec<f32> =
                        (0..16).map(|i| reference::glu(glu, row[i], row[16 + i])).collect();
                    assert!(nmse(&out[..16], &expected) < 1e-12, "{glu:?} {}", isa.name());
                }
            }
        }
    }

    #[test]
    fn heads_equal_the_reference() {
        for pairing in [Pairing::Adjacent, Pairing::Halves] {
            for (dim, pairs) in [(64, 32), (80, 16), (256, 128)] {
                let (row, weight) = (values(3 * dim, 2.0), values(dim, 1.5));
                let (cos, sin) = (values(pairs, 1.0), values(pairs + 9, 1.0)[9..].to_vec());
                let mut expected = row.clone();
                for head in expected.chunks_exact_mut(dim) {
                    let copy = head.to_vec();
                    reference::rms_norm(&copy, &weight, 1e-6, head);
                    reference::rotate(pairing, head, &cos, &sin);
                }
                for isa in Isa::available() {
                    let mut out = row.clone();
                    let norm = Some(HeadNorm { weight: &weight, eps: 1e-6 });
                    let rotation = Some(Rotation { pairing, cos: &cos, sin: &sin });
                    isa.run(Heads { row: &mut out, head_dim: dim, norm, rotation });
                    assert!(nmse(&out, &expected) < 1e-12, "{pairing:?} {dim} {}", isa.name());
                }
            }
        }
    }

    #[test]
    fn caps_equal_the_reference() {
        for isa in Isa::available() {
            let x = values(37, 40.0);
            let expected: Vec<f32> = x.iter().map(|x| reference::soft_cap(x * 0.5, 30.0)).collect();
            let mut out = x.clone();
            isa.run(Cap { x: &mut out, scale: 0.5, cap: Some(30.0) });
            assert!(nmse(&out, &expected) < 1e-12);
            isa.run(Cap { x: &mut out, scale: 2.0, cap: None });
            assert!(nmse(&out, &expected.iter().map(|x| 2.0 * x).collect::<Vec<_>>()) < 1e-12);
        }
    }
}
