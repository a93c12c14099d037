//! Attention of a few queries over one chunk of cached positions, and how chunks are put together.
//!
//! Positions are cut into chunks of [`CHUNK`], counted from position 0. A chunk gives each query a maximum, a sum and
//! a weighted value ([`Attention`]); [`State::merge`] puts chunks together in ascending order. Cuts and order depend
//! on positions alone, so a query's result does not depend on the other rows, on the batch or on threads.
//!
//! All sums are f32. The layout of keys and values is in [`crate::kv`]; the backend shares chunks out to threads.

mod blocks;
mod pages;
mod plain;

use crate::elementwise::{exp, tanh};
use crate::kv::PageShape;
use crate::simd::{Kernel, Simd};
use blocks::Blocks;
use core::array::from_fn;
use core::ops::Range;
use doorbell_core::backend::KvType;
use doorbell_core::plan::PAGE_TOKENS;
use pages::Pages;
use plain::{Half, Plain, Single};

/// Positions whose scores are computed together.
pub const CHUNK: usize = 256;

/// Queries of the widest tile.
pub const QUERIES: usize = 6;

/// `T` queries of one KV head over one chunk.
#[derive(Debug)]
pub struct Attention<'a, const T: usize> {
    /// The pages' shape.
    pub shape: &'a PageShape,
    /// Each `key_dim` floats.
    pub queries: [&'a [f32]; T],
    /// Positions that each query sees.
    pub visible: [Range<u32>; T],
    /// First position of the chunk.
    pub first: u32,
    /// The head's part of each page from the chunk's first on, as far as any query sees.
    pub pages: &'a [&'a [u8]],
    /// Factor on scores.
    pub scale: f32,
    /// Limit of scores.
    pub soft_cap: Option<f32>,
    /// `T` rows of [`CHUNK`] floats, overwritten.
    pub scores: &'a mut [f32],
    /// `T` rows of `value_stride` floats: Σ e^(score − max) · value.
    pub values: &'a mut [f32],
}

/// Maximum of a query's scores in a chunk, and Σ e^(score − max). Minus infinity and 0 where it sees nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    /// The maximum.
    pub max: f32,
    /// The sum.
    pub sum: f32,
}

impl<const T: usize> Attention<'_, T> {
    /// Checks the lengths that the kernel relies on.
    fn check(&self) {
        assert!(self.queries.iter().all(|query| query.len() >= self.shape.key_dim), "query length");
        assert!(self.scores.len() >= T * CHUNK, "room for scores");
        assert!(self.values.len() >= T * self.shape.value_stride, "room for values");
        assert!(self.pages.len() * PAGE_TOKENS <= CHUNK, "pages of a chunk");
        assert!(self.pages.iter().all(|page| page.len() == self.shape.head_bytes), "bytes of a page");
        let seen = self.visible.iter().map(|range| range.end).max().unwrap_or(0);
        let end = self.first as usize + self.pages.len() * PAGE_TOKENS;
        assert!((seen as usize).min(self.first as usize + CHUNK) <= end, "a page for every visible position");
    }
}

/// Panics when a buffer is too short, or a page missing.
impl<const T: usize> Kernel for Attention<'_, T> {
    type Output = [Weight; T];

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) -> [Weight; T] {
        self.check();
        match self.shape.kv {
            KvType::F16 => run::<S, Plain<Half>, T>(simd, self),
            KvType::F32 => run::<S, Plain<Single>, T>(simd, self),
            KvType::Q8_0 => run::<S, Blocks, T>(simd, self),
        }
    }
}

#[inline(always)]
fn run<S: Simd, P: Pages, const T: usize>(simd: S, chunk: Attention<'_, T>) -> [Weight; T] {
    let end = chunk.first + CHUNK as u32;
    let span = |range: &Range<u32>| range.start.max(chunk.first)..range.end.min(end);
    let seen: [Range<u32>; T] = from_fn(|t| span(&chunk.visible[t]));
    let low = seen.iter().filter(|range| !range.is_empty()).map(|range| range.start).min();
    let nothing = Weight { max: f32::NEG_INFINITY, sum: 0.0 };
    let Some(low) = low else { return [nothing; T] };
    let high = seen.iter().map(|range| range.end).max().unwrap_or(low);
    let pages =
        (low - chunk.first) as usize / PAGE_TOKENS..((high - chunk.first) as usize).div_ceil(PAGE_TOKENS);

    let shape = chunk.shape;
    // Of equal length, so that one comparison serves all.
    let mut queries = chunk.queries;
    for query in &mut queries {
        *query = &query[..shape.key_dim];
    }
    let rule = ScoreRule { scale: chunk.scale, soft_cap: chunk.soft_cap };
    for page in pages.clone() {
        let (keys, _) = chunk.pages[page].split_at(shape.values);
        scores::<S, P, T>(simd, shape, keys, queries, rule, &mut chunk.scores[page * PAGE_TOKENS..]);
    }
    let columns = pages.start * PAGE_TOKENS..pages.end * PAGE_TOKENS;
    let mut weights = [nothing; T];
    for t in 0..T {
        let row = &mut chunk.scores[t * CHUNK..(t + 1) * CHUNK][columns.clone()];
        if seen[t].is_empty() {
            row.fill(0.0);
            continue;
        }
        let base = chunk.first as usize + columns.start;
        let (start, end) = (seen[t].start as usize - base, seen[t].end as usize - base);
        row[..start].fill(f32::NEG_INFINITY);
        row[end..].fill(f32::NEG_INFINITY);
        weights[t] = softmax_part(simd, row);
    }
    let tokens = (low - chunk.first) as usize..(high - chunk.first) as usize;
    values::<S, P, T>(simd, shape, chunk.pages, tokens, chunk.scores, chunk.values);
    weights
}

