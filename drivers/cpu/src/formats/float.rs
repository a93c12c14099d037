//! Weights that are plain numbers.

use super::Float;
use crate::product::view::{Column, Piece, PieceRows};
use crate::simd::Simd;

/// IEEE single precision.
#[derive(Clone, Copy)]
pub(crate) struct F32;
/// IEEE half precision.
#[derive(Clone, Copy)]
pub(crate) struct F16;
/// The upper half of single precision.
#[derive(Clone, Copy)]
pub(crate) struct Bf16;

impl Piece for F32 {
    const BYTES: usize = 4;
}

impl Float for F32 {
    #[inline(always)]
    fn numbers<S: Simd>(simd: S, rows: PieceRows<'_, S, Column>) -> [S::F; 8] {
        let words = rows.transpose::<0>(simd);
        let at = |i: usize| simd.as_f(words[i % 4]);
        [at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)]
    }

    #[inline(always)]
    fn number<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> S::F {
        let (low, high) = (rows.gather_u16::<0>(simd), rows.gather_u16::<2>(simd));
        simd.as_f(simd.or(low, simd.shl(high, 16)))
    }
}

impl Piece for F16 {
    const BYTES: usize = 2;
}

impl Float for F16 {
    #[inline(always)]
    fn numbers<S: Simd>(simd: S, rows: PieceRows<'_, S, Column>) -> [S::F; 8] {
        let words = rows.transpose::<0>(simd);
        let (even, odd) = (|i: usize| simd.half(words[i]), |i: usize| simd.half(simd.shr(words[i], 16)));
        [even(0), odd(0), even(1), odd(1), even(2), odd(2), even(3), odd(3)]
    }

    #[inline(always)]
    fn number<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> S::F {
        simd.half(rows.gather_u16::<0>(simd))
    }
}

impl Piece for Bf16 {
    const BYTES: usize = 2;
}

impl Float for Bf16 {
    #[inline(always)]
    fn numbers<S: Simd>(simd: S, rows: PieceRows<'_, S, Column>) -> [S::F; 8] {
        let top = simd.splat(0xffff_0000_u32.cast_signed());
        let words = rows.transpose::<0>(simd);
        let even = |i: usize| simd.as_f(simd.shl(words[i], 16));
        let odd = |i: usize| simd.as_f(simd.and(words[i], top));
        [even(0), odd(0), even(1), odd(1), even(2), odd(2), even(3), odd(3)]
    }

    #[inline(always)]
    fn number<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> S::F {
        simd.as_f(simd.shl(rows.gather_u16::<0>(simd), 16))
    }
}
