//! Register tiles: two groups of weight rows from scratch against `T` activation rows.
#![expect(unsafe_code, reason = "walks raw scratch and raw activation rows")]

use super::scratch::{Parts, VECTOR};
use crate::activations::Layout;
use crate::formats::Class;
use crate::simd::{Kernel, STRIP, Simd};
use core::marker::PhantomData;

/// Activation rows of the widest tile. Two groups of weight rows make 12 accumulators, which with as many integer
/// sums leave 8 of 32 registers.
pub(super) const TOKENS: usize = 6;

/// Floats from one activation row's results to the next: both strips' rows.
pub const OUT: usize = 2 * STRIP;

/// A pair of unpacked strips and `T` activation rows.
pub(super) struct Tile<'a, C, const T: usize> {
    pub(super) strips: [*const u8; 2],
    /// Whether the second strip's results are wanted.
    pub(super) both: bool,
    pub(super) layout: &'a Layout,
    pub(super) tokens: [*const u8; T],
    /// The format subtracts 2^offset from each code.
    pub(super) offset: u32,
    /// `T` rows of [`OUT`] floats.
    pub(super) out: *mut f32,
    pub(super) class: PhantomData<C>,
}

/// Which two vectors of lanes a tile pass works on: both strips, or the two halves of each in turn.
#[inline(always)]
fn passes<S: Simd>(strips: [*const u8; 2], both: bool) -> impl Iterator<Item = ([*const u8; 2], [usize; 2])> {
    let count = if both { STRIP / S::LANES } else { 1 };
    (0..count).map(move |pass| {
        let vector = |i: usize| {
            // With sixteen lanes i is the strip; with eight the pass is the strip and i its half.
            let lanes = (pass * 2 + i) * S::LANES;
            (strips[lanes / STRIP].wrapping_add(4 * (lanes % STRIP)), lanes)
        };
        let (a, b) = (vector(0), vector(1));
        ([a.0, b.0], [a.1, b.1])
    })
}

/// Blocks of 32.
pub(super) struct Tile32<'a, C, const T: usize>(pub(super) Tile<'a, C, T>);

impl<C: Class, const T: usize> Kernel for Tile32<'_, C, T> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Tile { strips, both, layout, tokens, offset, out, .. } = self.0;
        let parts = Parts::new::<C>(layout.cols, 32);
        for (groups, lanes) in passes::<S>(strips, both) {
            let mut acc = [[simd.splat_f(0.0); T]; 2];
            for block in 0..layout.cols / 32 {
                // SAFETY: whoever makes a tile vouches for the strips' parts and the activation rows' planes.
                unsafe {
                    let mut sums = start::<S, C, T>(simd, tokens, layout.sums + 4 * block, offset);
                    dots::<S, C, T, 8>(simd, groups, tokens, 8 * block, &mut sums);
                    let at = |plane: usize, i: usize| groups[i].add(plane + block * VECTOR).cast();
                    let scales: [S::F; 2] =
                        [simd.load_f(at(parts.scales, 0)), simd.load_f(at(parts.scales, 1))];
                    for t in 0..T {
                        let scale = simd.as_f(simd.load_splat(tokens[t].add(layout.scales + 4 * block)));
                        for i in 0..2 {
                            acc[i][t] =
                                simd.fma(simd.to_f(sums[i][t]), simd.mul_f(scales[i], scale), acc[i][t]);
                        }
                    }
                    if C::MINIMA {
                        let floors: [S::F; 2] =
                            [simd.load_f(at(parts.floors, 0)), simd.load_f(at(parts.floors, 1))];
                        for t in 0..T {
                            let sum = simd.as_f(simd.load_splat(tokens[t].add(layout.sums + 4 * block)));
                            for i in 0..2 {
                                acc[i][t] = simd.fma(floors[i], sum, acc[i][t]);
                            }
                        }
                    }
                }
            }
            // SAFETY: as above for the results.
            unsafe { write(simd, out, both, lanes, acc) };
        }
    }
}

/// Superblocks.
pub(super) struct Tile256<'a, C, const T: usize>(pub(super) Tile<'a, C, T>);

