//! Pages of plain numbers: keys `[key_dim][32 positions]`, values `[32 positions][value_stride]`.
#![expect(unsafe_code, reason = "walks raw pages and raw queries")]
#![expect(clippy::needless_range_loop, reason = "several arrays share the index of a vector or a query")]

use super::{CHUNK, Pages, Pair};
use crate::kv::PageShape;
use crate::simd::Simd;
use core::marker::PhantomData;
use core::ops::Range;
use doorbell_core::plan::PAGE_TOKENS;

/// How a cached number is read.
pub(super) trait Element {
    const BYTES: usize;

    /// # Safety
    /// `LANES` numbers at `from` must be readable.
    unsafe fn load<S: Simd>(simd: S, from: *const u8) -> S::F;
}

pub(super) struct Half;

impl Element for Half {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const u8) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { simd.load_half(from.cast()) }
    }
}

pub(super) struct Single;

impl Element for Single {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const u8) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { simd.load_f(from.cast()) }
    }
}

/// Numbers of one kind.
pub(super) struct Plain<E>(PhantomData<E>);

impl<E: Element> Pages for Plain<E> {
    #[inline(always)]
    unsafe fn products<S: Simd, const T: usize>(
        simd: S,
        shape: &PageShape,
        page: *const u8,
        queries: [*const f32; T],
        first: usize,
    ) -> Pair<S, T> {
        let mut sums = [[simd.splat_f(0.0); T]; 2];
        for d in 0..shape.key_dim {
            // SAFETY: the caller's promise; keys are `[key_dim][32]`.
            unsafe {
                let at = page.add((d * PAGE_TOKENS + first) * E::BYTES);
                let keys = [E::load(simd, at), E::load(simd, at.add(S::LANES * E::BYTES))];
                for t in 0..T {
                    let q = simd.splat_f(*queries[t].add(d));
                    for i in 0..2 {
                        sums[i][t] = simd.fma(keys[i], q, sums[i][t]);
                    }
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
        let values = page.wrapping_add(shape.values);
        for token in tokens {
            // SAFETY: the caller's promise; values are `[32][value_stride]`.
            unsafe {
                let at = values.add((token * shape.value_stride + first) * E::BYTES);
                let v = [E::load(simd, at), E::load(simd, at.add(S::LANES * E::BYTES))];
                for t in 0..T {
                    let weight = simd.splat_f(*weights.add(t * CHUNK + token));
                    for i in 0..2 {
                        sums[i][t] = simd.fma(v[i], weight, sums[i][t]);
                    }
                }
            }
        }
    }
}
