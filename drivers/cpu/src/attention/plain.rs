//! Pages of plain numbers: keys `[key_dim][32 positions]`, values `[32 positions][value_stride]`.

use super::pages::{PageWeights, Pages, Pair};
use crate::kv::PageShape;
use crate::simd::Simd;
use core::marker::PhantomData;
use core::ops::Range;
use doorbell_core::plan::PAGE_TOKENS;

/// A type of cached numbers.
pub(super) trait Element {
    const BYTES: usize;

    /// The first `LANES` numbers of the bytes.
    fn read<S: Simd>(simd: S, from: &[u8]) -> S::F;
}

pub(super) struct Half;

impl Element for Half {
    const BYTES: usize = 2;

    #[inline(always)]
    fn read<S: Simd>(simd: S, from: &[u8]) -> S::F {
        simd.read_half(from)
    }
}

pub(super) struct Single;

impl Element for Single {
    const BYTES: usize = 4;

    #[inline(always)]
    fn read<S: Simd>(simd: S, from: &[u8]) -> S::F {
        simd.as_f(simd.read(from))
    }
}

/// Numbers of one type.
pub(super) struct Plain<E>(PhantomData<E>);

impl<E: Element> Pages for Plain<E> {
    #[inline(always)]
    fn products<S: Simd, const T: usize>(
        simd: S,
        shape: &PageShape,
        keys: &[u8],
        queries: [&[f32]; T],
        first: usize,
    ) -> Pair<S, T> {
        let mut sums = [[simd.splat_f(0.0); T]; 2];
        for (d, row) in (0..shape.key_dim).zip(keys.chunks_exact(PAGE_TOKENS * E::BYTES)) {
            let (a, b) = (first * E::BYTES, (first + S::LANES) * E::BYTES);
            let keys = [E::read(simd, &row[a..]), E::read(simd, &row[b..])];
            for t in 0..T {
                let q = simd.splat_f(queries[t][d]);
                for i in 0..2 {
                    sums[i][t] = simd.fma(keys[i], q, sums[i][t]);
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
        let rows = values.chunks_exact(shape.value_stride * E::BYTES).skip(tokens.start);
        for (token, row) in tokens.zip(rows) {
            let row = &row[first * E::BYTES..][..2 * S::LANES * E::BYTES];
            let v = [E::read(simd, row), E::read(simd, &row[S::LANES * E::BYTES..])];
            for t in 0..T {
                let weight = simd.splat_f(weights[t][token]);
                for i in 0..2 {
                    sums[i][t] = simd.fma(v[i], weight, sums[i][t]);
                }
            }
        }
    }
}
