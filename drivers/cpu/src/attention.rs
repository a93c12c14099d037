//! Attention of a few queries over one chunk of cached positions, and how chunks are put together.
//!
//! Positions are cut into chunks of [`CHUNK`], counted from position 0. A chunk gives each query a maximum, a sum and
//! a weighted value ([`Attention`]); [`State::merge`] puts chunks together in ascending order. Cuts and order depend
//! on positions alone, so a query's result does not depend on the other rows, on the batch or on threads.
//!
//! All sums are f32. Where keys and values lie is [`crate::kv`]'s matter, who computes which chunk the backend's.
#![expect(unsafe_code, reason = "walks raw pages and raw queries")]

mod blocks;
mod plain;

use crate::elementwise::{exp, tanh};
use crate::kv::PageShape;
use crate::simd::{Kernel, Simd};
use blocks::Blocks;
use core::array::from_fn;
use core::ops::Range;
use doorbell_core::backend::KvType;
use doorbell_core::plan::PAGE_TOKENS;
use plain::{Half, Plain, Single};

/// Positions whose scores are in hand at once.
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
    pub pages: &'a [*const u8],
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

impl<'a, const T: usize> Attention<'a, T> {
    /// Checks the lengths that the kernel relies on.
    ///
    /// # Safety
    /// Every page must be readable for the shape's `head_bytes`.
    ///
    /// # Panics
    /// When a buffer is too short.
    pub unsafe fn check(self) -> Checked<'a, T> {
        assert!(self.queries.iter().all(|query| query.len() >= self.shape.key_dim), "query length");
        assert!(self.scores.len() >= T * CHUNK, "room for scores");
        assert!(self.values.len() >= T * self.shape.value_stride, "room for values");
        assert!(self.pages.len() * PAGE_TOKENS <= CHUNK, "pages of a chunk");
        let seen = self.visible.iter().map(|range| range.end).max().unwrap_or(0);
        let end = self.first as usize + self.pages.len() * PAGE_TOKENS;
        assert!((seen as usize).min(self.first as usize + CHUNK) <= end, "a page for every visible position");
        Checked(self)
    }
}

/// An [`Attention`] whose lengths fit.
#[derive(Debug)]
pub struct Checked<'a, const T: usize>(Attention<'a, T>);

