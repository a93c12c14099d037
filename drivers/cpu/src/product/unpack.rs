//! Turns a strip of a matrix into vectors of sixteen rows, in scratch. What is computed with them is not here.
#![expect(unsafe_code, reason = "walks raw rows and writes raw scratch")]

use super::scratch::{Parts, VECTOR};
use crate::formats::{Block32, Class, Float, Superblock, Visitor};
use crate::simd::{Kernel, Rows, STRIP, Simd};
use core::marker::PhantomData;

/// A strip to unpack.
pub(super) struct Unpack<F> {
    rows: Rows,
    cols: usize,
    out: *mut u8,
    format: PhantomData<F>,
}

impl<F> Unpack<F> {
    /// Sixteen rows of `cols` elements to `out`.
    ///
    /// # Safety
    /// Sixteen rows of that many elements must be readable, and `out` writable for the format's `Parts` (for plain
    /// numbers: `cols` vectors).
    pub(super) const unsafe fn new(rows: Rows, cols: usize, out: *mut u8) -> Self {
        Self { rows, cols, out, format: PhantomData }
    }
}

/// How far ahead of their use weights are asked for, in bytes: the next strip, or this when a strip is less.
const AHEAD: usize = 16 << 10;

/// Asks for part `part` of `parts` of what lies ahead of sixteen blocks at `block`.
///
/// Rows are contiguous, so the next strip begins where this one ends: reading ahead in address order.
/// Requests are spread over the work on a block, since a core has few lines in flight at a time.
#[inline(always)]
pub(super) fn prefetch_next<S: Simd>(
    simd: S,
    rows: Rows,
    (block, bytes): (usize, usize),
    (part, parts): (usize, usize),
) {
    let share = STRIP * bytes / parts;
    let start = (STRIP * rows.stride).max(AHEAD) + STRIP * block * bytes + part * share;
    for line in 0..share.div_ceil(64) {
        simd.prefetch(rows.base.wrapping_add(start + 64 * line));
    }
}

/// The rows of lane group `half`, and where its lanes lie in a vector of sixteen rows.
#[inline(always)]
unsafe fn lane_group<S: Simd>(rows: Rows, half: usize) -> (Rows, usize) {
    let first = half * S::LANES;
    // SAFETY: the strip has sixteen rows.
    (Rows { base: unsafe { rows.base.add(first * rows.stride) }, stride: rows.stride }, 4 * first)
}

/// Blocks of 32.
pub(super) struct Unpack32<F>(pub(super) Unpack<F>);

impl<F: Block32> Kernel for Unpack32<F> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Unpack { rows, cols, out, .. } = self.0;
        let parts = Parts::new::<F::Class>(cols, 32);
        for block in 0..cols / 32 {
            prefetch_next(simd, rows, (block, F::BYTES), (0, 1));
            for half in 0..STRIP / S::LANES {
                // SAFETY: `Unpack::new`: the rows have these blocks, scratch has these parts.
                unsafe {
                    let (rows, lane) = lane_group::<S>(rows, half);
                    let rows = rows.at(block * F::BYTES);
                    let out = out.add(lane);
                    for (group, codes) in F::codes(simd, rows).into_iter().enumerate() {
                        simd.store(out.add((8 * block + group) * VECTOR), codes);
                    }
                    let (scale, floor) = F::scales(simd, rows);
                    simd.store_f(out.add(parts.scales + block * VECTOR).cast(), scale);
                    if <F::Class as Class>::MINIMA {
                        simd.store_f(out.add(parts.floors + block * VECTOR).cast(), floor);
                    }
                }
            }
        }
    }
}

/// Superblocks.
pub(super) struct Unpack256<F>(pub(super) Unpack<F>);

