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
        let [a, b, c, d] = unsafe { simd.transpose(rows) }.map(|x| simd.as_f(x));
        [a, b, c, d, a, b, c, d]
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
        let [a, b, c, d] = unsafe { simd.transpose(rows) }.map(|x| [simd.half(x), simd.half(simd.shr(x, 16))]);
        [a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]
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
        let [a, b, c, d] = words.map(|x| [simd.as_f(simd.shl(x, 16)), simd.as_f(simd.and(x, top))]);
        [a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]
    }

    #[inline(always)]
    unsafe fn number<S: Simd>(simd: S, rows: Rows) -> S::F {
        // SAFETY: the caller's promise.
        simd.as_f(simd.shl(unsafe { simd.gather_u16(rows) }, 16))
    }
}
