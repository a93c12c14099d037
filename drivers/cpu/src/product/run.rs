//! From a pair of strips and a panel to the kernels: choice of path, tiling, padding.
#![expect(unsafe_code, reason = "vouches to the kernels for the sizes it has checked")]

use super::generic_format::{Expand, GenericFormat, dequantize};
use super::rows::{ByRows, scratch_bytes};
use super::scratch::{Parts, Scratch};
use super::single::{Single, Single32, Single256, SingleFloat};
use super::tile::{OUT, TOKENS, Tile, Tile32, Tile256, TileFloat};
use super::unpack::{Unpack, Unpack32, Unpack256, UnpackFloat};
use super::weights::Strip;
use crate::activations::Layout;
use crate::features::Isa;
use crate::formats::{self, Block32, Class, Float, RowBlock, Superblock};
use crate::simd::{Rows, STRIP};
use core::marker::PhantomData;
use doorbell_core::quant::{Expanded, Type};

/// Which rows of a panel take part, in the order of the results.
#[derive(Clone, Copy, Debug)]
pub enum Selection<'a> {
    /// Rows `first .. first + count`.
    Range {
        /// The first row.
        first: usize,
        /// How many.
        count: usize,
    },
    /// These rows.
    Rows(&'a [u32]),
}

impl Selection<'_> {
    /// How many rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Range { count, .. } => *count,
            Self::Rows(rows) => rows.len(),
        }
    }

    /// Whether there are none.
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
    panel: &'a [u8],
    selection: Selection<'a>,
}

impl<'a> Products<'a> {
    /// The rows of `panel`, which is laid out as `layout` says, that `selection` names.
    ///
    /// # Panics
    /// When a row is not in the panel.
    #[must_use]
    pub fn new(isa: Isa, layout: &'a Layout, panel: &'a [u8], selection: Selection<'a>) -> Self {
        let rows = panel.len() / layout.stride;
        let last = match selection {
            Selection::Range { first, count } => first + count,
            Selection::Rows(rows) => rows.iter().max().map_or(0, |&row| row as usize + 1),
        };
        assert!(last <= rows, "row {last} of a panel of {rows}");
        Self { isa, layout, panel, selection }
    }

    /// The products of `left` and `right` with every row: `out[row][0..16]` and `out[row][16..32]`.
    ///
    /// Without `right` its places are left alone; where a strip has fewer than sixteen rows, the places left over
    /// are unspecified.
    ///
    /// # Panics
    /// When the strips' columns or type do not fit the panel, or `out` has fewer than 32 floats per row.
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

    fn term(&self, index: usize, term: usize) -> *const u8 {
        let start = self.selection.row(index) * self.layout.stride;
        self.panel[start..start + self.layout.stride][term * self.layout.term..].as_ptr()
    }

    fn block32<F: Block32>(
        &self,
        left: Strip<'_>,
        right: Option<Strip<'_>>,
        scratch: &mut Scratch<'_>,
        out: &mut [f32],
    ) {
        let parts = Parts::new::<F::Class>(self.layout.cols, 32);
        if self.selection.len() == 1 {
            let run = |single: Single<'_, F>| self.isa.run(Single32(single));
            return self.single(run, left, right, scratch, out);
        }
        let unpack = |rows, to| {
            // SAFETY: `rows` checks for sixteen rows, scratch has room for `parts`.
            self.isa.run(Unpack32::<F>(unsafe { Unpack::new(rows, self.layout.cols, to) }));
        };
        let strips = unpack_both(left, right, scratch, parts.bytes, unpack);
        self.tiles::<Blocks32, F::Class>(strips, F::OFFSET, out);
    }

