//! From a pair of strips and activation rows to the kernels: choice of path, tiling, padding.

use super::generic_format::{Expand, GenericFormat, dequantize};
use super::rows::{ByRows, scratch_words};
use super::scratch::{Padding, Scratch, two_strips};
use super::single::{Single, Single32, Single256, SingleFloat};
use super::tile::{OUT, TOKENS, Tile, Tile32, Tile256, TileFloat};
use super::unpack::{Unpack, Unpack32, Unpack256, UnpackFloat};
use super::view::{Parts, Piece, StripRows, Terms};
use super::weights::Strip;
use crate::activations::Layout;
use crate::features::Isa;
use crate::formats::class::Class;
use crate::formats::{self, Block32, Float, RowBlock, Superblock};
use crate::lines::{LINE, Line, words_mut};
use crate::simd::STRIP;
use core::marker::PhantomData;
use doorbell_core::quant::{Expanded, Type};

/// The activation rows that take part, in the order of the results.
#[derive(Clone, Copy, Debug)]
pub enum Selection<'a> {
    /// Rows `first .. first + count`.
    Range {
        /// The first row.
        first: usize,
        /// Number of rows.
        count: usize,
    },
    /// These rows.
    Rows(&'a [u32]),
}

impl Selection<'_> {
    /// Number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Range { count, .. } => *count,
            Self::Rows(rows) => rows.len(),
        }
    }

    /// True if there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn row(&self, index: usize) -> usize {
        match self {
            Self::Range { first, .. } => first + index,
            Self::Rows(rows) => rows[index] as usize,
        }
    }
}

/// Activation rows that strips are multiplied with.
#[derive(Clone, Copy, Debug)]
pub struct Products<'a> {
    isa: Isa,
    layout: &'a Layout,
    activations: &'a [u8],
    selection: Selection<'a>,
}

