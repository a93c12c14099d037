//! Weight formats as the kernels read them: sixteen rows at a time, turned so that a lane is a row.
//!
//! A group of four consecutive codes of one row fills a lane; a vector holds the same group of `LANES` rows.
//! Codes are unsigned (the dot instructions want that), an offset of a power of two makes them signed again.
//! Nothing is multiplied here; `doorbell_core::quant` defines what a block's numbers mean.

mod block32;
pub(crate) mod class;
mod expanded;
mod float;
mod superblock;

pub(crate) use block32::{Iq4Nl, Mxfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
pub(crate) use float::{Bf16, F16, F32};
pub(crate) use superblock::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K};

use crate::product::view::{Column, Piece, PieceRows};
use crate::simd::Simd;
use class::Class;

/// Blocks of 32 codes under a float scale, and perhaps a float minimum.
pub(crate) trait Block32: Piece + Sized {
    /// The arithmetic that a block takes.
    type Class: Class;
    /// 2^OFFSET is subtracted from every code; unused when the class has a minimum.
    const OFFSET: u32;

    /// Scale and minimum of each row's block; the minimum is unused when the class has none.
    fn scales<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> (S::F, S::F);

    /// The eight groups of codes of each row's block.
    fn codes<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> [S::I; 8];
}

/// Blocks of 256 codes with integer scales (and perhaps minima) per sub-block, under float scales.
pub(crate) trait Superblock: Piece + Sized {
    /// The arithmetic that a block takes.
    type Class: Class;
    /// 2^OFFSET is subtracted from every code; unused when the class has minima.
    const OFFSET: u32;

    /// Hands all parts of each row's block to `visitor`: sub-blocks of the class's size once each.
    fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: PieceRows<'_, S, Self>, visitor: &mut V);
}

/// A superblock that is read faster row by row when there is one activation row.
pub(crate) trait RowBlock: Superblock {
    /// Lanes that add up to the block's Σ scale · code · activation for both terms, the offset subtracted from the codes.
    ///
    /// # Panics
    /// When the block is too short.
    fn products<S: Simd>(simd: S, block: &[u8], codes: [&[u8; 256]; 2], sums: [&[i16; 16]; 2]) -> [S::I; 2];

    /// The block's scale, f16.
    ///
    /// # Panics
    /// When the block is too short.
    fn scale(block: &[u8]) -> u16;
}

/// Receives the parts of a superblock, in any order; sums over sub-blocks are exact integers, so order is free.
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
pub(crate) trait Float: Piece + Sized {
    /// `16 / BYTES` consecutive numbers of each row, as `[number][row]`; the rest is unused.
    fn numbers<S: Simd>(simd: S, rows: PieceRows<'_, S, Column>) -> [S::F; 8];

    /// The number at the start of each row.
    fn number<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> S::F;
}
