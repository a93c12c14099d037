//! Attention of one row: scores, softmax with an optional sink, weighted values.

use super::elementwise::soft_cap;
use crate::plan::Attend;

/// The head shape of one attention.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// KV heads.
    pub kv: usize,
    /// Elements of a key.
    pub key_dim: usize,
    /// Elements of a value.
    pub value_dim: usize,
}

/// Attends one row at `position`.
///
/// `query` is `[heads, key_dim]`, `out` `[heads, value_dim]`; `key(p, h)` and `value(p, h)` give the cached vectors
/// of KV head `h` at position `p`; `scores` is scratch of at least `position + 1` elements.
pub fn attend_row<'k>(
    op: &Attend,
    heads: Heads,
    position: u32,
    query: &[f32],
    cached: &dyn Fn(u32, usize) -> (&'k [f32], &'k [f32]),
    sinks: Option<&[f32]>,
    (scores, out): (&mut [f32], &mut [f32]),
) {
    let first = op.window.map_or(0, |window| (position + 1).saturating_sub(window));
    let group = heads.query / heads.kv;
    for head in 0..heads.query {
        let query = &query[head * heads.key_dim..(head + 1) * heads.key_dim];
        let out = &mut out[head * heads.value_dim..(head + 1) * heads.value_dim];
        let sink = sinks.map(|sinks| sinks[head]);
        let mut max = sink.unwrap_or(f32::NEG_INFINITY);
        for (score, at) in scores.iter_mut().zip(first..=position) {
            let (key, _) = cached(at, head / group);
            let sum: f64 = query.iter().zip(key).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
            *score = sum as f32 * op.scale;
            if let Some(cap) = op.soft_cap {
                *score = soft_cap(*score, cap);
            }
            max = max.max(*score);
        }
        let mut total = sink.map_or(0.0, |sink| f64::from(libm::expf(sink - max)));
        out.fill(0.0);
        for (score, at) in scores.iter().zip(first..=position) {
            let weight = libm::expf(score - max);
            total += f64::from(weight);
            let (_, value) = cached(at, head / group);
            for (out, value) in out.iter_mut().zip(value) {
                *out += weight * value;
            }
        }
        let inverse = (1.0 / total) as f32;
        out.iter_mut().for_each(|out| *out *= inverse);
    }
}
