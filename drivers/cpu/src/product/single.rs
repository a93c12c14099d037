//! One activation row: weights go from the file's bytes into the dot products of its two terms without a stop in
//! memory.
#![expect(unsafe_code, reason = "walks raw rows and a raw activation row")]

use super::unpack::prefetch_next;
use crate::activations::Layout;
use crate::formats::{Block32, Class, Float, Superblock, Visitor};
use crate::simd::{Kernel, Rows, STRIP, Simd};
use core::marker::PhantomData;

/// A strip against one activation row.
pub(super) struct Single<'a, F> {
    pub(super) rows: Rows,
    pub(super) layout: &'a Layout,
    pub(super) terms: [*const u8; 2],
    /// Sixteen floats.
    pub(super) out: *mut f32,
    pub(super) format: PhantomData<F>,
}

/// Blocks of 32.
pub(super) struct Single32<'a, F>(pub(super) Single<'a, F>);

impl<F: Block32> Kernel for Single32<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Single { rows, layout, terms, out, .. } = self.0;
        for first in (0..STRIP).step_by(S::LANES) {
            let mut acc = [simd.splat_f(0.0); 2];
            for block in 0..layout.cols / 32 {
                if first == 0 {
                    prefetch_next(simd, rows, (block, F::BYTES), (0, 1));
                }
                // SAFETY: whoever makes a `Single` vouches for sixteen rows and the activation row's planes.
                unsafe {
                    let rows = Rows { base: rows.base.add(first * rows.stride), stride: rows.stride };
                    let rows = rows.at(block * F::BYTES);
                    let codes = F::codes(simd, rows);
                    let (scale, floor) = F::scales(simd, rows);
                    for (acc, term) in acc.iter_mut().zip(terms) {
                        let sum = simd.load_splat(term.add(layout.sums + 4 * block));
                        let start = match <F::Class as Class>::MINIMA {
                            true => simd.splat(0),
                            false => simd.shl(sum, F::OFFSET),
                        };
                        let products = dots::<S, F::Class, 8>(simd, start, codes, term.add(32 * block));
                        let input = simd.as_f(simd.load_splat(term.add(layout.scales + 4 * block)));
                        *acc = simd.fma(simd.to_f(products), simd.mul_f(scale, input), *acc);
                        if <F::Class as Class>::MINIMA {
                            *acc = simd.fma(floor, simd.as_f(sum), *acc);
                        }
                    }
                }
            }
            // SAFETY: as above for the results.
            unsafe { simd.store_f(out.add(first), simd.add_f(acc[0], acc[1])) };
        }
    }
}

/// Superblocks.
pub(super) struct Single256<'a, F>(pub(super) Single<'a, F>);

impl<F: Superblock> Kernel for Single256<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Single { rows, layout, terms, out, .. } = self.0;
        for first in (0..STRIP).step_by(S::LANES) {
            let mut acc = [simd.splat_f(0.0); 2];
            for block in 0..layout.cols / 256 {
                // SAFETY: whoever makes a `Single` vouches for sixteen rows and the activation row's planes.
                unsafe {
                    let mut sums = Sums::<S, F> {
                        whole: rows,
                        layout,
                        terms,
                        block,
                        products: [simd.splat(0); 2],
                        minima: [simd.splat(0); 2],
                        scale: simd.splat_f(0.0),
                        floor: simd.splat_f(0.0),
                        format: PhantomData,
                    };
                    let rows = Rows { base: rows.base.add(first * rows.stride), stride: rows.stride };
                    F::visit(simd, rows.at(block * F::BYTES), &mut sums);
                    for (index, (acc, term)) in acc.iter_mut().zip(terms).enumerate() {
                        let input = simd.as_f(simd.load_splat(term.add(layout.scales + 4 * block)));
                        *acc = simd.fma(simd.to_f(sums.products[index]), simd.mul_f(sums.scale, input), *acc);
                        if <F::Class as Class>::MINIMA {
                            let minima = simd.to_f(sums.minima[index]);
                            *acc = simd.fnma(minima, simd.mul_f(sums.floor, input), *acc);
                        }
                    }
                }
            }
            // SAFETY: as above for the results.
            unsafe { simd.store_f(out.add(first), simd.add_f(acc[0], acc[1])) };
        }
    }
}

/// Plain numbers.
pub(super) struct SingleFloat<'a, F>(pub(super) Single<'a, F>);