    fn superblock<F: Superblock>(
        &self,
        left: Strip<'_>,
        right: Option<Strip<'_>>,
        scratch: &mut Scratch<'_>,
        out: &mut [f32],
    ) {
        let parts = Parts::new::<F::Class>(self.layout.cols, 256);
        if self.selection.len() == 1 {
            let run = |single: Single<'_, F>| self.isa.run(Single256(single));
            return self.single(run, left, right, scratch, out);
        }
        let unpack = |rows, to| {
            // SAFETY: `rows` checks for sixteen rows, scratch has room for `parts`.
            self.isa.run(Unpack256::<F>(unsafe { Unpack::new(rows, self.layout.cols, to) }));
        };
        let strips = unpack_both(left, right, scratch, parts.bytes, unpack);
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
        let [sums, _] = scratch.strips(scratch_bytes(self.layout.cols / 256));
        let run = |single: Single<'_, F>| self.isa.run(ByRows(single, sums));
        self.single(run, left, right, scratch, out);
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
        let bytes = self.layout.cols * 4 * STRIP;
        let unpack = |rows, to| {
            // SAFETY: `rows` checks for sixteen rows, scratch has room for a vector per column.
            self.isa.run(UnpackFloat::<F>(unsafe { Unpack::new(rows, self.layout.cols, to) }));
        };
        let strips = unpack_both(left, right, scratch, bytes, unpack);
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
        let parts = Parts::new::<Format>(self.layout.cols, 256);
        let unpack = |rows, to| {
            // SAFETY: `rows` checks for sixteen rows, scratch has room for `parts`.
            self.isa.run(Expand(unsafe { GenericFormat::new(left.ty, rows, self.layout.cols, to) }));
        };
        let strips = unpack_both(left, right, scratch, parts.bytes, unpack);
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
        let unpack = |rows, to| {
            // SAFETY: `rows` checks for sixteen rows, scratch has room for a vector per column.
            dequantize(&unsafe { GenericFormat::new(left.ty, rows, self.layout.cols, to) });
        };
        let strips = unpack_both(left, right, scratch, self.layout.cols * 4 * STRIP, unpack);
        self.tiles::<Numbers, ()>(strips, 0, out);
    }

    fn single<F>(
        &self,
        run: impl Fn(Single<'_, F>),
        left: Strip<'_>,
        right: Option<Strip<'_>>,
        scratch: &mut Scratch<'_>,
        out: &mut [f32],
    ) {
        for (strip, out) in [Some(left), right].into_iter().flatten().zip(out.as_chunks_mut::<STRIP>().0) {
            let (layout, terms) = (self.layout, [self.term(0, 0), self.term(0, 1)]);
            run(Single {
                rows: rows(strip, scratch),
                layout,
                terms,
                out: out.as_mut_ptr(),
                format: PhantomData,
            });
        }
    }

    /// Tiles over all activation rows. The terms of a row are neighbors in a tile, and added at its end.
    fn tiles<K: Tiles<C>, C>(&self, strips: Unpacked, offset: u32, out: &mut [f32]) {
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

    /// `T` terms from row `first` on; gives how many rows they make. The last row stands in for one beyond it.
    fn tile<K: Tiles<C>, C, const T: usize>(
        &self,
        strips: Unpacked,
        offset: u32,
        first: usize,
        out: &mut [f32],
    ) -> usize {
        let count = self.layout.terms;
        let last = self.selection.len() - 1;
        let tokens = core::array::from_fn(|t| self.term((first + t / count).min(last), t % count));
        let Unpacked { strips, both } = strips;
        let mut terms = [[0f32; OUT]; T];
        let layout = self.layout;
        let results = terms.as_mut_ptr().cast();
        K::run::<T>(
            self.isa,
            Tile { strips, both, layout, tokens, offset, out: results, class: PhantomData },
        );
        let columns = if both { OUT } else { STRIP };
        for (out, terms) in out.chunks_mut(OUT).zip(terms.chunks_exact(count)).take(last + 1 - first) {
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

/// Sixteen rows of a strip: in place, or padded in scratch.
fn rows(strip: Strip<'_>, scratch: &mut Scratch<'_>) -> Rows {
    let base =
        if strip.rows() == STRIP { strip.data.as_ptr() } else { scratch.pad(strip.data, strip.row_bytes) };
    Rows { base, stride: strip.row_bytes }
}

/// Unpacks both strips; a missing right one is stood in for by the left.
fn unpack_both(
    left: Strip<'_>,
    right: Option<Strip<'_>>,
    scratch: &mut Scratch<'_>,
    bytes: usize,
    unpack: impl Fn(Rows, *mut u8),
) -> Unpacked {
    let [first, second] = scratch.strips(bytes);
    unpack(rows(left, scratch), first);
    let Some(right) = right else { return Unpacked { strips: [first, first], both: false } };
    unpack(rows(right, scratch), second);
    Unpacked { strips: [first, second], both: true }
}

/// Two unpacked strips; the second counts only when there are `both`.
#[derive(Clone, Copy)]
struct Unpacked {
    strips: [*const u8; 2],
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