impl<F: Superblock> Kernel for Unpack256<F> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Unpack { rows, cols, out, .. } = self.0;
        let parts = Parts::new::<F::Class>(cols, 256);
        for block in 0..cols / 256 {
            for half in 0..STRIP / S::LANES {
                // SAFETY: `Unpack::new`: the rows have these blocks, scratch has these parts.
                unsafe {
                    let mut writer = Writer::<F> {
                        whole: Some(rows),
                        out: out.add(4 * half * S::LANES),
                        parts,
                        block,
                        format: PhantomData,
                    };
                    let (rows, _) = lane_group::<S>(rows, half);
                    F::visit(simd, rows.at(block * F::BYTES), &mut writer);
                }
            }
        }
    }
}

/// Writes the parts of a superblock where [`Parts`] says.
pub(super) struct Writer<F> {
    /// All rows of the strip, when the next one is to be asked for.
    pub(super) whole: Option<Rows>,
    pub(super) out: *mut u8,
    pub(super) parts: Parts,
    pub(super) block: usize,
    pub(super) format: PhantomData<F>,
}

impl<S: Simd, F: Superblock> Visitor<S> for Writer<F> {
    #[inline(always)]
    fn sub32(&mut self, simd: S, index: usize, codes: [S::I; 8], scale: S::I) {
        let sub = 8 * self.block + index;
        if let Some(rows) = self.whole {
            prefetch_next(simd, rows, (self.block, F::BYTES), (index, 8));
        }
        // SAFETY: `Unpack::new`: scratch has these parts.
        unsafe {
            for (group, codes) in codes.into_iter().enumerate() {
                simd.store(self.out.add((8 * sub + group) * VECTOR), codes);
            }
            simd.store(self.out.add(self.parts.sub_scales + sub * VECTOR), scale);
        }
    }

    #[inline(always)]
    fn sub16(&mut self, simd: S, index: usize, codes: [S::I; 4], scale: S::I) {
        let sub = 16 * self.block + index;
        if let Some(rows) = self.whole {
            prefetch_next(simd, rows, (self.block, F::BYTES), (index, 16));
        }
        // SAFETY: `Unpack::new`: scratch has these parts.
        unsafe {
            for (group, codes) in codes.into_iter().enumerate() {
                simd.store(self.out.add((4 * sub + group) * VECTOR), codes);
            }
            simd.store(self.out.add(self.parts.sub_scales + sub * VECTOR), scale);
        }
    }

    #[inline(always)]
    fn minima(&mut self, simd: S, index: usize, pair: S::I) {
        let at = self.parts.minima + (128 / <F::Class as Class>::SUB * self.block + index) * VECTOR;
        // SAFETY: `Unpack::new`: scratch has these parts.
        unsafe { simd.store(self.out.add(at), pair) };
    }

    #[inline(always)]
    fn scales(&mut self, simd: S, d: S::F, dmin: S::F) {
        // SAFETY: `Unpack::new`: scratch has these parts.
        unsafe {
            simd.store_f(self.out.add(self.parts.scales + self.block * VECTOR).cast(), d);
            if <F::Class as Class>::MINIMA {
                simd.store_f(self.out.add(self.parts.floors + self.block * VECTOR).cast(), dmin);
            }
        }
    }
}

/// Plain numbers.
pub(super) struct UnpackFloat<F>(pub(super) Unpack<F>);

impl<F: Float> Kernel for UnpackFloat<F> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Unpack { rows, cols, out, .. } = self.0;
        let per_column = 16 / F::BYTES;
        let whole = cols / per_column * per_column;
        for half in 0..STRIP / S::LANES {
            // SAFETY: `Unpack::new`: the rows have these numbers, scratch has a vector for each column.
            unsafe {
                let (rows, lane) = lane_group::<S>(rows, half);
                let out = out.add(lane);
                for first in (0..whole).step_by(per_column) {
                    let numbers = F::numbers(simd, rows.at(first * F::BYTES));
                    for (i, x) in numbers.into_iter().take(per_column).enumerate() {
                        simd.store_f(out.add((first + i) * VECTOR).cast(), x);
                    }
                }
                for column in whole..cols {
                    let x = F::number(simd, rows.at(column * F::BYTES));
                    simd.store_f(out.add(column * VECTOR).cast(), x);
                }
            }
        }
    }
}
