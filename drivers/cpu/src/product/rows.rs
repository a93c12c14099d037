//! One activation row against superblocks, each weight row read once in address order.
//!
//! First the exact integer sums of every block go to scratch, row by row; then sixteen rows' sums are turned and take
//! part in the same chains of float additions as in the other paths, a lane a row. One stream of addresses is what the
//! processor prefetches by itself.
#![expect(unsafe_code, reason = "walks raw rows and a raw activation row")]
#![expect(clippy::needless_range_loop, reason = "several arrays share the index of a block")]

use super::single::Single;
use crate::activations::Layout;
use crate::formats::RowBlock;
use crate::simd::{Kernel, Rows, STRIP, Simd};

/// How far ahead of their use weights are asked for, in bytes: as far as the processor's own prefetch does not reach.
const AHEAD: usize = 4 << 10;

/// Words from one row's sums to the next: whole groups of eight blocks, and an odd number of groups of four, so that
/// rows do not compete for cache sets.
const fn stride(blocks: usize) -> usize {
    blocks.next_multiple_of(8) + 4
}

/// Words of one plane: sums of a term, or scales.
const fn plane(blocks: usize) -> usize {
    STRIP * stride(blocks)
}

/// Scratch for a strip's sums of two terms, and scales.
pub(super) const fn scratch_bytes(blocks: usize) -> usize {
    3 * plane(blocks) * 4
}

/// A strip by rows, with [`scratch_bytes`].
pub(super) struct ByRows<'a, F>(pub(super) Single<'a, F>, pub(super) *mut u8);

impl<F: RowBlock> Kernel for ByRows<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Single { rows, layout, terms, out, .. } = self.0;
        let blocks = layout.cols / 256;
        let words = self.1.cast::<i32>();
        for row in 0..STRIP {
            for first in (0..blocks).step_by(8) {
                let count = (blocks - first).min(8);
                // SAFETY: whoever makes a `ByRows` vouches for sixteen rows, the activation row and scratch.
                unsafe {
                    let block = rows.base.add(row * rows.stride + first * F::BYTES);
                    let to = words.add(row * stride(blocks) + first);
                    row_group::<S, F>(simd, (block, count), (layout, terms, first), (to, plane(blocks)));
                }
            }
        }
        for first in (0..STRIP).step_by(S::LANES) {
            // SAFETY: as above; all sums have been written.
            unsafe { chains(simd, layout, terms, words.add(first * stride(blocks)), out.add(first)) };
        }
    }
}

/// Sums and scales of up to eight blocks of a row.
///
/// # Safety
/// The blocks, the activation row's planes and eight words in each plane of scratch must be there.
#[inline(always)]
unsafe fn row_group<S: Simd, F: RowBlock>(
    simd: S,
    (block, count): (*const u8, usize),
    (layout, terms, first): (&Layout, [*const u8; 2], usize),
    (to, plane): (*mut i32, usize),
) {
    let mut products = [[simd.splat(0); 8]; 2];
    for i in 0..8 {
        if i < count {
            let halves = layout.halves16 + 32 * (first + i);
            // SAFETY: the caller's promise.
            unsafe {
                let at = block.add(i * F::BYTES);
                for line in 0..F::BYTES.div_ceil(64) {
                    simd.prefetch(at.wrapping_add(AHEAD + 64 * line));
                }
                let sums = |term: usize| terms[term].add(halves).cast::<[i16; 16]>().read_unaligned();
                let codes = [terms[0].add(256 * (first + i)), terms[1].add(256 * (first + i))];
                let [a, b] = F::products(simd, at, codes, [&sums(0), &sums(1)]);
                (products[0][i], products[1][i]) = (a, b);
                to.add(2 * plane + i).write(i32::from(F::scale(at)));
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        to.cast::<[i32; 8]>().write_unaligned(simd.sums(&products[0]));
        to.add(plane).cast::<[i32; 8]>().write_unaligned(simd.sums(&products[1]));
    }
}

/// The chains of additions of `LANES` rows, whose sums begin at `words`.
///
/// # Safety
/// All sums must have been written, the activation row's planes be there, and room for the results.
#[inline(always)]
unsafe fn chains<S: Simd>(simd: S, layout: &Layout, terms: [*const u8; 2], words: *const i32, out: *mut f32) {
    let blocks = layout.cols / 256;
    let mut acc = [simd.splat_f(0.0); 2];
    for group in (0..blocks).step_by(4) {
        let at = |index: usize| words.wrapping_add(index * plane(blocks) + group).cast();
        let rows = |index: usize| Rows { base: at(index), stride: 4 * stride(blocks) };
        // SAFETY: the caller's promise; groups of four are whole.
        let (products, scales) =
            unsafe { ([simd.transpose(rows(0)), simd.transpose(rows(1))], simd.transpose(rows(2))) };
        for i in 0..4.min(blocks - group) {
            let scale = simd.half(scales[i]);
            for term in 0..2 {
                // SAFETY: the activation row's plane.
                let input = unsafe { simd.load_splat(terms[term].add(layout.scales + 4 * (group + i))) };
                let scale = simd.mul_f(scale, simd.as_f(input));
                acc[term] = simd.fma(simd.to_f(products[term][i]), scale, acc[term]);
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { simd.store_f(out, simd.add_f(acc[0], acc[1])) };
}