impl<'a> Products<'a> {
    /// The rows of `activations`, which are laid out as `layout` says, that `selection` names.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    pub fn new(isa: Isa, layout: &'a Layout, activations: &'a [u8], selection: Selection<'a>) -> Self {
        let rows = activations.len() / layout.stride;
        let last = match selection {
            Selection::Range { first, count } => first + count,
            Selection::Rows(rows) => rows.iter().max().map_or(0, |&row| row as usize + 1),
        };
        assert!(last <= rows, "row {last} of {rows} activation rows");
        Self { isa, layout, activations, selection }
    }

    /// The products of `left` and `right` with every row: `out[row][0..16]` and `out[row][16..32]`.
    ///
    /// Without `right` its results are not written; where a strip has fewer than sixteen rows, the results left over
    /// are unspecified.
    ///
    /// # Panics
    /// When the strips' columns or type do not fit the activations, or `out` has fewer than 32 floats per row.
    pub fn pair(
        &self,
        left: Strip<'_>,
        right: Option<Strip<'_>>,
        scratch: &mut Scratch<'_>,
        out: &mut [f32],
    ) {
        assert!(out.len() >= self.selection.len() * OUT, "room for the products");
        match right {
            Some(right) if right.ty != left.ty => {
                self.same_type(left, None, scratch, out);
                self.right(right, scratch, out);
            }
            _ => self.same_type(left, right, scratch, out),
        }
    }

    /// The products of one strip, as those of a right one: `out[row][16..32]`.
    ///
    /// # Panics
    /// As [`Self::pair`].
    pub fn right(&self, strip: Strip<'_>, scratch: &mut Scratch<'_>, out: &mut [f32]) {
        assert!(out.len() >= self.selection.len() * OUT, "room for the products");
        if !self.selection.is_empty() {
            self.same_type(strip, None, scratch, &mut out[STRIP..]);
        }
    }

    /// Activation rows that take part.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.selection.len()
    }

    fn same_type(
        &self,
        left: Strip<'_>,
        right: Option<Strip<'_>>,
        scratch: &mut Scratch<'_>,
        out: &mut [f32],
    ) {
        let run = match left.ty {
            Type::F32 => Self::float::<formats::F32>,
            Type::F16 => Self::float::<formats::F16>,
            Type::BF16 => Self::float::<formats::Bf16>,
            Type::Q4_0 => Self::block32::<formats::Q4_0>,
            Type::Q4_1 => Self::block32::<formats::Q4_1>,
            Type::Q5_0 => Self::block32::<formats::Q5_0>,
            Type::Q5_1 => Self::block32::<formats::Q5_1>,
            Type::Q8_0 => Self::block32::<formats::Q8_0>,
            Type::IQ4_NL => Self::block32::<formats::Iq4Nl>,
            Type::MXFP4 => Self::block32::<formats::Mxfp4>,
            Type::Q2_K => Self::superblock::<formats::Q2K>,
            Type::Q3_K => Self::superblock::<formats::Q3K>,
            Type::Q4_K => Self::superblock::<formats::Q4K>,
            Type::Q5_K => Self::superblock::<formats::Q5K>,
            Type::Q6_K => Self::row_block::<formats::Q6K>,
            Type::IQ4_XS => Self::superblock::<formats::Iq4Xs>,
            ty if ty.expands() => Self::expanded,
            _ => Self::dequantized,
        };
        for strip in [Some(left), right].into_iter().flatten() {
            assert_eq!(strip.cols, self.layout.cols, "columns of weights and activations");
        }
        run(self, left, right, scratch, out);
    }

    /// The bytes of a row's term.
    fn term(&self, index: usize, term: usize) -> &'a [u8] {
        let start = self.selection.row(index) * self.layout.stride;
        &self.activations[start..start + self.layout.stride][term * self.layout.term..][..self.layout.term]
    }

    /// The terms of a single row; of a row of one term that one twice.
    fn both_terms(&self) -> Terms<'a, 2> {
        Terms::new(self.layout, [self.term(0, 0), self.term(0, self.layout.terms - 1)])
    }

    fn block32<F: Block32>(
        &self,
        left: Strip<'_>,
        right: Option<Strip<'_>>,
        scratch: &mut Scratch<'_>,
        out: &mut [f32],
    ) {
        if self.selection.len() == 1 {
            let run = |single: Single<'_, F>| self.isa.run(Single32(single));
            return self.single(run, left, right, scratch, out);
        }
        let vectors = Parts::<F::Class>::new(self.layout.cols, 32).vectors();
        let unpack = |rows: Rows<'_>, out: &mut [Line]| {
            self.isa.run(Unpack32::<F>(Unpack { rows: rows.view(), out }));
        };
        let strips = unpack_both(left, right, scratch, vectors, unpack);
        self.tiles::<Blocks32, F::Class>(strips, F::OFFSET, out);
    }

    fn superblock<F: Superblock>(
        &self,
        left: Strip<'_>,
        right: Option<Strip<'_>>,
        scratch: &mut Scratch<'_>,
        out: &mut [f32],
    ) {
        if self.selection.len() == 1 {
            let run = |single: Single<'_, F>| self.isa.run(Single256(single));
            return self.single(run, left, right, scratch, out);
        }
        let vectors = Parts::<F::Class>::new(self.layout.cols, 256).vectors();
        let unpack = |rows: Rows<'_>, out: &mut [Line]| {
            self.isa.run(Unpack256::<F>(Unpack { rows: rows.view(), out }));
        };
        let strips = unpack_both(left, right, scratch, vectors, unpack);
        self.tiles::<Blocks256, F::Class>(strips, F::OFFSET, out);
    }

    fn row_block<F: RowBlock>(
        &self,
        left: Strip<'_>,
        right: Option<Strip<'_>>,
        scratch: &mut Scratch<'_>,
        out: &mut [f32],
    ) {
        if self.selection.len() != 1 {
            return self.superblock::<F>(left, right, scratch, out);
        }
        let Scratch { unpacked, padding } = scratch;
        let words = scratch_words(self.layout.cols / 256);
        let [sums, _] = two_strips(unpacked, words.div_ceil(LINE / 4));
        for (strip, out) in [Some(left), right].into_iter().flatten().zip(out.as_chunks_mut::<STRIP>().0) {
            let rows = rows(strip, padding);
            self.isa.run(ByRows::<F> {
                rows: rows.bytes,
                terms: self.both_terms(),
                scratch: words_mut(sums),
                out,
                format: PhantomData,
            });
        }
    }

    fn float<F: Float>(
        &self,
        left: Strip<'_>,
        right: Option<Strip<'_>>,
        scratch: &mut Scratch<'_>,
        out: &mut [f32],
    ) {
        if self.selection.len() == 1 {
            let run = |single: Single<'_, F>| self.isa.run(SingleFloat(single));
            return self.single(run, left, right, scratch, out);
        }
        let unpack = |rows: Rows<'_>, out: &mut [Line]| {
            self.isa.run(UnpackFloat::<F>(Unpack { rows: rows.view(), out }));
        };
        let strips = unpack_both(left, right, scratch, self.layout.cols, unpack);
        self.tiles::<Numbers, ()>(strips, 0, out);
    }

    /// Types without kernels of their own: as superblocks.
    fn expanded(
        &self,
        left: Strip<'_>,
        right: Option<Strip<'_>>,
        scratch: &mut Scratch<'_>,
        out: &mut [f32],
    ) {
        type Format = <Expanded as Superblock>::Class;
        let vectors = Parts::<Format>::new(self.layout.cols, 256).vectors();
        let unpack = |rows: Rows<'_>, out: &mut [Line]| self.isa.run(Expand(rows.of_type(left.ty, out)));
        let strips = unpack_both(left, right, scratch, vectors, unpack);
        self.tiles::<Blocks256, Format>(strips, Expanded::OFFSET, out);
    }

    /// Types without kernels of their own: as plain numbers.
    fn dequantized(
        &self,
        left: Strip<'_>,
        right: Option<Strip<'_>>,
        scratch: &mut Scratch<'_>,
        out: &mut [f32],
    ) {
        let unpack = |rows: Rows<'_>, out: &mut [Line]| dequantize(rows.of_type(left.ty, out));
        let strips = unpack_both(left, right, scratch, self.layout.cols, unpack);
        self.tiles::<Numbers, ()>(strips, 0, out);
    }

    fn single<F: Piece>(
        &self,
        run: impl Fn(Single<'_, F>),
        left: Strip<'_>,
        right: Option<Strip<'_>>,
        scratch: &mut Scratch<'_>,
        out: &mut [f32],
    ) {
        for (strip, out) in [Some(left), right].into_iter().flatten().zip(out.as_chunks_mut::<STRIP>().0) {
            let rows = rows(strip, &mut scratch.padding).view();
            run(Single { rows, terms: self.both_terms(), out });
        }
    }

    /// Tiles over all activation rows. The terms of a row are neighbors in a tile, and added at its end.
    fn tiles<K: Tiles<C>, C>(&self, strips: Unpacked<'_>, offset: u32, out: &mut [f32]) {
        let (mut done, count) = (0, self.selection.len());
        while done < count {
            let out = &mut out[done * OUT..];
            // Two widths only: each is compiled for every class of format and form of the processor.
            done += match (count - done) * self.layout.terms {
                TOKENS.. => self.tile::<K, C, TOKENS>(strips, offset, done, out),
                _ => self.tile::<K, C, 2>(strips, offset, done, out),
            };
        }
    }

    /// `T` terms from row `first` on; returns the number of rows they make. The last row is repeated beyond the end.
    fn tile<K: Tiles<C>, C, const T: usize>(
        &self,
        strips: Unpacked<'_>,
        offset: u32,
        first: usize,
        out: &mut [f32],
    ) -> usize {
        let count = self.layout.terms;
        let last = self.selection.len() - 1;
        let terms = core::array::from_fn(|t| self.term((first + t / count).min(last), t % count));
        let terms = Terms::new(self.layout, terms);
        let Unpacked { strips, both } = strips;
        let mut results = [[0f32; OUT]; T];
        K::run::<T>(self.isa, Tile { strips, both, terms, offset, out: &mut results, class: PhantomData });
        let columns = if both { OUT } else { STRIP };
        for (out, terms) in out.chunks_mut(OUT).zip(results.chunks_exact(count)).take(last + 1 - first) {
            match terms {
                [first, second] => {
                    for (out, (a, b)) in out[..columns].iter_mut().zip(first.iter().zip(second)) {
                        *out = a + b;
                    }
                }
                _ => out[..columns].copy_from_slice(&terms[0][..columns]),
            }
        }
        T / count
    }
}

