//! Views of the memory of products: weight rows piece by piece, activation rows plane by plane, unpacked strips
//! vector by vector. A view is made of slices and checks all sizes then. In a loop one comparison per block is left, which
//! the compiler drops where the loop ends at the view's own count; offsets inside a block are checked when compiled.
#![expect(unsafe_code, reason = "reads and writes vectors at pointers whose bounds it has checked")]

use crate::activations::Layout;
use crate::formats::class::Class;
use crate::lines::Line;
use crate::simd::{Rows, STRIP, Simd};
use core::marker::PhantomData;
use doorbell_core::quant::{Activation, Expanded};

/// Something of a fixed number of bytes; a weight row consists of them.
pub(crate) trait Piece: Copy + 'static {
    /// Bytes of one.
    const BYTES: usize;
}

/// Sixteen bytes, as a transpose takes them from each row.
#[derive(Clone, Copy)]
pub(crate) struct Column;

impl Piece for Column {
    const BYTES: usize = 16;
}

impl Piece for Expanded {
    const BYTES: usize = size_of::<Self>();
}

/// Sixteen rows of pieces, at equal distances from `base` on.
#[derive(Clone, Copy)]
pub(crate) struct StripRows<'a, P> {
    base: *const u8,
    /// Bytes from one row to the next.
    stride: usize,
    /// Pieces of a row, all of them readable in each of the sixteen.
    pieces: usize,
    of: PhantomData<(&'a [u8], P)>,
}

impl<'a, P: Piece> StripRows<'a, P> {
    /// The first sixteen rows of `row_bytes` bytes each.
    ///
    /// # Panics
    /// When there are fewer bytes.
    pub(crate) fn new(bytes: &'a [u8], row_bytes: usize) -> Self {
        let needed = row_bytes.checked_mul(STRIP);
        assert!(needed.is_some_and(|needed| needed <= bytes.len()), "sixteen weight rows");
        Self { base: bytes.as_ptr(), stride: row_bytes, pieces: row_bytes / P::BYTES, of: PhantomData }
    }

    /// Pieces of a row.
    #[inline(always)]
    pub(crate) fn pieces(self) -> usize {
        self.pieces
    }

    /// The same rows, seen as other pieces.
    #[inline(always)]
    pub(crate) fn of<Q: Piece>(self) -> StripRows<'a, Q> {
        let Self { base, stride, pieces, .. } = self;
        StripRows { base, stride, pieces: pieces * P::BYTES / Q::BYTES, of: PhantomData }
    }

    /// Piece `index` of `S::LANES` rows from `first` on.
    #[inline(always)]
    pub(crate) fn piece<S: Simd>(self, first: usize, index: usize) -> PieceRows<'a, S, P> {
        let Self { base, stride, pieces, .. } = self;
        assert!(first + S::LANES <= STRIP && index < pieces, "a piece of a strip");
        let start = first * stride + index * P::BYTES;
        // SAFETY: the constructors checked that each of sixteen rows has `pieces` pieces; row and piece were just checked.
        let rows = unsafe { Rows::new(base.add(start), stride, S::LANES, P::BYTES < 64) };
        PieceRows { rows, of: PhantomData }
    }

    /// Requests part `part` of `parts` of what lies ahead of sixteen pieces of `bytes` bytes at `index`: as far on as
    /// the strip is long, or `least` bytes when it is shorter. The next strip begins where this one ends. Requests are
    /// spread over the work on a piece, since a core has few lines in flight at a time.
    #[inline(always)]
    pub(crate) fn prefetch<S: Simd>(self, simd: S, piece: Ahead, part: usize, parts: usize) {
        let share = STRIP * piece.bytes / parts;
        let distance = (STRIP * self.stride).max(piece.least);
        let start = distance + STRIP * piece.index * piece.bytes + part * share;
        for line in 0..share.div_ceil(64) {
            simd.prefetch(self.base.wrapping_add(start + 64 * line));
        }
    }
}

/// The piece that [`StripRows::prefetch`] reads ahead of.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    /// The piece that is being read.
    pub(crate) index: usize,
    /// Bytes of a piece.
    pub(crate) bytes: usize,
    /// The least distance, in bytes.
    pub(crate) least: usize,
}

