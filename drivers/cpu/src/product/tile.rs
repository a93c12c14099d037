//! Register tiles: two groups of weight rows from scratch against `T` activation rows.
#![expect(clippy::needless_range_loop, reason = "several arrays share the index of a term")]

use super::view::{Block256, BlockPair, LanePair, Parts, Terms};
use crate::formats::class::Class;
use crate::lines::Line;
use crate::simd::{Kernel, STRIP, Simd};
use core::marker::PhantomData;

/// Activation rows of the widest tile. Two groups of weight rows make 12 accumulators, which with as many integer
/// sums leave 8 of 32 registers.
pub(super) const TOKENS: usize = 6;

/// Floats from one activation row's results to the next: both strips' rows.
pub const OUT: usize = 2 * STRIP;

/// A pair of unpacked strips and `T` activation rows.
pub(super) struct Tile<'a, C, const T: usize> {
    pub(super) strips: [&'a [Line]; 2],
    /// True if the second strip's results are wanted.
    pub(super) both: bool,
    pub(super) terms: Terms<'a, T>,
    /// The format subtracts 2^offset from each code.
    pub(super) offset: u32,
    pub(super) out: &'a mut [[f32; OUT]; T],
    pub(super) class: PhantomData<C>,
}

/// One pass of a tile: two vectors of lanes.
struct Pass<'a, S> {
    lanes: LanePair<'a, S>,
    /// First result of each.
    first: [usize; 2],
}

/// The passes of a tile: both strips at once, or the two halves of each in turn.
#[inline(always)]
fn passes<S: Simd>(strips: [&[Line]; 2], both: bool) -> impl Iterator<Item = Pass<'_, S>> {
    let count = if both { STRIP / S::LANES } else { 1 };
    (0..count).map(move |pass| {
        // With sixteen lanes i is the strip; with eight the pass is the strip and i its half.
        let first = [(pass * 2) * S::LANES, (pass * 2 + 1) * S::LANES];
        let strips = [strips[first[0] / STRIP], strips[first[1] / STRIP]];
        Pass { lanes: LanePair::new(strips, [first[0] % STRIP, first[1] % STRIP]), first }
    })
}

/// Blocks of 32.
pub(super) struct Tile32<'a, C, const T: usize>(pub(super) Tile<'a, C, T>);

impl<C: Class, const T: usize> Kernel for Tile32<'_, C, T> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Tile { strips, both, terms, offset, out, .. } = self.0;
        let parts = Parts::<C>::new(32 * terms.blocks32(), 32);
        for pass in passes::<S>(strips, both) {
            let weights = pass.lanes.blocks(&parts);
            assert_eq!(weights.count(), terms.blocks32(), "blocks of weights and activations");
            let mut acc = [[simd.splat_f(0.0); T]; 2];
            for block in 0..weights.count() {
                let (w, input) = (weights.block::<32>(block), terms.block32(block));
                let mut sums = [[simd.splat(0); T]; 2];
                if !C::MINIMA {
                    for t in 0..T {
                        let start = simd.shl(input.sum(simd, t), offset);
                        (sums[0][t], sums[1][t]) = (start, start);
                    }
                }
                for group in 0..8 {
                    let w = w.codes::<8>(simd, 0, group);
                    for t in 0..T {
                        dots::<S, C, T>(simd, &mut sums, t, w, input.codes(simd, t, group));
                    }
                }
                let scales = w.scales(simd);
                for t in 0..T {
                    let scale = input.scale(simd, t);
                    for i in 0..2 {
                        let factor = simd.mul_f(scales[i], scale);
                        acc[i][t] = simd.fma(simd.to_f(sums[i][t]), factor, acc[i][t]);
                    }
                }
                if C::MINIMA {
                    let floors = w.floors(simd);
                    for t in 0..T {
                        let sum = simd.as_f(input.sum(simd, t));
                        for i in 0..2 {
                            acc[i][t] = simd.fma(floors[i], sum, acc[i][t]);
                        }
                    }
                }
            }
            write(simd, out, both, pass.first, acc);
        }
    }
}

/// Superblocks.
pub(super) struct Tile256<'a, C, const T: usize>(pub(super) Tile<'a, C, T>);

