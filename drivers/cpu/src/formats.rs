//! Weight formats as the kernels read them: sixteen rows at a time, turned so that a lane is a row.
//!
//! A group of four consecutive codes of one row fills a lane; a vector holds the same group of `LANES` rows.
//! Codes are unsigned (the dot instructions want that), an offset of a power of two makes them signed again.
//! Nothing is multiplied here; what a block's numbers mean is `doorbell_core::quant`'s.
#![expect(unsafe_code, reason = "declares the methods that read blocks")]

mod block32;
mod expanded;
mod float;
mod superblock;

pub(crate) use block32::{Iq4Nl, Mxfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
pub(crate) use float::{Bf16, F16, F32};
pub(crate) use superblock::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K};

use crate::simd::{Rows, Simd};

/// Blocks of 32 codes under a float scale, and perhaps a float minimum.
pub(crate) trait Block32: 'static {
    /// Bytes of a block.
    const BYTES: usize;
    /// The arithmetic that a block takes.
    type Class: Class;
    /// 2^OFFSET is subtracted from every code; unused when the class has a minimum.
    const OFFSET: u32;

    /// Scale and minimum of each row's block; the minimum is unused when the class has none.
    ///
    /// # Safety
    /// `LANES` rows of [`Self::BYTES`] bytes must be readable.
    unsafe fn scales<S: Simd>(simd: S, rows: Rows) -> (S::F, S::F);

    /// The eight groups of codes of each row's block.
    ///
    /// # Safety
    /// `LANES` rows of [`Self::BYTES`] bytes must be readable.
    unsafe fn codes<S: Simd>(simd: S, rows: Rows) -> [S::I; 8];
}

/// Blocks of 256 codes with integer scales (and perhaps minima) per sub-block, under float scales.
pub(crate) trait Superblock: 'static {
    /// Bytes of a block.
    const BYTES: usize;
    /// The arithmetic that a block takes.
    type Class: Class;
    /// 2^OFFSET is subtracted from every code; unused when the class has minima.
    const OFFSET: u32;

    /// Hands all parts of each row's block to `visitor`: sub-blocks of the class's size once each.
    ///
    /// # Safety
    /// `LANES` rows of [`Self::BYTES`] bytes must be readable.
    unsafe fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: Rows, visitor: &mut V);
}

/// A superblock that is read faster row by row when there is one activation row.
pub(crate) trait RowBlock: Superblock {
    /// Lanes that add up to the block's Σ scale · code · activation for both terms, the offset taken off the codes.
    ///
    /// # Safety
    /// [`Superblock::BYTES`] bytes at `block` and 256 bytes of each term's activation codes must be readable.
    unsafe fn products<S: Simd>(
        simd: S,
        block: *const u8,
        codes: [*const u8; 2],
        sums: [&[i16; 16]; 2],
    ) -> [S::I; 2];

    /// The block's scale, f16.
    ///
    /// # Safety
    /// [`Superblock::BYTES`] bytes at `block` must be readable.
    unsafe fn scale(block: *const u8) -> u16;
}

/// What a superblock consists of, in any order; sums over sub-blocks are exact integers, so order is free.
pub(crate) trait Visitor<S: Simd> {
    /// Sub-block `index` of 32 codes with its scale.
    fn sub32(&mut self, simd: S, index: usize, codes: [S::I; 8], scale: S::I);
    /// Sub-block `index` of 16 codes with its scale.
    fn sub16(&mut self, simd: S, index: usize, codes: [S::I; 4], scale: S::I);
    /// Minima of sub-blocks `2 index` (low halves) and `2 index + 1` (high halves).
    fn minima(&mut self, simd: S, index: usize, pair: S::I);
    /// The block's scale, and its factor on minima (unused when the class has none).
    fn scales(&mut self, simd: S, d: S::F, dmin: S::F);
}

/// Plain numbers.
pub(crate) trait Float: 'static {
    /// Bytes of a number.
    const BYTES: usize;

    /// `16 / BYTES` consecutive numbers of each row, as `[number][row]`; the rest is unused.
    ///
    /// # Safety
    /// `LANES` rows of 16 bytes must be readable.
    unsafe fn numbers<S: Simd>(simd: S, rows: Rows) -> [S::F; 8];

    /// The number at the start of each row.
    ///
    /// # Safety
    /// `LANES` rows of [`Self::BYTES`] bytes must be readable.
    unsafe fn number<S: Simd>(simd: S, rows: Rows) -> S::F;
}

/// Kinds of integer arithmetic. Formats of one class share their compiled kernels.
pub(crate) trait Class: 'static {
    /// Codes per integer scale.
    const SUB: usize;
    /// Minima instead of an offset.
    const MINIMA: bool;
    /// Codes reach 128 and above.
    const WIDE: bool;
}

/// Declares classes: name, codes per scale, minima, wide.
macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident($sub:literal, $minima:literal, $wide:literal);)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;
        impl Class for $name {
            const SUB: usize = $sub;
            const MINIMA: bool = $minima;
            const WIDE: bool = $wide;
        }
    )*};
}

classes! {
    /// Sub-blocks of 32 with minima.
    Minima32(32, true, false);
    /// Sub-blocks of 16 with minima.
    Minima16(16, true, false);
    /// Sub-blocks of 32 around an offset.
    Offset32(32, false, false);
    /// Sub-blocks of 16 around an offset.
    Offset16(16, false, false);
    /// Sub-blocks of 32 around 128.
    Wide32(32, false, true);
}