impl<'a> StripRows<'a, Column> {
    /// The first sixteen rows of `stride` words each.
    ///
    /// # Panics
    /// When there are fewer words.
    pub(crate) fn of_words(words: &'a [i32], stride: usize) -> Self {
        // SAFETY: a word is four bytes.
        let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) };
        Self::new(bytes, 4 * stride)
    }
}

impl<'a> StripRows<'a, Expanded> {
    /// Sixteen blocks as sixteen rows.
    pub(crate) fn of_blocks(blocks: &'a [Expanded; STRIP]) -> Self {
        const { assert!(size_of::<Expanded>() == 256 + 16 + 4) };
        // SAFETY: an `Expanded` is `repr(C)` and, as just checked, has no padding.
        let bytes = unsafe { core::slice::from_raw_parts(blocks.as_ptr().cast(), size_of_val(blocks)) };
        Self::new(bytes, size_of::<Expanded>())
    }
}

/// The same piece of `S::LANES` rows.
#[derive(Clone, Copy)]
pub(crate) struct PieceRows<'a, S, P> {
    rows: Rows,
    of: PhantomData<(&'a [u8], S, P)>,
}

impl<S: Simd, P: Piece> PieceRows<'_, S, P> {
    /// Four words w of row r, from byte `AT` of the piece on: `[w][r]`.
    #[inline(always)]
    pub(crate) fn transpose<const AT: usize>(self, simd: S) -> [S::I; 4] {
        const { assert!(AT + 16 <= P::BYTES) };
        // SAFETY: `StripRows::piece` made the pieces of `LANES` rows readable, and the bytes lie in them.
        unsafe { simd.transpose(self.rows.at(AT)) }
    }

    /// Bytes `AT` and `AT` + 1 of each row's piece, zero-extended.
    #[inline(always)]
    pub(crate) fn gather_u16<const AT: usize>(self, simd: S) -> S::I {
        const { assert!(AT + 2 <= P::BYTES) };
        // SAFETY: `StripRows::piece` made the pieces of `LANES` rows readable, and the bytes lie in them.
        unsafe { simd.gather_u16(self.rows.at(AT)) }
    }
}

/// `T` terms of activation rows, all in one layout.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a, const T: usize> {
    /// Each readable for all planes of the layout.
    base: [*const u8; T],
    layout: &'a Layout,
    /// Blocks of 32, of 256, and plain numbers that each term has; two of the three are 0.
    blocks32: usize,
    blocks256: usize,
    numbers: usize,
}

impl<'a, const T: usize> Terms<'a, T> {
    /// Terms as `layout` lays them out.
    ///
    /// # Panics
    /// When one is too short for the planes.
    pub(crate) fn new(layout: &'a Layout, terms: [&'a [u8]; T]) -> Self {
        let cols = layout.cols;
        let planes: [(usize, usize); 6] = match layout.format {
            Activation::F32 => [(0, 4 * cols), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0)],
            Activation::Q8_0 | Activation::Q8_1 => {
                [(0, cols), (layout.scales, cols / 8), (layout.sums, cols / 8), (0, 0), (0, 0), (0, 0)]
            }
            Activation::Q8_K => [
                (0, cols),
                (layout.scales, cols / 64),
                (layout.sums, cols / 4),
                (layout.sums32, cols / 8),
                (layout.halves16, cols / 8),
                (layout.halves32, cols / 16),
            ],
        };
        let needed = planes.iter().map(|(start, bytes)| start + bytes).max().unwrap_or(0);
        assert!(terms.iter().all(|term| needed <= term.len()), "planes of activations");
        let count = |format: bool, count: usize| if format { count } else { 0 };
        let blocks = matches!(layout.format, Activation::Q8_0 | Activation::Q8_1);
        Self {
            base: terms.map(<[u8]>::as_ptr),
            layout,
            blocks32: count(blocks, cols / 32),
            blocks256: count(layout.format == Activation::Q8_K, cols / 256),
            numbers: count(layout.format == Activation::F32, cols),
        }
    }

    /// Blocks of 32 of each term.
    #[inline(always)]
    pub(crate) fn blocks32(self) -> usize {
        self.blocks32
    }

    /// Blocks of 256 of each term.
    #[inline(always)]
    pub(crate) fn blocks256(self) -> usize {
        self.blocks256
    }

    /// Plain numbers of each term.
    #[inline(always)]
    pub(crate) fn numbers(self) -> usize {
        self.numbers
    }

    /// Block `index` of 32.
    #[inline(always)]
    pub(crate) fn block32(self, index: usize) -> Block32<'a, T> {
        assert!(index < self.blocks32, "a block of activations");
        Block32 { terms: self, index }
    }

    /// Block `index` of 256.
    #[inline(always)]
    pub(crate) fn block256(self, index: usize) -> Block256<'a, T> {
        assert!(index < self.blocks256, "a block of activations");
        Block256 { terms: self, index }
    }

    /// Number `index` of term `t`, in every lane.
    #[inline(always)]
    pub(crate) fn number<S: Simd>(self, simd: S, t: usize, index: usize) -> S::F {
        assert!(index < self.numbers, "a number of activations");
        // SAFETY: `new` made room for as many numbers.
        simd.as_f(unsafe { self.word(simd, t, 4 * index) })
    }

    /// Four bytes of a term, in every lane.
    ///
    /// # Safety
    /// The term must have them: `new` checked for the layout's planes.
    #[inline(always)]
    unsafe fn word<S: Simd>(self, simd: S, t: usize, at: usize) -> S::I {
        // SAFETY: the caller promises that the term has these bytes.
        unsafe { simd.load_splat(self.base[t].add(at)) }
    }
}

