//! One activation row: weights go from the file's bytes straight into the dot products of its two terms.

use super::unpack::prefetch_next;
use super::view::{Ahead, Block32 as TermBlock32, Block256, Column, StripRows, Terms};
use crate::formats::class::Class;
use crate::formats::{Block32, Float, Superblock, Visitor};
use crate::simd::{Kernel, STRIP, Simd};
use core::sync::atomic::{Ordering, compiler_fence};

/// A strip against one activation row.
pub(super) struct Single<'a, F> {
    pub(super) rows: StripRows<'a, F>,
    pub(super) terms: Terms<'a, 2>,
    pub(super) out: &'a mut [f32; STRIP],
}

/// Blocks of 32.
pub(super) struct Single32<'a, F>(pub(super) Single<'a, F>);

impl<F: Block32> Kernel for Single32<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Single { rows, terms, out } = self.0;
        assert_eq!(rows.pieces(), terms.blocks32(), "blocks of weights and activations");
        for first in (0..STRIP).step_by(S::LANES) {
            let mut acc = [simd.splat_f(0.0); 2];
            for block in 0..rows.pieces() {
                if first == 0 {
                    prefetch_next(simd, rows, block, 0, 1);
                }
                let piece = rows.piece::<S>(first, block);
                let codes = F::codes(simd, piece);
                let (scale, floor) = F::scales(simd, piece);
                let input = terms.block32(block);
                acc = [
                    add_block32::<S, F>(simd, acc[0], codes, scale, floor, input, 0),
                    add_block32::<S, F>(simd, acc[1], codes, scale, floor, input, 1),
                ];
            }
            simd.write_f(&mut out[first..], simd.add_f(acc[0], acc[1]));
        }
    }
}

/// `acc` plus a block's products with term `t`.
#[inline(always)]
fn add_block32<S: Simd, F: Block32>(
    simd: S,
    acc: S::F,
    codes: [S::I; 8],
    scale: S::F,
    floor: S::F,
    input: TermBlock32<'_, 2>,
    t: usize,
) -> S::F {
    let sum = input.sum(simd, t);
    let start = if <F::Class as Class>::MINIMA { simd.splat(0) } else { simd.shl(sum, F::OFFSET) };
    let products = dots32::<S, F::Class>(simd, start, codes, input, t);
    let acc = simd.fma(simd.to_f(products), simd.mul_f(scale, input.scale(simd, t)), acc);
    if <F::Class as Class>::MINIMA { simd.fma(floor, simd.as_f(sum), acc) } else { acc }
}

/// `start` plus the products of a block's codes with those of term `t`.
#[inline(always)]
fn dots32<S: Simd, C: Class>(
    simd: S,
    start: S::I,
    codes: [S::I; 8],
    input: TermBlock32<'_, 2>,
    t: usize,
) -> S::I {
    let mut sum = start;
    for (group, codes) in codes.into_iter().enumerate() {
        sum = dot::<S, C>(simd, sum, codes, input.codes(simd, t, group));
    }
    sum
}

/// `sum` plus the products of four codes per lane.
#[inline(always)]
fn dot<S: Simd, C: Class>(simd: S, sum: S::I, codes: S::I, input: S::I) -> S::I {
    match C::WIDE {
        true => simd.dot::<true>(sum, codes, input),
        false => simd.dot::<false>(sum, codes, input),
    }
}

/// Superblocks.
pub(super) struct Single256<'a, F>(pub(super) Single<'a, F>);

impl<F: Superblock> Kernel for Single256<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Single { rows, terms, out } = self.0;
        assert_eq!(rows.pieces(), terms.blocks256(), "blocks of weights and activations");
        for first in (0..STRIP).step_by(S::LANES) {
            let mut acc = [simd.splat_f(0.0); 2];
            for block in 0..rows.pieces() {
                let input = terms.block256(block);
                let mut sums = Sums {
                    rows,
                    input,
                    block,
                    products: [simd.splat(0); 2],
                    minima: [simd.splat(0); 2],
                    scale: simd.splat_f(0.0),
                    floor: simd.splat_f(0.0),
                };
                F::visit(simd, rows.piece(first, block), &mut sums);
                acc = [sums.add_to(simd, acc[0], 0), sums.add_to(simd, acc[1], 1)];
            }
            simd.write_f(&mut out[first..], simd.add_f(acc[0], acc[1]));
        }
    }
}

/// Plain numbers.
pub(super) struct SingleFloat<'a, F>(pub(super) Single<'a, F>);

/// Numbers whose products make one chain of additions.
const CHAIN: usize = 32;