impl<const T: usize> Kernel for Checked<'_, T> {
    type Output = [Weight; T];

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) -> [Weight; T] {
        match self.0.shape.kind {
            KvType::F16 => run::<S, Plain<Half>, T>(simd, self.0),
            KvType::F32 => run::<S, Plain<Single>, T>(simd, self.0),
            KvType::Q8_0 => run::<S, Blocks, T>(simd, self.0),
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

    let queries: [*const f32; T] = from_fn(|t| chunk.queries[t].as_ptr());
    let (rows, shape) = (chunk.scores.as_mut_ptr(), chunk.shape);
    for page in pages.clone() {
        // SAFETY: `check`: the page is readable, the queries and scores are long enough.
        unsafe {
            let out = rows.add(page * PAGE_TOKENS);
            scores::<S, P, T>(simd, shape, chunk.pages[page], queries, (chunk.scale, chunk.soft_cap), out);
        }
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
    let sums = chunk.values.as_mut_ptr();
    // SAFETY: `check`: the pages are readable, the scores and values long enough.
    unsafe { values::<S, P, T>(simd, shape, chunk.pages, tokens, chunk.scores.as_ptr(), sums) };
    weights
}

/// Two vectors for each of `T` queries: of positions, or of elements of a value.
type Pair<S, const T: usize> = [[<S as Simd>::F; T]; 2];

/// How the numbers of a page are kept.
trait Pages {
    /// Products of the queries and the page's keys of two vectors of positions from `first` on.
    ///
    /// # Safety
    /// The page's keys and `T` queries of `key_dim` floats must be there.
    unsafe fn products<S: Simd, const T: usize>(
        simd: S,
        shape: &PageShape,
        page: *const u8,
        queries: [*const f32; T],
        first: usize,
    ) -> Pair<S, T>;

    /// Adds weight · value over `tokens` of the page to two vectors of elements from `first` on.
    ///
    /// # Safety
    /// The page's values and `T` rows, [`CHUNK`] apart, of 32 weights must be there.
    unsafe fn add_values<S: Simd, const T: usize>(
        simd: S,
        shape: &PageShape,
        page: *const u8,
        weighted: (Range<usize>, *const f32),
        first: usize,
        sums: &mut Pair<S, T>,
    );
}

/// Scores of the 32 positions of a page.
///
/// # Safety
/// The page's keys, `T` queries of `key_dim` floats and `T` rows of [`CHUNK`] scores must be there.
#[inline(always)]
unsafe fn scores<S: Simd, P: Pages, const T: usize>(
    simd: S,
    shape: &PageShape,
    page: *const u8,
    queries: [*const f32; T],
    rule: (f32, Option<f32>),
    out: *mut f32,
) {
    for first in (0..PAGE_TOKENS).step_by(2 * S::LANES) {
        // SAFETY: the caller's promise.
        let products = unsafe { P::products::<S, T>(simd, shape, page, queries, first) };
        for (i, products) in products.into_iter().enumerate() {
            for (t, product) in products.into_iter().enumerate() {
                let score = score(simd, product, rule);
                // SAFETY: the caller's promise.
                unsafe { simd.store_f(out.add(t * CHUNK + first + i * S::LANES), score) };
            }
        }
    }
}

/// Σ weight · value over `tokens` of the chunk.
///
/// # Safety
/// The pages' values, `T` rows of [`CHUNK`] weights and `T` rows of `value_stride` floats must be there.
#[inline(always)]
unsafe fn values<S: Simd, P: Pages, const T: usize>(
    simd: S,
    shape: &PageShape,
    pages: &[*const u8],
    tokens: Range<usize>,
    weights: *const f32,
    out: *mut f32,
) {
    for first in (0..shape.value_stride).step_by(2 * S::LANES) {
        let mut sums = [[simd.splat_f(0.0); T]; 2];
        let touched = tokens.start / PAGE_TOKENS..tokens.end.div_ceil(PAGE_TOKENS);
        for (&page, number) in pages[touched.clone()].iter().zip(touched) {
            let base = number * PAGE_TOKENS;
            let seen = tokens.start.max(base) - base..tokens.end.min(base + PAGE_TOKENS) - base;
            // SAFETY: the caller's promise.
            unsafe {
                let weighted = (seen, weights.add(base));
                P::add_values::<S, T>(simd, shape, page, weighted, first, &mut sums);
            }
        }
        for (i, sums) in sums.into_iter().enumerate() {
            for (t, sum) in sums.into_iter().enumerate() {
                // SAFETY: the caller's promise; `value_stride` is a multiple of two vectors of any form.
                unsafe { simd.store_f(out.add(t * shape.value_stride + first + i * S::LANES), sum) };
            }
        }
    }
}

/// A product of query and key, scaled and limited.
#[inline(always)]
fn score<S: Simd>(simd: S, product: S::F, (scale, soft_cap): (f32, Option<f32>)) -> S::F {
    let score = simd.mul_f(product, simd.splat_f(scale));
    let Some(cap) = soft_cap else { return score };
    let limit = simd.splat_f(cap);
    simd.mul_f(limit, tanh(simd, simd.div_f(score, limit)))
}

/// Turns scores into e^(score − max). Whole pages, so whole vectors.
#[inline(always)]
fn softmax_part<S: Simd>(simd: S, row: &mut [f32]) -> Weight {
    let mut max = simd.splat_f(f32::NEG_INFINITY);
    for chunk in row.chunks_exact(S::LANES) {
        // SAFETY: the chunk has LANES floats.
        max = simd.max_f(max, unsafe { simd.load_f(chunk.as_ptr()) });
    }
    let max = simd.max_lane(max);
    let mut sum = simd.splat_f(0.0);
    for chunk in row.chunks_exact_mut(S::LANES) {
        // SAFETY: the chunk has LANES floats.
        unsafe {
            let x = exp(simd, simd.sub_f(simd.load_f(chunk.as_ptr()), simd.splat_f(max)));
            simd.store_f(chunk.as_mut_ptr(), x);
            sum = simd.add_f(sum, x);
        }
    }
    Weight { max, sum: simd.sum(sum) }
}

/// What a query has gathered so far.
#[derive(Debug)]
pub struct State<'a> {
    /// Maximum and sum.
    pub weight: &'a mut Weight,
    /// Weighted values.
    pub values: &'a mut [f32],
}

impl State<'_> {
    /// Nothing yet, or a virtual score with a zero value.
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