/// A block of 32 of `T` terms.
#[derive(Clone, Copy)]
pub(crate) struct Block32<'a, const T: usize> {
    terms: Terms<'a, T>,
    index: usize,
}

impl<const T: usize> Block32<'_, T> {
    /// Group `group` of four codes, in every lane.
    #[inline(always)]
    pub(crate) fn codes<S: Simd>(self, simd: S, t: usize, group: usize) -> S::I {
        assert!(group < 8, "a group of codes");
        // SAFETY: `Terms::new` checked for the codes; `Terms::block32` checked the block.
        unsafe { self.terms.word(simd, t, 32 * self.index + 4 * group) }
    }

    /// The block's scale.
    #[inline(always)]
    pub(crate) fn scale<S: Simd>(self, simd: S, t: usize) -> S::F {
        // SAFETY: `Terms::new` checked for the scales; `Terms::block32` checked the block.
        simd.as_f(unsafe { self.terms.word(simd, t, self.terms.layout.scales + 4 * self.index) })
    }

    /// The block's sum.
    #[inline(always)]
    pub(crate) fn sum<S: Simd>(self, simd: S, t: usize) -> S::I {
        // SAFETY: `Terms::new` checked for the sums; `Terms::block32` checked the block.
        unsafe { self.terms.word(simd, t, self.terms.layout.sums + 4 * self.index) }
    }
}

/// A block of 256 of `T` terms.
#[derive(Clone, Copy)]
pub(crate) struct Block256<'a, const T: usize> {
    terms: Terms<'a, T>,
    index: usize,
}