impl<C: Class, const T: usize> Kernel for Tile256<'_, C, T> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Tile { strips, both, terms, offset, out, .. } = self.0;
        let parts = Parts::<C>::new(256 * terms.blocks256(), 256);
        for pass in passes::<S>(strips, both) {
            let weights = pass.lanes.blocks(&parts);
            assert_eq!(weights.count(), terms.blocks256(), "blocks of weights and activations");
            let mut acc = [[simd.splat_f(0.0); T]; 2];
            for block in 0..weights.count() {
                let (w, input) = (weights.block::<256>(block), terms.block256(block));
                let sums = match C::SUB {
                    16 => superblock::<S, C, T, 4>(simd, w, input, offset),
                    _ => superblock::<S, C, T, 8>(simd, w, input, offset),
                };
                let scales = w.scales(simd);
                for t in 0..T {
                    let scale = input.scale(simd, t);
                    for i in 0..2 {
                        let factor = simd.mul_f(scales[i], scale);
                        acc[i][t] = simd.fma(simd.to_f(sums[i][t]), factor, acc[i][t]);
                    }
                }
                if C::MINIMA {
                    let sums = minima::<S, C, T>(simd, w, input);
                    let floors = w.floors(simd);
                    for t in 0..T {
                        let scale = input.scale(simd, t);
                        for i in 0..2 {
                            let factor = simd.mul_f(floors[i], scale);
                            acc[i][t] = simd.fnma(simd.to_f(sums[i][t]), factor, acc[i][t]);
                        }
                    }
                }
            }
            write(simd, out, both, pass.first, acc);
        }
    }
}

/// Plain numbers.
pub(super) struct TileFloat<'a, const T: usize>(pub(super) Tile<'a, (), T>);

impl<const T: usize> Kernel for TileFloat<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Tile { strips, both, terms, out, .. } = self.0;
        let cols = terms.numbers();
        for Pass { lanes, first: results } in passes::<S>(strips, both) {
            assert!(cols <= lanes.vectors(), "columns of weights and activations");
            let mut acc = [[simd.splat_f(0.0); T]; 2];
            let mut first = 0;
            while first < cols {
                let end = cols.min(first + 32);
                let mut sums = [[simd.splat_f(0.0); T]; 2];
                for column in first..end {
                    let w = lanes.floats(simd, column);
                    for t in 0..T {
                        let x = terms.number(simd, t, column);
                        for i in 0..2 {
                            sums[i][t] = simd.fma(w[i], x, sums[i][t]);
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
            write(simd, out, both, results, acc);
        }
    }
}

type Sums<S, const T: usize> = [[<S as Simd>::I; T]; 2];

/// Adds the products of one group of four codes to the sums of term `t`.
#[inline(always)]
fn dots<S: Simd, C: Class, const T: usize>(simd: S, sums: &mut Sums<S, T>, t: usize, w: [S::I; 2], x: S::I) {
    for i in 0..2 {
        sums[i][t] = match C::WIDE {
            true => simd.dot::<true>(sums[i][t], w[i], x),
            false => simd.dot::<false>(sums[i][t], w[i], x),
        };
    }
}

/// Σ scale · (codes · activations) over the sub-blocks, of `G` groups each, of a superblock.
#[inline(always)]
fn superblock<S: Simd, C: Class, const T: usize, const G: usize>(
    simd: S,
    w: BlockPair<'_, S, C, 256>,
    input: Block256<'_, T>,
    offset: u32,
) -> Sums<S, T> {
    let mut total = [[simd.splat(0); T]; 2];
    for sub in 0..64 / G {
        let mut sums = [[simd.splat(0); T]; 2];
        if !C::MINIMA {
            for t in 0..T {
                let start = simd.shl(input.sum::<S, G>(simd, t, sub), offset);
                (sums[0][t], sums[1][t]) = (start, start);
            }
        }
        for group in 0..G {
            let w = w.codes::<G>(simd, sub, group);
            for t in 0..T {
                dots::<S, C, T>(simd, &mut sums, t, w, input.codes::<S, G>(simd, t, sub, group));
            }
        }
        let scales = w.sub_scales(simd, sub);
        for i in 0..2 {
            for t in 0..T {
                total[i][t] = simd.add(total[i][t], simd.mul(sums[i][t], scales[i]));
            }
        }
    }
    total
}

/// Σ minimum · activations over the sub-blocks of a superblock.
#[inline(always)]
fn minima<S: Simd, C: Class, const T: usize>(
    simd: S,
    w: BlockPair<'_, S, C, 256>,
    input: Block256<'_, T>,
) -> Sums<S, T> {
    let mut total = [[simd.splat(0); T]; 2];
    for pair in 0..128 / C::SUB {
        let w = w.minima(simd, pair);
        for t in 0..T {
            let x = input.pair_of_sums::<S, C>(simd, t, pair);
            for i in 0..2 {
                total[i][t] = simd.dot_pairs(total[i][t], w[i], x);
            }
        }
    }
    total
}

/// Writes the results of two vectors of lanes.
#[inline(always)]
fn write<S: Simd, const T: usize>(
    simd: S,
    out: &mut [[f32; OUT]; T],
    both: bool,
    first: [usize; 2],
    acc: [[S::F; T]; 2],
) {
    for (first, acc) in first.into_iter().zip(acc) {
        if first >= STRIP && !both {
            continue;
        }
        for (out, x) in out.iter_mut().zip(acc) {
            simd.write_f(&mut out[first..], x);
        }
    }
}