impl<C: Class, const T: usize> Kernel for Tile256<'_, C, T> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Tile { strips, both, layout, tokens, offset, out, .. } = self.0;
        let parts = Parts::new::<C>(layout.cols, 256);
        for (groups, lanes) in passes::<S>(strips, both) {
            let mut acc = [[simd.splat_f(0.0); T]; 2];
            for block in 0..layout.cols / 256 {
                // SAFETY: whoever makes a tile vouches for the strips' parts and the activation rows' planes.
                unsafe {
                    let sums = superblock::<S, C, T>(simd, groups, tokens, (layout, &parts, offset), block);
                    let at = |plane: usize, i: usize| groups[i].add(plane + block * VECTOR).cast();
                    let scales: [S::F; 2] =
                        [simd.load_f(at(parts.scales, 0)), simd.load_f(at(parts.scales, 1))];
                    for t in 0..T {
                        let scale = simd.as_f(simd.load_splat(tokens[t].add(layout.scales + 4 * block)));
                        for i in 0..2 {
                            acc[i][t] =
                                simd.fma(simd.to_f(sums[i][t]), simd.mul_f(scales[i], scale), acc[i][t]);
                        }
                    }
                    if C::MINIMA {
                        let sums = minima::<S, C, T>(simd, groups, tokens, (layout, &parts), block);
                        let floors: [S::F; 2] =
                            [simd.load_f(at(parts.floors, 0)), simd.load_f(at(parts.floors, 1))];
                        for t in 0..T {
                            let scale = simd.as_f(simd.load_splat(tokens[t].add(layout.scales + 4 * block)));
                            for i in 0..2 {
                                acc[i][t] =
                                    simd.fnma(simd.to_f(sums[i][t]), simd.mul_f(floors[i], scale), acc[i][t]);
                            }
                        }
                    }
                }
            }
            // SAFETY: as above for the results.
            unsafe { write(simd, out, both, lanes, acc) };
        }
    }
}

/// Plain numbers.
pub(super) struct TileFloat<'a, const T: usize>(pub(super) Tile<'a, (), T>);

impl<const T: usize> Kernel for TileFloat<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Tile { strips, both, layout, tokens, out, .. } = self.0;
        for (groups, lanes) in passes::<S>(strips, both) {
            let mut acc = [[simd.splat_f(0.0); T]; 2];
            let mut first = 0;
            while first < layout.cols {
                let end = layout.cols.min(first + 32);
                let mut sums = [[simd.splat_f(0.0); T]; 2];
                for column in first..end {
                    // SAFETY: whoever makes a tile vouches for the strips' columns and the activation rows.
                    unsafe {
                        let w: [S::F; 2] = [
                            simd.load_f(groups[0].add(column * VECTOR).cast()),
                            simd.load_f(groups[1].add(column * VECTOR).cast()),
                        ];
                        for t in 0..T {
                            let x = simd.as_f(simd.load_splat(tokens[t].add(4 * column)));
                            for i in 0..2 {
                                sums[i][t] = simd.fma(w[i], x, sums[i][t]);
                            }
                        }
                    }
                }
                for i in 0..2 {
                    for t in 0..T {
                        acc[i][t] = simd.add_f(acc[i][t], sums[i][t]);
                    }
                }
                first = end;
            }
            // SAFETY: as above for the results.
            unsafe { write(simd, out, both, lanes, acc) };
        }
    }
}

type Sums<S, const T: usize> = [[<S as Simd>::I; T]; 2];

/// What integer sums begin with: minus 2^offset times the activations' sum, or nothing.
///
/// # Safety
/// Every activation row must have four bytes at `at`.
#[inline(always)]
unsafe fn start<S: Simd, C: Class, const T: usize>(
    simd: S,
    tokens: [*const u8; T],
    at: usize,
    offset: u32,
) -> Sums<S, T> {
    let mut row = [simd.splat(0); T];
    if !C::MINIMA {
        for t in 0..T {
            // SAFETY: the caller's promise.
            row[t] = simd.shl(unsafe { simd.load_splat(tokens[t].add(at)) }, offset);
        }
    }
    [row; 2]
}