impl<const T: usize> Block256<'_, T> {
    /// Group `group` of four codes of sub-block `sub`, which has `G` groups, in every lane.
    #[inline(always)]
    pub(crate) fn codes<S: Simd, const G: usize>(self, simd: S, t: usize, sub: usize, group: usize) -> S::I {
        assert!(sub < 64 / G && group < G, "a group of codes");
        // SAFETY: `Terms::new` checked for the codes; `Terms::block256` checked the block.
        unsafe { self.terms.word(simd, t, 256 * self.index + 4 * (G * sub + group)) }
    }

    /// The sum of sub-block `sub`, which has `G` groups of four codes.
    #[inline(always)]
    pub(crate) fn sum<S: Simd, const G: usize>(self, simd: S, t: usize, sub: usize) -> S::I {
        assert!(sub < 64 / G, "a sum of codes");
        let plane = match G {
            4 => self.terms.layout.sums,
            8 => self.terms.layout.sums32,
            _ => panic!("sub-blocks of 16 or 32"),
        };
        // SAFETY: `Terms::new` checked for the sums; `Terms::block256` checked the block.
        unsafe { self.terms.word(simd, t, plane + 4 * (64 / G * self.index + sub)) }
    }

    /// Sums of two sub-blocks of `C::SUB` codes as 16-bit halves.
    #[inline(always)]
    pub(crate) fn pair_of_sums<S: Simd, C: Class>(self, simd: S, t: usize, pair: usize) -> S::I {
        let pairs = 128 / C::SUB;
        assert!(pair < pairs, "a pair of sums");
        let plane = match C::SUB {
            16 => self.terms.layout.halves16,
            32 => self.terms.layout.halves32,
            _ => panic!("sub-blocks of 16 or 32"),
        };
        // SAFETY: `Terms::new` checked for the halves; `Terms::block256` checked the block.
        unsafe { self.terms.word(simd, t, plane + 4 * (pairs * self.index + pair)) }
    }

    /// The block's scale.
    #[inline(always)]
    pub(crate) fn scale<S: Simd>(self, simd: S, t: usize) -> S::F {
        // SAFETY: `Terms::new` checked for the scales; `Terms::block256` checked the block.
        simd.as_f(unsafe { self.terms.word(simd, t, self.terms.layout.scales + 4 * self.index) })
    }

    /// All codes of term `t`.
    #[inline(always)]
    pub(crate) fn all_codes(&self, t: usize) -> &[u8; 256] {
        // SAFETY: `Terms::new` checked for the codes; `Terms::block256` checked the block.
        unsafe { &*self.terms.base[t].add(256 * self.index).cast() }
    }

    /// The sums of 16 codes each of term `t`.
    #[inline(always)]
    pub(crate) fn sums16(&self, t: usize) -> [i16; 16] {
        // SAFETY: `Terms::new` checked for the halves; `Terms::block256` checked the block.
        unsafe {
            self.terms.base[t]
                .add(self.terms.layout.halves16 + 32 * self.index)
                .cast::<[i16; 16]>()
                .read_unaligned()
        }
    }
}

/// The positions of the parts of an unpacked strip of class `C`, in vectors of sixteen rows from its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<C> {
    /// i32 scale per sub-block of a superblock.
    sub_scales: usize,
    /// i16 pairs of minima of two sub-blocks.
    minima: usize,
    /// f32 scale per block.
    scales: usize,
    /// f32 minimum per block, or factor on minima.
    floors: usize,
    /// All of it.
    vectors: usize,
    /// Blocks of a row.
    blocks: usize,
    /// Codes of a block.
    block: usize,
    class: PhantomData<C>,
}

impl<C: Class> Parts<C> {
    /// Groups of four codes come first; then the scales of blocks of `block` codes, of which one of 256 has sub-blocks.
    pub(crate) const fn new(cols: usize, block: usize) -> Self {
        let blocks = cols / block;
        let sub_scales = blocks * block / 4;
        let subs = if block == 256 { blocks * (256 / C::SUB) } else { 0 };
        let pairs = if C::MINIMA { subs / 2 } else { 0 };
        let minima = sub_scales + subs;
        let scales = minima + pairs;
        let floors = scales + blocks;
        let vectors = if C::MINIMA { floors + blocks } else { floors };
        Self { sub_scales, minima, scales, floors, vectors, blocks, block, class: PhantomData }
    }

    /// Vectors in all.
    pub(crate) const fn vectors(&self) -> usize {
        self.vectors
    }
}

/// `S::LANES` lanes of each vector of a strip that is being unpacked.
pub(crate) struct LaneWriter<'a, S> {
    /// The first of the lanes in the first vector.
    base: *mut u8,
    vectors: usize,
    of: PhantomData<(&'a mut [Line], S)>,
}

impl<'a, S: Simd> LaneWriter<'a, S> {
    /// Lanes `first .. first + LANES`.
    ///
    /// # Panics
    /// When a vector has no such lanes.
    #[inline(always)]
    pub(crate) fn new(vectors: &'a mut [Line], first: usize) -> Self {
        assert!(first + S::LANES <= STRIP, "lanes of a vector");
        let base = vectors.as_mut_ptr().cast::<u8>().wrapping_add(4 * first);
        Self { base, vectors: vectors.len(), of: PhantomData }
    }

