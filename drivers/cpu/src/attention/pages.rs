//! The forms in which a page keeps its numbers: what the kernel of attention needs of them. The forms are beside this file.

use crate::kv::PageShape;
use crate::simd::Simd;
use core::ops::Range;
use doorbell_core::plan::PAGE_TOKENS;

/// Two vectors for each of `T` queries: of positions, or of elements of a value.
pub(super) type Pair<S, const T: usize> = [[<S as Simd>::F; T]; 2];

/// The weights of a page's positions for `T` queries.
pub(super) type PageWeights<'a, const T: usize> = [&'a [f32; PAGE_TOKENS]; T];

/// A form in which the numbers of a page are kept.
pub(super) trait Pages {
    /// Products of the queries, of `key_dim` floats each, and the page's keys of two vectors of positions from `first`
    /// on.
    fn products<S: Simd, const T: usize>(
        simd: S,
        shape: &PageShape,
        keys: &[u8],
        queries: [&[f32]; T],
        first: usize,
    ) -> Pair<S, T>;

    /// Adds weight · value over `tokens` of the page to two vectors of elements from `first` on.
    fn add_values<S: Simd, const T: usize>(
        simd: S,
        shape: &PageShape,
        values: &[u8],
        tokens: Range<usize>,
        weights: PageWeights<'_, T>,
        first: usize,
        sums: &mut Pair<S, T>,
    );
}
