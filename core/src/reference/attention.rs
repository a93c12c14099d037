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

/// One of the two cached vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// The key.
    Key,
    /// The value.
    Value,
}

/// The keys and values that a row can attend to.
pub trait Cache {
    /// Writes the key or value of KV head `head` at `position` to `to`, which has its length.
    fn read(&self, which: Cached, position: u32, head: usize, to: &mut [f32]);
}

/// Buffers of one row's attention.
#[derive(Debug)]
pub struct AttendBuffers<'s> {
    /// At least `position + 1` elements.
    pub scores: &'s mut [f32],
    /// As many elements as the longer of a key and a value.
    pub vector: &'s mut [f32],
    /// The result, `[heads, value_dim]`.
    pub out: &'s mut [f32],
}

/// Attends one row at `position`.
///
/// `query` is `[heads, key_dim]`, `sinks` `[heads]`; `cache` has all positions that the row sees.
pub fn attend_row(
    op: &Attend,
    heads: Heads,
    position: u32,
    query: &[f32],
    cache: &dyn Cache,
    sinks: Option<&[f32]>,
    AttendBuffers { scores, vector, out }: AttendBuffers<'_>,
) {
    let first = op.window.map_or(0, |window| (position + 1).saturating_sub(window));
    let group = heads.query / heads.kv;
    for head in 0..heads.query {
        let query = &query[head * heads.key_dim..(head + 1) * heads.key_dim];
        let out = &mut out[head * heads.value_dim..(head + 1) * heads.value_dim];
        let sink = sinks.map(|sinks| sinks[head]);
        let mut max = sink.unwrap_or(f32::NEG_INFINITY);
        for (score, at) in scores.iter_mut().zip(first..=position) {
            let key = &mut vector[..heads.key_dim];
            cache.read(Cached::Key, at, head / group, key);
            let sum: f64 = query.iter().zip(key).map(|(&q, &mut k)| f64::from(q) * f64::from(k)).sum();
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
            let value = &mut vector[..heads.value_dim];
            cache.read(Cached::Value, at, head / group, value);
            for (out, value) in out.iter_mut().zip(value) {
                *out += weight * *value;
            }
        }
        let inverse = (1.0 / total) as f32;
        out.iter_mut().for_each(|out| *out *= inverse);
    }
}