    /// Writes vectors `index .. index + N`.
    #[inline(always)]
    pub(crate) fn write<const N: usize>(&mut self, simd: S, index: usize, vectors: [S::I; N]) {
        assert!(N <= self.vectors && index <= self.vectors - N, "vectors of a strip");
        for (i, x) in vectors.into_iter().enumerate() {
            // SAFETY: `new` checked the lanes of a vector, and the vectors were just checked.
            unsafe { simd.store(self.base.add((index + i) * size_of::<Line>()), x) };
        }
    }

    /// Writes vector `index` of floats.
    #[inline(always)]
    pub(crate) fn write_f(&mut self, simd: S, index: usize, x: S::F) {
        self.write(simd, index, [simd.as_i(x)]);
    }

    /// Writes the codes of sub-block `sub`, `G` groups each, and its scale.
    #[inline(always)]
    pub(crate) fn sub_block<C: Class, const G: usize>(
        &mut self,
        simd: S,
        parts: &Parts<C>,
        sub: usize,
        codes: [S::I; G],
        scale: S::I,
    ) {
        self.write(simd, G * sub, codes);
        self.write(simd, parts.sub_scales + sub, [scale]);
    }

    /// Writes pair `index` of minima.
    #[inline(always)]
    pub(crate) fn minima<C: Class>(&mut self, simd: S, parts: &Parts<C>, index: usize, pair: S::I) {
        self.write(simd, parts.minima + index, [pair]);
    }

    /// Writes the scale of block `index`, and its minimum or factor on minima where the class has one.
    #[inline(always)]
    pub(crate) fn scales<C: Class>(
        &mut self,
        simd: S,
        parts: &Parts<C>,
        index: usize,
        scale: S::F,
        floor: S::F,
    ) {
        self.write_f(simd, parts.scales + index, scale);
        if C::MINIMA {
            self.write_f(simd, parts.floors + index, floor);
        }
    }
}

/// The same lanes of two unpacked strips, or two groups of lanes of one.
#[derive(Clone, Copy)]
pub(crate) struct LanePair<'a, S> {
    /// The first of the lanes in each strip's first vector.
    base: [*const u8; 2],
    vectors: usize,
    of: PhantomData<(&'a [Line], S)>,
}

impl<'a, S: Simd> LanePair<'a, S> {
    /// Lanes `first[i] .. first[i] + LANES` of strip i.
    ///
    /// # Panics
    /// When a vector has no such lanes, or the strips have different lengths.
    #[inline(always)]
    pub(crate) fn new(strips: [&'a [Line]; 2], first: [usize; 2]) -> Self {
        assert!(first.iter().all(|first| first + S::LANES <= STRIP), "lanes of a vector");
        assert!(strips[0].len() == strips[1].len(), "strips of one length");
        let lane = |i: usize| strips[i].as_ptr().cast::<u8>().wrapping_add(4 * first[i]);
        Self { base: [lane(0), lane(1)], vectors: strips[0].len(), of: PhantomData }
    }

    /// Vectors of each strip.
    #[inline(always)]
    pub(crate) fn vectors(self) -> usize {
        self.vectors
    }

    /// Vector `index` of both, as floats.
    #[inline(always)]
    pub(crate) fn floats(self, simd: S, index: usize) -> [S::F; 2] {
        assert!(index < self.vectors, "a vector of a strip");
        // SAFETY: just checked.
        unsafe { [simd.as_f(self.load(simd, 0, index)), simd.as_f(self.load(simd, 1, index))] }
    }

    /// The strips' blocks, laid out as `parts` says.
    ///
    /// # Panics
    /// When the strips are shorter.
    #[inline(always)]
    pub(crate) fn blocks<C: Class>(self, parts: &Parts<C>) -> BlockPairs<'a, S, C> {
        assert!(parts.vectors <= self.vectors, "parts of an unpacked strip");
        BlockPairs { lanes: self, parts: *parts }
    }

    /// # Safety
    /// The strips must have vector `index`.
    #[inline(always)]
    unsafe fn load(self, simd: S, i: usize, index: usize) -> S::I {
        // SAFETY: `new` checked the lanes of a vector; the caller promises the vector.
        unsafe { simd.load(self.base[i].add(index * size_of::<Line>())) }
    }
}