/// Sixteen rows of weights, one after the other.
#[derive(Clone, Copy)]
struct Rows<'a> {
    bytes: &'a [u8],
    row_bytes: usize,
}

impl<'a> Rows<'a> {
    fn view<P: Piece>(self) -> StripRows<'a, P> {
        StripRows::new(self.bytes, self.row_bytes)
    }

    fn of_type(self, ty: Type, out: &'a mut [Line]) -> GenericFormat<'a> {
        GenericFormat { ty, rows: self.bytes, row_bytes: self.row_bytes, out }
    }
}

/// Sixteen rows of a strip: in place, or padded in scratch.
fn rows<'a>(strip: Strip<'a>, padding: &'a mut Padding<'_>) -> Rows<'a> {
    Rows { bytes: padding.sixteen(strip.data, strip.row_bytes), row_bytes: strip.row_bytes }
}

/// Unpacks both strips; without a right one the left is used twice.
fn unpack_both<'s>(
    left: Strip<'_>,
    right: Option<Strip<'_>>,
    scratch: &'s mut Scratch<'_>,
    vectors: usize,
    unpack: impl Fn(Rows<'_>, &mut [Line]),
) -> Unpacked<'s> {
    let Scratch { unpacked, padding } = scratch;
    let [first, second] = two_strips(unpacked, vectors);
    unpack(rows(left, padding), first);
    let first: &[Line] = first;
    let Some(right) = right else { return Unpacked { strips: [first, first], both: false } };
    unpack(rows(right, padding), second);
    Unpacked { strips: [first, second], both: true }
}

/// Two unpacked strips; the second counts only when there are `both`.
#[derive(Clone, Copy)]
struct Unpacked<'s> {
    strips: [&'s [Line]; 2],
    both: bool,
}

/// A form of tile kernel, for any number of activation rows.
trait Tiles<C> {
    fn run<const T: usize>(isa: Isa, tile: Tile<'_, C, T>);
}

struct Blocks32;
struct Blocks256;
struct Numbers;

impl<C: Class> Tiles<C> for Blocks32 {
    fn run<const T: usize>(isa: Isa, tile: Tile<'_, C, T>) {
        isa.run(Tile32(tile));
    }
}

impl<C: Class> Tiles<C> for Blocks256 {
    fn run<const T: usize>(isa: Isa, tile: Tile<'_, C, T>) {
        isa.run(Tile256(tile));
    }
}

impl Tiles<()> for Numbers {
    fn run<const T: usize>(isa: Isa, tile: Tile<'_, (), T>) {
        isa.run(TileFloat(tile));
    }
}
