//! Pages of signed bytes under scales, as [`crate::kv`] lays them out. Codes become floats in registers; a scale meets
//! the sum over its block of a key, and the weight of its position for a value.

use super::pages::{PageWeights, Pages, Pair};
use crate::kv::{BLOCK, PageShape};
use crate::simd::Simd;
use core::ops::Range;
use doorbell_core::plan::PAGE_TOKENS;

/// Q8_0.
pub(super) struct Blocks;

impl Pages for Blocks {
    #[inline(always)]
    fn products<S: Simd, const T: usize>(
        simd: S,
        shape: &PageShape,
        keys: &[u8],
        queries: [&[f32]; T],
        first: usize,
    ) -> Pair<S, T> {
        let mut sums = [[simd.splat_f(0.0); T]; 2];
        let (codes, scales) = keys.split_at(shape.key_dim * PAGE_TOKENS);
        let blocks = codes.chunks_exact(BLOCK * PAGE_TOKENS).zip(scales.chunks_exact(2 * PAGE_TOKENS));
        for (block, (codes, scales)) in blocks.enumerate() {
            let mut queries_of_block = [&[0.0; BLOCK]; T];
            for (part, query) in queries_of_block.iter_mut().zip(queries) {
                *part = query[BLOCK * block..].first_chunk().expect("a block of a query");
            }
            let mut parts = [[simd.splat_f(0.0); T]; 2];
            for (d, row) in (0..BLOCK).zip(codes.chunks_exact(PAGE_TOKENS)) {
                let keys = [simd.read_bytes(&row[first..]), simd.read_bytes(&row[first + S::LANES..])];
                let keys = [simd.to_f(keys[0]), simd.to_f(keys[1])];
                for t in 0..T {
                    let q = simd.splat_f(queries_of_block[t][d]);
                    for i in 0..2 {
                        parts[i][t] = simd.fma(keys[i], q, parts[i][t]);
                    }
                }
            }
            for i in 0..2 {
                let scale = simd.read_half(&scales[2 * (first + i * S::LANES)..]);
                for t in 0..T {
                    sums[i][t] = simd.fma(parts[i][t], scale, sums[i][t]);
                }
            }
        }
        sums
    }

    #[inline(always)]
    fn add_values<S: Simd, const T: usize>(
        simd: S,
        shape: &PageShape,
        values: &[u8],
        tokens: Range<usize>,
        weights: PageWeights<'_, T>,
        first: usize,
        sums: &mut Pair<S, T>,
    ) {
        let (codes, scales) = values.split_at(shape.value_stride * PAGE_TOKENS);
        let scales = &scales[2 * PAGE_TOKENS * (first / BLOCK)..];
        let scaled = scaled::<S, T>(simd, scales, weights);
        let rows = codes.chunks_exact(shape.value_stride).skip(tokens.start);
        for (token, row) in tokens.zip(rows) {
            let row = &row[first..][..2 * S::LANES];
            let v = [simd.read_bytes(row), simd.read_bytes(&row[S::LANES..])];
            let v = [simd.to_f(v[0]), simd.to_f(v[1])];
            for t in 0..T {
                let weight = simd.splat_f(scaled[t][token]);
                for i in 0..2 {
                    sums[i][t] = simd.fma(v[i], weight, sums[i][t]);
                }
            }
        }
    }
}

/// The weights of a page's positions times the scales of one block of their values. Where nothing was written yet, the
/// product may be anything; it is not used.
#[inline(always)]
fn scaled<S: Simd, const T: usize>(
    simd: S,
    scales: &[u8],
    weights: PageWeights<'_, T>,
) -> [[f32; PAGE_TOKENS]; T] {
    let mut scaled = [[0.0; PAGE_TOKENS]; T];
    for first in (0..PAGE_TOKENS).step_by(S::LANES) {
        let scale = simd.read_half(&scales[2 * first..]);
        for t in 0..T {
            let weight = simd.read_f(&weights[t][first..]);
            simd.write_f(&mut scaled[t][first..], simd.mul_f(weight, scale));
        }
    }
    scaled
}