impl<F: Float> Kernel for SingleFloat<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Single { rows, layout, terms: [input, _], out, .. } = self.0;
        let per_column = 16 / F::BYTES;
        let whole = layout.cols / per_column * per_column;
        for first in (0..STRIP).step_by(S::LANES) {
            // SAFETY: whoever makes a `Single` vouches for sixteen rows and the activation row.
            let rows = Rows { base: unsafe { rows.base.add(first * rows.stride) }, stride: rows.stride };
            let mut acc = simd.splat_f(0.0);
            for chain in (0..layout.cols).step_by(32) {
                let end = layout.cols.min(chain + 32);
                let mut sum = simd.splat_f(0.0);
                if first == 0 {
                    prefetch_next(simd, rows, (chain / 32, 32 * F::BYTES), (0, 1));
                }
                for column in (chain..end.min(whole)).step_by(per_column) {
                    // SAFETY: as above.
                    let numbers = unsafe { F::numbers(simd, rows.at(column * F::BYTES)) };
                    for (i, x) in numbers.into_iter().take(per_column).enumerate() {
                        // SAFETY: as above.
                        let value = simd.as_f(unsafe { simd.load_splat(input.add(4 * (column + i))) });
                        sum = simd.fma(x, value, sum);
                    }
                }
                for column in whole.max(chain)..end {
                    // SAFETY: as above.
                    unsafe {
                        let x = F::number(simd, rows.at(column * F::BYTES));
                        sum = simd.fma(x, simd.as_f(simd.load_splat(input.add(4 * column))), sum);
                    }
                }
                acc = simd.add_f(acc, sum);
            }
            // SAFETY: as above for the results.
            unsafe { simd.store_f(out.add(first), acc) };
        }
    }
}

/// The integer sums of a superblock while its parts come in.
struct Sums<'a, S: Simd, F> {
    /// All rows of the strip.
    whole: Rows,
    layout: &'a Layout,
    terms: [*const u8; 2],
    block: usize,
    products: [S::I; 2],
    minima: [S::I; 2],
    scale: S::F,
    floor: S::F,
    format: PhantomData<F>,
}

impl<S: Simd, F: Superblock> Sums<'_, S, F> {
    #[inline(always)]
    fn add<const G: usize>(&mut self, simd: S, sub: usize, plane: usize, codes: [S::I; G], scale: S::I) {
        let subs = 256 / <F::Class as Class>::SUB;
        prefetch_next(simd, self.whole, (self.block, F::BYTES), (sub % subs, subs));
        for (products, term) in self.products.iter_mut().zip(self.terms) {
            // SAFETY: whoever makes a `Single` vouches for the activation row's planes.
            let sums = unsafe {
                let start = match <F::Class as Class>::MINIMA {
                    true => simd.splat(0),
                    false => simd.shl(simd.load_splat(term.add(plane + 4 * sub)), F::OFFSET),
                };
                dots::<S, F::Class, G>(simd, start, codes, term.add(4 * G * sub))
            };
            *products = simd.add(*products, simd.mul(sums, scale));
        }
    }
}

impl<S: Simd, F: Superblock> Visitor<S> for Sums<'_, S, F> {
    #[inline(always)]
    fn sub32(&mut self, simd: S, index: usize, codes: [S::I; 8], scale: S::I) {
        self.add(simd, 8 * self.block + index, self.layout.sums32, codes, scale);
    }

    #[inline(always)]
    fn sub16(&mut self, simd: S, index: usize, codes: [S::I; 4], scale: S::I) {
        self.add(simd, 16 * self.block + index, self.layout.sums, codes, scale);
    }

    #[inline(always)]
    fn minima(&mut self, simd: S, index: usize, pair: S::I) {
        let sub = <F::Class as Class>::SUB;
        let plane = if sub == 16 { self.layout.halves16 } else { self.layout.halves32 };
        let at = plane + 4 * (128 / sub * self.block + index);
        for (minima, term) in self.minima.iter_mut().zip(self.terms) {
            // SAFETY: whoever makes a `Single` vouches for the activation row's planes.
            let input = unsafe { simd.load_splat(term.add(at)) };
            *minima = simd.dot_pairs(*minima, pair, input);
        }
    }

    #[inline(always)]
    fn scales(&mut self, _simd: S, d: S::F, dmin: S::F) {
        (self.scale, self.floor) = (d, dmin);
    }
}

/// `start` plus the products of `G` groups of codes with the activation codes at `token`.
///
/// # Safety
/// `token` must be readable for 4 `G` bytes.
#[inline(always)]
unsafe fn dots<S: Simd, C: Class, const G: usize>(
    simd: S,
    start: S::I,
    codes: [S::I; G],
    token: *const u8,
) -> S::I {
    let mut sum = start;
    for (group, codes) in codes.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        let input = unsafe { simd.load_splat(token.add(4 * group)) };
        sum = match C::WIDE {
            true => simd.dot::<true>(sum, codes, input),
            false => simd.dot::<false>(sum, codes, input),
        };
    }
    sum
}
