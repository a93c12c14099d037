//! Pages of signed bytes under scales, as [`crate::kv`] lays them out. Codes become floats in registers; a scale meets
//! the sum over its block of a key, and the weight of its position for a value.
#![expect(unsafe_code, reason = "walks raw pages and raw queries")]
#![expect(clippy::needless_range_loop, reason = "several arrays share the index of a vector or a query")]

use super::{CHUNK, Pages, Pair};
use crate::kv::{BLOCK, PageShape};
use crate::simd::Simd;
use core::ops::Range;
use doorbell_core::plan::PAGE_TOKENS;

/// Q8_0.
pub(super) struct Blocks;

impl Pages for Blocks {
    #[inline(always)]
    unsafe fn products<S: Simd, const T: usize>(
        simd: S,
        shape: &PageShape,
        page: *const u8,
        queries: [*const f32; T],
        first: usize,
    ) -> Pair<S, T> {
        let mut sums = [[simd.splat_f(0.0); T]; 2];
        for block in 0..shape.key_dim / BLOCK {
            let mut parts = [[simd.splat_f(0.0); T]; 2];
            for d in BLOCK * block..BLOCK * (block + 1) {
                // SAFETY: the caller's promise; codes of keys are `[key_dim][32]`.
                unsafe {
                    let at = page.add(d * PAGE_TOKENS + first);
                    let keys = [simd.load_bytes(at), simd.load_bytes(at.add(S::LANES))];
                    let keys = [simd.to_f(keys[0]), simd.to_f(keys[1])];
                    for t in 0..T {
                        let q = simd.splat_f(*queries[t].add(d));
                        for i in 0..2 {
                            parts[i][t] = simd.fma(keys[i], q, parts[i][t]);
                        }
                    }
                }
            }
            for i in 0..2 {
                let at = shape.key_scale(block, first + i * S::LANES);
                // SAFETY: the caller's promise; a block has a scale for each position.
                let scale = unsafe { simd.load_half(page.add(at).cast()) };
                for t in 0..T {
                    sums[i][t] = simd.fma(parts[i][t], scale, sums[i][t]);
                }
            }
        }
        sums
    }

    #[inline(always)]
    unsafe fn add_values<S: Simd, const T: usize>(
        simd: S,
        shape: &PageShape,
        page: *const u8,
        (tokens, weights): (Range<usize>, *const f32),
        first: usize,
        sums: &mut Pair<S, T>,
    ) {
        // SAFETY: the caller's promise.
        let scaled = unsafe { scaled::<S, T>(simd, shape, first / BLOCK, page, weights) };
        let values = page.wrapping_add(shape.values);
        for token in tokens {
            // SAFETY: the caller's promise; codes of values are `[32][value_stride]`.
            unsafe {
                let at = values.add(token * shape.value_stride + first);
                let v = [simd.load_bytes(at), simd.load_bytes(at.add(S::LANES))];
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
}

/// The weights of a page's positions times the scales of one block of their values. Where nothing was written yet, the
/// product may be anything; it is not used.
///
/// # Safety
/// The page and `T` rows, [`CHUNK`] apart, of 32 weights must be there.
#[inline(always)]
unsafe fn scaled<S: Simd, const T: usize>(
    simd: S,
    shape: &PageShape,
    block: usize,
    page: *const u8,
    weights: *const f32,
) -> [[f32; PAGE_TOKENS]; T] {
    let mut scaled = [[0.0; PAGE_TOKENS]; T];
    for first in (0..PAGE_TOKENS).step_by(S::LANES) {
        // SAFETY: the caller's promise; a block has a scale for each position.
        let scale = unsafe { simd.load_half(page.add(shape.value_scale(block, first)).cast()) };
        for t in 0..T {
            // SAFETY: the caller's promise; a row has whole vectors.
            unsafe {
                let weight = simd.load_f(weights.add(t * CHUNK + first));
                simd.store_f(scaled[t].as_mut_ptr().add(first), simd.mul_f(weight, scale));
            }
        }
    }
    scaled
}
