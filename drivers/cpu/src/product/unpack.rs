//! Turns a strip of a matrix into vectors of sixteen rows, in scratch. What is computed with them is not here.

use super::view::{Ahead, Column, LaneWriter, Parts, Piece, StripRows};
use crate::formats::class::Class;
use crate::formats::{Block32, Float, Superblock, Visitor};
use crate::lines::Line;
use crate::simd::{Kernel, STRIP, Simd};

/// A strip to unpack, and where to.
pub(super) struct Unpack<'a, F> {
    pub(super) rows: StripRows<'a, F>,
    /// Vectors for the format's [`Parts`], or one per column of plain numbers.
    pub(super) out: &'a mut [Line],
}

/// Distance at which weights are requested ahead of their use, in bytes: the next strip, or this when a strip is less.
const AHEAD: usize = 16 << 10;

/// Requests part `part` of `parts` of what lies ahead of a strip's block `index`.
#[inline(always)]
pub(super) fn prefetch_next<S: Simd, P: Piece>(
    simd: S,
    rows: StripRows<'_, P>,
    index: usize,
    part: usize,
    parts: usize,
) {
    rows.prefetch(simd, Ahead { index, bytes: P::BYTES, least: AHEAD }, part, parts);
}

/// Blocks of 32.
pub(super) struct Unpack32<'a, F>(pub(super) Unpack<'a, F>);

impl<F: Block32> Kernel for Unpack32<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Unpack { rows, out } = self.0;
        let parts = Parts::<F::Class>::new(32 * rows.pieces(), 32);
        for block in 0..rows.pieces() {
            prefetch_next(simd, rows, block, 0, 1);
            for first in (0..STRIP).step_by(S::LANES) {
                let piece = rows.piece::<S>(first, block);
                let mut out = LaneWriter::new(out, first);
                out.write(simd, 8 * block, F::codes(simd, piece));
                let (scale, floor) = F::scales(simd, piece);
                out.scales(simd, &parts, block, scale, floor);
            }
        }
    }
}

/// Superblocks.
pub(super) struct Unpack256<'a, F>(pub(super) Unpack<'a, F>);

impl<F: Superblock> Kernel for Unpack256<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Unpack { rows, out } = self.0;
        let parts = Parts::new(256 * rows.pieces(), 256);
        for block in 0..rows.pieces() {
            for first in (0..STRIP).step_by(S::LANES) {
                let out = LaneWriter::new(out, first);
                let mut writer = Writer { ahead: Some(rows), out, parts, block };
                F::visit(simd, rows.piece(first, block), &mut writer);
            }
        }
    }
}

/// Writes the parts of a superblock where [`Parts`] says.
pub(super) struct Writer<'a, S, F: Superblock> {
    /// The strip, when the next one is to be requested.
    pub(super) ahead: Option<StripRows<'a, F>>,
    pub(super) out: LaneWriter<'a, S>,
    pub(super) parts: Parts<F::Class>,
    pub(super) block: usize,
}

impl<S: Simd, F: Superblock> Writer<'_, S, F> {
    /// Sub-block `index` of `G` groups of codes.
    #[inline(always)]
    fn sub_block<const G: usize>(&mut self, simd: S, index: usize, codes: [S::I; G], scale: S::I) {
        let subs = 64 / G;
        if let Some(rows) = self.ahead {
            prefetch_next(simd, rows, self.block, index, subs);
        }
        self.out.sub_block(simd, &self.parts, subs * self.block + index, codes, scale);
    }
}

impl<S: Simd, F: Superblock> Visitor<S> for Writer<'_, S, F> {
    #[inline(always)]
    fn sub32(&mut self, simd: S, index: usize, codes: [S::I; 8], scale: S::I) {
        self.sub_block(simd, index, codes, scale);
    }

    #[inline(always)]
    fn sub16(&mut self, simd: S, index: usize, codes: [S::I; 4], scale: S::I) {
        self.sub_block(simd, index, codes, scale);
    }

    #[inline(always)]
    fn minima(&mut self, simd: S, index: usize, pair: S::I) {
        self.out.minima(simd, &self.parts, 128 / <F::Class as Class>::SUB * self.block + index, pair);
    }

    #[inline(always)]
    fn scales(&mut self, simd: S, d: S::F, dmin: S::F) {
        self.out.scales(simd, &self.parts, self.block, d, dmin);
    }
}

/// Plain numbers.
pub(super) struct UnpackFloat<'a, F>(pub(super) Unpack<'a, F>);

impl<F: Float> Kernel for UnpackFloat<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Unpack { rows, out } = self.0;
        let columns = rows.of::<Column>();
        let per_column = 16 / F::BYTES;
        for first in (0..STRIP).step_by(S::LANES) {
            let mut out = LaneWriter::new(out, first);
            for column in 0..columns.pieces() {
                let numbers = F::numbers(simd, columns.piece(first, column));
                for (i, x) in numbers.into_iter().take(per_column).enumerate() {
                    out.write_f(simd, column * per_column + i, x);
                }
            }
            for column in per_column * columns.pieces()..rows.pieces() {
                out.write_f(simd, column, F::number(simd, rows.piece(first, column)));
            }
        }
    }
}