/// From products to scores.
#[derive(Clone, Copy)]
struct ScoreRule {
    scale: f32,
    soft_cap: Option<f32>,
}

/// Scores of the 32 positions of a page, `T` rows [`CHUNK`] apart.
#[inline(always)]
fn scores<S: Simd, P: Pages, const T: usize>(
    simd: S,
    shape: &PageShape,
    keys: &[u8],
    queries: [&[f32]; T],
    rule: ScoreRule,
    out: &mut [f32],
) {
    for first in (0..PAGE_TOKENS).step_by(2 * S::LANES) {
        let products = P::products::<S, T>(simd, shape, keys, queries, first);
        for (i, products) in products.into_iter().enumerate() {
            for (t, product) in products.into_iter().enumerate() {
                simd.write_f(&mut out[t * CHUNK + first + i * S::LANES..], score(simd, product, rule));
            }
        }
    }
}

/// Σ weight · value over `tokens` of the chunk.
#[inline(always)]
fn values<S: Simd, P: Pages, const T: usize>(
    simd: S,
    shape: &PageShape,
    pages: &[&[u8]],
    tokens: Range<usize>,
    weights: &[f32],
    out: &mut [f32],
) {
    let touched = tokens.start / PAGE_TOKENS..tokens.end.div_ceil(PAGE_TOKENS);
    for first in (0..shape.value_stride).step_by(2 * S::LANES) {
        let mut sums = [[simd.splat_f(0.0); T]; 2];
        for number in touched.clone() {
            let base = number * PAGE_TOKENS;
            let seen = tokens.start.max(base) - base..tokens.end.min(base + PAGE_TOKENS) - base;
            let mut page_weights = [&[0.0; PAGE_TOKENS]; T];
            for (t, row) in page_weights.iter_mut().enumerate() {
                *row = weights[t * CHUNK + base..].first_chunk().expect("weights of a page");
            }
            let values = &pages[number][shape.values..];
            P::add_values::<S, T>(simd, shape, values, seen, page_weights, first, &mut sums);
        }
        for (i, sums) in sums.into_iter().enumerate() {
            for (t, sum) in sums.into_iter().enumerate() {
                simd.write_f(&mut out[t * shape.value_stride + first + i * S::LANES..], sum);
            }
        }
    }
}

/// A product of query and key, scaled and limited.
#[inline(always)]
fn score<S: Simd>(simd: S, product: S::F, rule: ScoreRule) -> S::F {
    let score = simd.mul_f(product, simd.splat_f(rule.scale));
    let Some(cap) = rule.soft_cap else { return score };
    let limit = simd.splat_f(cap);
    simd.mul_f(limit, tanh(simd, simd.div_f(score, limit)))
}

/// Turns scores into e^(score − max). Whole pages, so whole vectors.
#[inline(always)]
fn softmax_part<S: Simd>(simd: S, row: &mut [f32]) -> Weight {
    let mut max = simd.splat_f(f32::NEG_INFINITY);
    for chunk in row.chunks_exact(S::LANES) {
        max = simd.max_f(max, simd.read_f(chunk));
    }
    let max = simd.max_lane(max);
    let mut sum = simd.splat_f(0.0);
    for chunk in row.chunks_exact_mut(S::LANES) {
        let x = exp(simd, simd.sub_f(simd.read_f(chunk), simd.splat_f(max)));
        simd.write_f(chunk, x);
        sum = simd.add_f(sum, x);
    }
    Weight { max, sum: simd.sum(sum) }
}

/// The sums of a query over the chunks so far.
#[derive(Debug)]
pub struct State<'a> {
    /// Maximum and sum.
    pub weight: &'a mut Weight,
    /// Weighted values.
    pub values: &'a mut [f32],
}

impl State<'_> {
    /// Starts with nothing, or with a virtual score with a zero value.
    pub fn start(&mut self, sink: Option<f32>) {
        *self.weight =
            sink.map_or(Weight { max: f32::NEG_INFINITY, sum: 0.0 }, |max| Weight { max, sum: 1.0 });
        self.values.fill(0.0);
    }

    /// Adds the chunk that follows.
    pub fn merge(&mut self, chunk: Weight, values: &[f32]) {
        if chunk.max == f32::NEG_INFINITY && chunk.sum == 0.0 {
            return;
        }
        let max = self.weight.max.max(chunk.max);
        let (old, new) = (libm::expf(self.weight.max - max), libm::expf(chunk.max - max));
        *self.weight = Weight { max, sum: self.weight.sum * old + chunk.sum * new };
        for (sum, value) in self.values.iter_mut().zip(values) {
            *sum = *sum * old + value * new;
        }
    }

    /// The weighted mean.
    pub fn finish(&self, out: &mut [f32]) {
        let inverse = 1.0 / self.weight.sum;
        for (out, value) in out.iter_mut().zip(&*self.values) {
            *out = value * inverse;
        }
    }
}
