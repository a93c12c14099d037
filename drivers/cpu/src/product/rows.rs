//! One activation row against superblocks, each weight row read once in address order.
//!
//! First the exact integer sums of every block go to scratch, row by row; then sixteen rows' sums are turned and take
//! part in the same chains of float additions as in the other paths, a lane a row. One stream of addresses is what the
//! processor prefetches by itself.

use super::view::{Column, StripRows, Terms};
use crate::formats::RowBlock;
use crate::simd::{Kernel, STRIP, Simd};

/// Distance at which weights are requested ahead of their use, in bytes: as far as the processor's own prefetch does not reach.
const AHEAD: usize = 4 << 10;

/// Blocks whose sums are stored at once.
const GROUP: usize = 8;

/// Words from one row's sums to the next: whole groups of eight blocks, and an odd number of groups of four, so that
/// rows do not compete for cache sets.
const fn stride(blocks: usize) -> usize {
    blocks.next_multiple_of(GROUP) + 4
}

/// Words of one plane: sums of a term, or scales.
const fn plane(blocks: usize) -> usize {
    STRIP * stride(blocks)
}

/// Words of scratch for a strip's sums of two terms, and scales.
pub(super) const fn scratch_words(blocks: usize) -> usize {
    3 * plane(blocks)
}

/// A strip by rows.
pub(super) struct ByRows<'a, F> {
    /// Sixteen rows, one after the other.
    pub(super) rows: &'a [u8],
    pub(super) terms: Terms<'a, 2>,
    /// [`scratch_words`].
    pub(super) scratch: &'a mut [i32],
    pub(super) out: &'a mut [f32; STRIP],
    pub(super) format: core::marker::PhantomData<F>,
}

impl<F: RowBlock> Kernel for ByRows<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Self { rows, terms, scratch, out, .. } = self;
        let blocks = terms.blocks256();
        let (first, rest) = scratch.split_at_mut(plane(blocks));
        let (second, rest) = rest.split_at_mut(plane(blocks));
        let mut planes = [first, second, &mut rest[..plane(blocks)]];
        let rows = rows[..STRIP * blocks * F::BYTES].chunks_exact(blocks * F::BYTES);
        for (row, bytes) in rows.enumerate() {
            for (group, bytes) in bytes.chunks(GROUP * F::BYTES).enumerate() {
                let at = row * stride(blocks) + GROUP * group;
                let [a, b, c] = &mut planes;
                let to = [&mut a[at..at + GROUP], &mut b[at..at + GROUP], &mut c[at..at + GROUP]];
                row_group::<S, F>(simd, bytes, terms, GROUP * group, to);
            }
        }
        let planes = planes.map(|plane| StripRows::of_words(plane, stride(blocks)));
        for first in (0..STRIP).step_by(S::LANES) {
            simd.write_f(&mut out[first..], chains(simd, terms, planes, first));
        }
    }
}

/// Up to eight blocks of a row, and the activations, whose block `first` the first of them meets.
#[derive(Clone, Copy)]
struct Group<'a> {
    bytes: &'a [u8],
    terms: Terms<'a, 2>,
    first: usize,
}

impl Group<'_> {
    /// The products of block `i` with both terms, and its scale; zeros if there is no such block.
    #[inline(always)]
    fn products<S: Simd, F: RowBlock>(self, simd: S, i: usize, scales: &mut [i32]) -> [S::I; 2] {
        let Some(block) = self.bytes.get(i * F::BYTES..(i + 1) * F::BYTES) else {
            return [simd.splat(0), simd.splat(0)];
        };
        for line in 0..F::BYTES.div_ceil(64) {
            simd.prefetch(block.as_ptr().wrapping_add(AHEAD + 64 * line));
        }
        let input = self.terms.block256(self.first + i);
        scales[i] = i32::from(F::scale(block));
        let codes = [input.all_codes(0), input.all_codes(1)];
        F::products(simd, block, codes, [&input.sums16(0), &input.sums16(1)])
    }
}

/// Sums and scales of up to eight blocks of a row, which the activations' block `first` meets first.
#[inline(always)]
fn row_group<S: Simd, F: RowBlock>(
    simd: S,
    bytes: &[u8],
    terms: Terms<'_, 2>,
    first: usize,
    [sums, second_sums, scales]: [&mut [i32]; 3],
) {
    let group = Group { bytes, terms, first };
    // Written out, so that the products stay in registers.
    let a = group.products::<S, F>(simd, 0, scales);
    let b = group.products::<S, F>(simd, 1, scales);
    let c = group.products::<S, F>(simd, 2, scales);
    let d = group.products::<S, F>(simd, 3, scales);
    let e = group.products::<S, F>(simd, 4, scales);
    let f = group.products::<S, F>(simd, 5, scales);
    let g = group.products::<S, F>(simd, 6, scales);
    let h = group.products::<S, F>(simd, 7, scales);
    sums.copy_from_slice(&simd.sums(&[a[0], b[0], c[0], d[0], e[0], f[0], g[0], h[0]]));
    second_sums.copy_from_slice(&simd.sums(&[a[1], b[1], c[1], d[1], e[1], f[1], g[1], h[1]]));
}

/// The chains of additions of `LANES` rows from `row` on: `planes` holds the sums of both terms, and scales.
#[inline(always)]
fn chains<S: Simd>(simd: S, terms: Terms<'_, 2>, planes: [StripRows<'_, Column>; 3], row: usize) -> S::F {
    let [sums, second_sums, scales] = planes;
    let blocks = terms.blocks256();
    let (mut first, mut second) = (simd.splat_f(0.0), simd.splat_f(0.0));
    for group in 0..blocks.div_ceil(4) {
        // No closure: it would not always be inlined, and then run without the form's instructions.
        let a = sums.piece::<S>(row, group).transpose::<0>(simd);
        let b = second_sums.piece::<S>(row, group).transpose::<0>(simd);
        let scales = scales.piece::<S>(row, group).transpose::<0>(simd);
        for i in 0..4.min(blocks - 4 * group) {
            let scale = simd.half(scales[i]);
            let input = terms.block256(4 * group + i);
            first = simd.fma(simd.to_f(a[i]), simd.mul_f(scale, input.scale(simd, 0)), first);
            second = simd.fma(simd.to_f(b[i]), simd.mul_f(scale, input.scale(simd, 1)), second);
        }
    }
    simd.add_f(first, second)
}