/// The blocks of two unpacked strips of class `C`.
#[derive(Clone, Copy)]
pub(crate) struct BlockPairs<'a, S, C> {
    lanes: LanePair<'a, S>,
    /// All of which the strips have.
    parts: Parts<C>,
}

impl<'a, S: Simd, C: Class> BlockPairs<'a, S, C> {
    /// Block `index`, of `N` codes.
    #[inline(always)]
    pub(crate) fn block<const N: usize>(self, index: usize) -> BlockPair<'a, S, C, N> {
        assert!(index < self.parts.blocks && self.parts.block == N, "a block of a strip");
        BlockPair { all: self, index }
    }

    /// Blocks of each strip.
    #[inline(always)]
    pub(crate) fn count(self) -> usize {
        self.parts.blocks
    }
}

/// A block of `N` codes of two unpacked strips.
#[derive(Clone, Copy)]
pub(crate) struct BlockPair<'a, S, C, const N: usize> {
    all: BlockPairs<'a, S, C>,
    index: usize,
}

impl<S: Simd, C: Class, const N: usize> BlockPair<'_, S, C, N> {
    /// Vector `index` of both strips.
    ///
    /// # Safety
    /// The strips must have it: `LanePair::blocks` checked for all parts, `BlockPairs::block` the block.
    #[inline(always)]
    unsafe fn both(self, simd: S, index: usize) -> [S::I; 2] {
        // SAFETY: the caller promises the vector.
        unsafe { [self.all.lanes.load(simd, 0, index), self.all.lanes.load(simd, 1, index)] }
    }

    /// Group `group` of four codes of sub-block `sub`, which has `G` groups.
    #[inline(always)]
    pub(crate) fn codes<const G: usize>(self, simd: S, sub: usize, group: usize) -> [S::I; 2] {
        assert!(sub < N / 4 / G && group < G, "a group of codes");
        // SAFETY: `Parts::new` begins with `N / 4` groups for each block of `N` codes.
        unsafe { self.both(simd, N / 4 * self.index + G * sub + group) }
    }

    /// The block's scales.
    #[inline(always)]
    pub(crate) fn scales(self, simd: S) -> [S::F; 2] {
        // SAFETY: `Parts::new` has a scale for each block.
        let scales = unsafe { self.both(simd, self.all.parts.scales + self.index) };
        [simd.as_f(scales[0]), simd.as_f(scales[1])]
    }

    /// The block's minima, or factors on minima, of a class that has them.
    #[inline(always)]
    pub(crate) fn floors(self, simd: S) -> [S::F; 2] {
        assert!(C::MINIMA, "a class with minima");
        // SAFETY: `Parts::new` has a minimum for each block of a class with minima.
        let floors = unsafe { self.both(simd, self.all.parts.floors + self.index) };
        [simd.as_f(floors[0]), simd.as_f(floors[1])]
    }

    /// The scales of sub-block `sub` of a superblock.
    #[inline(always)]
    pub(crate) fn sub_scales(self, simd: S, sub: usize) -> [S::I; 2] {
        let subs = 256 / C::SUB;
        assert!(N == 256 && sub < subs, "scales of sub-blocks");
        // SAFETY: `Parts::new` has as many scales of sub-blocks for each block of 256.
        unsafe { self.both(simd, self.all.parts.sub_scales + subs * self.index + sub) }
    }

    /// Pair `pair` of minima of a superblock, of a class that has them.
    #[inline(always)]
    pub(crate) fn minima(self, simd: S, pair: usize) -> [S::I; 2] {
        let pairs = 128 / C::SUB;
        assert!(N == 256 && C::MINIMA && pair < pairs, "minima of sub-blocks");
        // SAFETY: `Parts::new` has as many pairs of minima for each block of 256 of a class with minima.
        unsafe { self.both(simd, self.all.parts.minima + pairs * self.index + pair) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::class::{Minima16, Offset32};
    use crate::simd::Portable;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::panic::AssertUnwindSafe;
    use std::panic::catch_unwind;

    fn refuses<R>(f: impl FnOnce() -> R) -> bool {
        catch_unwind(AssertUnwindSafe(f)).is_err()
    }

    #[test]
    fn rows_end_where_their_slice_ends() {
        let bytes: Vec<u8> = (0..16 * 48).map(|i| i as u8).collect();
        let rows = StripRows::<Column>::new(&bytes, 48);
        assert_eq!(rows.pieces(), 3);
        let words = rows.piece::<Portable>(0, 2).transpose::<0>(Portable);
        assert_eq!(words[3][15].to_ne_bytes(), bytes[16 * 48 - 4..]);
        assert_eq!(
            rows.piece::<Portable>(0, 2).gather_u16::<14>(Portable)[15].to_ne_bytes()[..2],
            bytes[16 * 48 - 2..]
        );
        assert!(refuses(|| StripRows::<Column>::new(&bytes[1..], 48)));
        assert!(refuses(|| rows.piece::<Portable>(0, 3)));
        assert!(refuses(|| rows.piece::<Portable>(1, 0)));
    }

    #[test]
    fn terms_end_where_their_planes_end() {
        for (format, cols) in [(Activation::Q8_0, 96), (Activation::Q8_K, 512), (Activation::F32, 7)] {
            let layout = Layout::new(format, cols).unwrap();
            let bytes = vec![1; layout.term];
            let terms = Terms::new(&layout, [&bytes[..]]);
            match format {
                Activation::F32 => {
                    let _ = terms.number(Portable, 0, 6);
                    assert!(refuses(|| terms.number(Portable, 0, 7)));
                }
                Activation::Q8_K => {
                    let block = terms.block256(1);
                    assert_eq!(block.codes::<Portable, 4>(Portable, 0, 15, 3)[0], 0x0101_0101);
                    assert_eq!(block.sum::<Portable, 8>(Portable, 0, 7)[0], 0x0101_0101);
                    assert_eq!(block.pair_of_sums::<Portable, Minima16>(Portable, 0, 7)[0], 0x0101_0101);
                    assert_eq!((block.all_codes(0)[255], block.sums16(0)[15]), (1, 0x0101));
                    assert!(refuses(|| terms.block256(2)));
                    assert!(refuses(|| terms.block32(0)));
                }
                _ => {
                    assert_eq!(terms.block32(2).codes(Portable, 0, 7)[0], 0x0101_0101);
                    assert!(refuses(|| terms.block32(3)));
                    assert!(refuses(|| terms.block256(0)));
                }
            }
            let short = layout.term.min(bytes.len()) - 64;
            assert!(refuses(|| Terms::new(&layout, [&bytes[..short]])));
        }
    }

    #[test]
    fn parts_are_read_where_they_were_written() {
        let parts = Parts::<Minima16>::new(512, 256);
        let mut strip = vec![Line([0; 64]); parts.vectors()];
        let mut writer = LaneWriter::<Portable>::new(&mut strip, 0);
        for block in 0..2 {
            for sub in 0..16 {
                let number = (16 * block + sub) as i32;
                writer.sub_block(Portable, &parts, 16 * block + sub, [[number; 16]; 4], [-number; 16]);
            }
            for pair in 0..8 {
                writer.minima(Portable, &parts, 8 * block + pair, [1000 + pair as i32; 16]);
            }
            writer.scales(Portable, &parts, block, [0.5; 16], [block as f32; 16]);
        }
        assert!(refuses(|| LaneWriter::<Portable>::new(&mut strip, 0).write(
            Portable,
            parts.vectors(),
            [[0; 16]]
        )));
        let lanes = LanePair::<Portable>::new([&strip, &strip], [0, 0]);
        let block = lanes.blocks(&parts).block::<256>(1);
        assert_eq!(block.codes::<4>(Portable, 15, 3)[1], [31; 16]);
        assert_eq!(block.sub_scales(Portable, 15)[0], [-31; 16]);
        assert_eq!(block.minima(Portable, 7)[0], [1007; 16]);
        assert_eq!((block.scales(Portable)[0], block.floors(Portable)[1]), ([0.5; 16], [1.0; 16]));
        assert!(refuses(|| lanes.blocks(&parts).block::<256>(2)));
        assert!(refuses(|| lanes.blocks(&parts).block::<32>(0)));
        assert!(refuses(|| lanes.blocks(&Parts::<Offset32>::new(1024, 32))));
    }
}