/// Adds the products of `G` groups of four codes, starting at group `first`.
///
/// # Safety
/// Strips and activation rows must have these groups.
#[inline(always)]
unsafe fn dots<S: Simd, C: Class, const T: usize, const G: usize>(
    simd: S,
    groups: [*const u8; 2],
    tokens: [*const u8; T],
    first: usize,
    sums: &mut Sums<S, T>,
) {
    for group in first..first + G {
        // SAFETY: the caller's promise.
        unsafe {
            let w: [S::I; 2] =
                [simd.load(groups[0].add(group * VECTOR)), simd.load(groups[1].add(group * VECTOR))];
            for t in 0..T {
                let x = simd.load_splat(tokens[t].add(4 * group));
                for i in 0..2 {
                    sums[i][t] = match C::WIDE {
                        true => simd.dot::<true>(sums[i][t], w[i], x),
                        false => simd.dot::<false>(sums[i][t], w[i], x),
                    };
                }
            }
        }
    }
}

/// Σ scale · (codes · activations) over the sub-blocks of superblock `block`.
///
/// # Safety
/// Strips and activation rows must have this block.
#[inline(always)]
unsafe fn superblock<S: Simd, C: Class, const T: usize>(
    simd: S,
    groups: [*const u8; 2],
    tokens: [*const u8; T],
    (layout, parts, offset): (&Layout, &Parts, u32),
    block: usize,
) -> Sums<S, T> {
    let mut total = [[simd.splat(0); T]; 2];
    let subs = 256 / C::SUB;
    let plane = if C::SUB == 16 { layout.sums } else { layout.sums32 };
    for sub in subs * block..subs * (block + 1) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sums = start::<S, C, T>(simd, tokens, plane + 4 * sub, offset);
            if C::SUB == 16 {
                dots::<S, C, T, 4>(simd, groups, tokens, 4 * sub, &mut sums);
            } else {
                dots::<S, C, T, 8>(simd, groups, tokens, 8 * sub, &mut sums);
            }
            for i in 0..2 {
                let scale = simd.load(groups[i].add(parts.sub_scales + sub * VECTOR));
                for t in 0..T {
                    total[i][t] = simd.add(total[i][t], simd.mul(sums[i][t], scale));
                }
            }
        }
    }
    total
}

/// Σ minimum · activations over the sub-blocks of superblock `block`.
///
/// # Safety
/// Strips and activation rows must have this block.
#[inline(always)]
unsafe fn minima<S: Simd, C: Class, const T: usize>(
    simd: S,
    groups: [*const u8; 2],
    tokens: [*const u8; T],
    (layout, parts): (&Layout, &Parts),
    block: usize,
) -> Sums<S, T> {
    let mut total = [[simd.splat(0); T]; 2];
    let pairs = 128 / C::SUB;
    let plane = if C::SUB == 16 { layout.halves16 } else { layout.halves32 };
    for pair in pairs * block..pairs * (block + 1) {
        // SAFETY: the caller's promise.
        unsafe {
            let w: [S::I; 2] = [
                simd.load(groups[0].add(parts.minima + pair * VECTOR)),
                simd.load(groups[1].add(parts.minima + pair * VECTOR)),
            ];
            for t in 0..T {
                let x = simd.load_splat(tokens[t].add(plane + 4 * pair));
                for i in 0..2 {
                    total[i][t] = simd.dot_pairs(total[i][t], w[i], x);
                }
            }
        }
    }
    total
}

/// Writes the results of two vectors of lanes.
///
/// # Safety
/// `out` must be writable for `T` rows of [`OUT`] floats.
#[inline(always)]
unsafe fn write<S: Simd, const T: usize>(
    simd: S,
    out: *mut f32,
    both: bool,
    lanes: [usize; 2],
    acc: [[S::F; T]; 2],
) {
    for (lane, acc) in lanes.into_iter().zip(acc) {
        if lane >= STRIP && !both {
            continue;
        }
        for (t, x) in acc.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { simd.store_f(out.add(t * OUT + lane), x) };
        }
    }
}
