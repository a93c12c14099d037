//! Rotary embeddings: per-pair frequencies with every scaling folded in.
//!
//! All scalings are linear in the position, so that one factor per pair and one magnitude suffice.
//! Source: `ggml_rope` in `ggml/src/ggml-cpu/ops.cpp` and YaRN (arXiv 2309.00071).

use crate::heap::{self, Heap, OutOfMemory, Vec};

/// The elements of a head that a rotation pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// `(x[2j], x[2j+1])`, ggml's NORM.
    Adjacent,
    /// `(x[j], x[j + dims/2])`, ggml's NEOX.
    Halves,
}

/// The scaling of frequencies beyond the trained context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scaling {
    /// `theta / factor`.
    Linear { factor: f32, magnitude: f32 },
    /// Interpolates low frequencies only.
    Yarn {
        factor: f32,
        original_context: f32,
        magnitude: f32,
        beta_fast: f32,
        beta_slow: f32,
        extrapolation: f32,
    },
}

/// A rotary embedding: pair `j` turns by `position * frequencies[j]`.
#[derive(Debug)]
pub struct Rope<'a> {
    /// The elements that form a pair.
    pub pairing: Pairing,
    /// `[dims / 2]`: radians per position.
    pub frequencies: Vec<'a, f64>,
    /// Factor on sine and cosine.
    pub magnitude: f32,
}

impl<'a> Rope<'a> {
    /// Frequencies `base^(-2j/dims) / divisor_j` with the scaling applied; `divisors` is empty or `[dims / 2]`.
    pub(super) fn new(
        pairing: Pairing,
        dims: u32,
        base: f32,
        scaling: Scaling,
        divisors: &[f32],
        heap: Heap<'a>,
    ) -> Result<Self, OutOfMemory> {
        let pairs = dims / 2;
        let mut frequencies = heap::with_capacity(heap, pairs as usize)?;
        let ramp = Ramp::new(dims, base, scaling);
        for pair in 0..pairs {
            let divisor = divisors.get(pair as usize).copied().unwrap_or(1.0);
            let own =
                libm::pow(f64::from(base), -2.0 * f64::from(pair) / f64::from(dims)) / f64::from(divisor);
            frequencies.push(own * ramp.factor(pair));
        }
        Ok(Self { pairing, frequencies, magnitude: ramp.magnitude })
    }

    /// Number of rotated elements per head.
    pub fn dims(&self) -> usize {
        self.frequencies.len() * 2
    }

    /// Writes `cos` and `sin` (magnitude included) of every pair at a position: both `[dims / 2]`.
    pub fn angles(&self, position: u32, cos: &mut [f32], sin: &mut [f32]) {
        for ((frequency, cos), sin) in self.frequencies.iter().zip(cos).zip(sin) {
            let (s, c) = libm::sincos(f64::from(position) * frequency);
            *cos = c as f32 * self.magnitude;
            *sin = s as f32 * self.magnitude;
        }
    }
}

/// The share of interpolation per pair.
struct Ramp {
    interpolated: f64,
    low: f64,
    high: f64,
    extrapolation: f64,
    magnitude: f32,
}

impl Ramp {
    fn new(dims: u32, base: f32, scaling: Scaling) -> Self {
        match scaling {
            Scaling::Linear { factor, magnitude } => Self {
                interpolated: 1.0 / f64::from(factor),
                low: 0.0,
                high: 0.0,
                extrapolation: 0.0,
                magnitude,
            },
            Scaling::Yarn { factor, original_context, magnitude, beta_fast, beta_slow, extrapolation } => {
                let dims = f64::from(dims);
                let turns = |beta: f32| {
                    let ratio = f64::from(original_context) / (f64::from(beta) * 2.0 * core::f64::consts::PI);
                    dims * libm::log(ratio) / (2.0 * libm::log(f64::from(base)))
                };
                Self {
                    interpolated: 1.0 / f64::from(factor),
                    low: libm::floor(turns(beta_fast)).max(0.0),
                    high: libm::ceil(turns(beta_slow)).min(dims - 1.0),
                    extrapolation: f64::from(extrapolation),
                    magnitude,
                }
            }
        }
    }

    fn factor(&self, pair: u32) -> f64 {
        let span = (self.high - self.low).max(0.001);
        let ramp = 1.0 - ((f64::from(pair) - self.low) / span).clamp(0.0, 1.0);
        let mix = ramp * self.extrapolation;
        self.interpolated * (1.0 - mix) + mix
    }
}
