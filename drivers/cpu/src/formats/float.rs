//! Weights that are plain numbers.
#![expect(unsafe_code, reason = "reads numbers through row pointers that the caller vouches for")]

use super::Float;
use crate::simd::{Rows, Simd};

/// IEEE single precision.
pub(crate) struct F32;
/// IEEE half precision.
pub(crate) struct F16;
/// The upper half of single precision.
pub(crate) struct Bf16;

impl Float for F32 {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn numbers<S: Simd>(simd: S, rows: Rows) -> [S::F; 8] {
        // SAFETY: the caller's promise.
        let words = unsafe { simd.transpose(rows) };
        let at = |i: usize| simd.as_f(words[i % 4]);
        [at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)]
    }

    #[inline(always)]
    unsafe fn number<S: Simd>(simd: S, rows: Rows) -> S::F {
        // SAFETY: four bytes, as two halves.
        let (low, high) = unsafe { (simd.gather_u16(rows), simd.gather_u16(rows.at(2))) };
        simd.as_f(simd.or(low, simd.shl(high, 16)))
    }
}

impl Float for F16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn numbers<S: Simd>(simd: S, rows: Rows) -> [S::F; 8] {
        // SAFETY: the caller's promise.
        let words = unsafe { simd.transpose(rows) };
        let (even, odd) = (|i: usize| simd.half(words[i]), |i: usize| simd.half(simd.shr(words[i], 16)));
        [even(0), odd(0), even(1), odd(1), even(2), odd(2), even(3), odd(3)]
    }

    #[inline(always)]
    unsafe fn number<S: Simd>(simd: S, rows: Rows) -> S::F {
        // SAFETY: the caller's promise.
        simd.half(unsafe { simd.gather_u16(rows) })
    }
}

impl Float for Bf16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn numbers<S: Simd>(simd: S, rows: Rows) -> [S::F; 8] {
        let top = simd.splat(0xffff_0000_u32.cast_signed());
        // SAFETY: the caller's promise.
        let words = unsafe { simd.transpose(rows) };
        let even = |i: usize| simd.as_f(simd.shl(words[i], 16));
        let odd = |i: usize| simd.as_f(simd.and(words[i], top));
        [even(0), odd(0), even(1), odd(1), even(2), odd(2), even(3), odd(3)]
    }

    #[inline(always)]
    unsafe fn number<S: Simd>(simd: S, rows: Rows) -> S::F {
        // SAFETY: the caller's promise.
        simd.as_f(simd.shl(unsafe { simd.gather_u16(rows) }, 16))
    }
}