impl<F: Float> Kernel for SingleFloat<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Single { rows, terms, out } = self.0;
        let cols = rows.pieces();
        assert_eq!(cols, terms.numbers(), "columns of weights and activations");
        let columns = rows.of::<Column>();
        let per_column = 16 / F::BYTES;
        let whole = per_column * columns.pieces();
        for first in (0..STRIP).step_by(S::LANES) {
            let mut acc = simd.splat_f(0.0);
            for chain in (0..cols).step_by(CHAIN) {
                let end = cols.min(chain + CHAIN);
                let mut sum = simd.splat_f(0.0);
                if first == 0 {
                    let ahead = Ahead { index: chain / CHAIN, bytes: CHAIN * F::BYTES, least: 16 << 10 };
                    rows.prefetch(simd, ahead, 0, 1);
                }
                for column in (chain..end.min(whole)).step_by(per_column) {
                    let numbers = F::numbers(simd, columns.piece(first, column / per_column));
                    for (i, x) in numbers.into_iter().take(per_column).enumerate() {
                        sum = simd.fma(x, terms.number(simd, 0, column + i), sum);
                    }
                }
                for column in whole.max(chain)..end {
                    let x = F::number(simd, rows.piece(first, column));
                    sum = simd.fma(x, terms.number(simd, 0, column), sum);
                }
                acc = simd.add_f(acc, sum);
            }
            simd.write_f(&mut out[first..], acc);
        }
    }
}

/// The integer sums of a superblock while its parts come in.
struct Sums<'a, S: Simd, F> {
    rows: StripRows<'a, F>,
    input: Block256<'a, 2>,
    block: usize,
    products: [S::I; 2],
    minima: [S::I; 2],
    scale: S::F,
    floor: S::F,
}

impl<S: Simd, F: Superblock> Sums<'_, S, F> {
    #[inline(always)]
    fn add<const G: usize>(&mut self, simd: S, sub: usize, codes: [S::I; G], scale: S::I) {
        prefetch_next(simd, self.rows, self.block, sub, 64 / G);
        // Written out, so that the sums stay in registers.
        let products = [self.dots(simd, sub, codes, 0), self.dots(simd, sub, codes, 1)];
        self.products[0] = simd.add(self.products[0], simd.mul(products[0], scale));
        self.products[1] = simd.add(self.products[1], simd.mul(products[1], scale));
        // Codes of the sub-blocks that follow are not read before: all together they would not fit the registers.
        compiler_fence(Ordering::SeqCst);
    }

    /// Products of a sub-block's codes with those of term `t`.
    #[inline(always)]
    fn dots<const G: usize>(&self, simd: S, sub: usize, codes: [S::I; G], t: usize) -> S::I {
        let mut sums = match <F::Class as Class>::MINIMA {
            true => simd.splat(0),
            false => simd.shl(self.input.sum::<S, G>(simd, t, sub), F::OFFSET),
        };
        for (group, codes) in codes.into_iter().enumerate() {
            sums = dot::<S, F::Class>(simd, sums, codes, self.input.codes::<S, G>(simd, t, sub, group));
        }
        sums
    }

    /// `acc` plus the block's products with term `t`.
    #[inline(always)]
    fn add_to(&self, simd: S, acc: S::F, t: usize) -> S::F {
        let scale = self.input.scale(simd, t);
        let acc = simd.fma(simd.to_f(self.products[t]), simd.mul_f(self.scale, scale), acc);
        if <F::Class as Class>::MINIMA {
            return simd.fnma(simd.to_f(self.minima[t]), simd.mul_f(self.floor, scale), acc);
        }
        acc
    }
}

impl<S: Simd, F: Superblock> Visitor<S> for Sums<'_, S, F> {
    #[inline(always)]
    fn sub32(&mut self, simd: S, index: usize, codes: [S::I; 8], scale: S::I) {
        self.add(simd, index, codes, scale);
    }

    #[inline(always)]
    fn sub16(&mut self, simd: S, index: usize, codes: [S::I; 4], scale: S::I) {
        self.add(simd, index, codes, scale);
    }

    #[inline(always)]
    fn minima(&mut self, simd: S, index: usize, pair: S::I) {
        let input = |t: usize| self.input.pair_of_sums::<S, F::Class>(simd, t, index);
        let (first, second) = (input(0), input(1));
        self.minima[0] = simd.dot_pairs(self.minima[0], pair, first);
        self.minima[1] = simd.dot_pairs(self.minima[1], pair, second);
    }

    #[inline(always)]
    fn scales(&mut self, _simd: S, d: S::F, dmin: S::F) {
        (self.scale, self.floor) = (d, dmin);
    }
}
