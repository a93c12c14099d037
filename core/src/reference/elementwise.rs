//! Norms, activations, softmax and rotation on rows of f32.

use crate::model::Pairing;
use crate::plan::{Activation, Glu};

/// `out = x * weight / sqrt(mean(x^2) + eps)`, the mean in f64.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let sum: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let scale = (1.0 / libm::sqrt(sum / x.len() as f64 + f64::from(eps))) as f32;
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}

/// `out = (x - mean(x)) * weight / sqrt(variance(x) + eps) + bias`, mean and variance in f64.
pub fn layer_norm(x: &[f32], weight: &[f32], bias: Option<&[f32]>, eps: f32, out: &mut [f32]) {
    let count = x.len() as f64;
    let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
    let deviation = |x: f32| f64::from(x) - mean;
    let variance = x.iter().map(|&x| deviation(x) * deviation(x)).sum::<f64>() / count;
    let scale = 1.0 / libm::sqrt(variance + f64::from(eps));
    for (index, (out, &x)) in out.iter_mut().zip(x).enumerate() {
        let bias = bias.map_or(0.0, |bias| bias[index]);
        *out = (deviation(x) * scale) as f32 * weight[index] + bias;
    }
}

/// The activation of a feed-forward without a gate.
pub fn activation(kind: Activation, x: f32) -> f32 {
    match kind {
        Activation::Gelu => glu(Glu::Gelu, x, 1.0),
        Activation::ReluSquared => x.max(0.0) * x.max(0.0),
    }
}

/// `1 / (1 + exp(-x))`
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}

/// The gated activation of one pair.
pub fn glu(kind: Glu, gate: f32, up: f32) -> f32 {
    match kind {
        Glu::Silu => gate * sigmoid(gate) * up,
        Glu::Gelu => {
            // sqrt(2 / pi)
            const ROOT: f32 = 0.797_884_6;
            let inner = ROOT * gate * (1.0 + 0.044_715 * gate * gate);
            0.5 * gate * (1.0 + libm::tanhf(inner)) * up
        }
        Glu::Oai { alpha, limit } => {
            let gate = gate.min(limit);
            gate * sigmoid(alpha * gate) * (up.clamp(-limit, limit) + 1.0)
        }
    }
}

/// `cap * tanh(x / cap)`
pub fn soft_cap(x: f32, cap: f32) -> f32 {
    cap * libm::tanhf(x / cap)
}

/// Softmax in place; the largest value is subtracted first.
pub fn softmax(x: &mut [f32]) {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0f64;
    for x in x.iter_mut() {
        *x = libm::expf(*x - max);
        sum += f64::from(*x);
    }
    for x in x.iter_mut() {
        *x = (f64::from(*x) / sum) as f32;
    }
}

/// Rotates the first `2 * cos.len()` elements of a head.
pub fn rotate(pairing: Pairing, head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let pairs = cos.len();
    for pair in 0..pairs {
        let (a, b) = match pairing {
            Pairing::Adjacent => (2 * pair, 2 * pair + 1),
            Pairing::Halves => (pair, pair + pairs),
        };
        let (x, y) = (head[a], head[b]);
        head[a] = x * cos[pair] - y * sin[pair];
        head[b] = x * sin[pair] + y * cos[pair];
    }
}
