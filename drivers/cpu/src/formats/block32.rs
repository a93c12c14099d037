//! The formats of 32 codes under half-precision scales. Layouts: `ggml-common.h`.
#![expect(unsafe_code, reason = "reads blocks through row pointers that the caller vouches for")]

use super::{Block32, Minima32, Offset32, Wide32};
use crate::simd::{Rows, Simd, each};

/// `d` f16, 16 bytes of nibbles.
pub(crate) struct Q4_0;
/// `d` f16, `m` f16, 16 bytes of nibbles.
pub(crate) struct Q4_1;
/// `d` f16, 4 bytes of fifth bits, 16 bytes of nibbles.
pub(crate) struct Q5_0;
/// `d` f16, `m` f16, 4 bytes of fifth bits, 16 bytes of nibbles.
pub(crate) struct Q5_1;
/// `d` f16, 32 signed bytes.
pub(crate) struct Q8_0;
/// `d` f16, 16 bytes of nibbles into a table.
pub(crate) struct Iq4Nl;
/// `e` a power of two, 16 bytes of nibbles into a table.
pub(crate) struct Mxfp4;

/// IQ4 levels plus 128.
pub(super) const IQ4_LEVELS: [u8; 16] =
    [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];

/// FP4 (E2M1) values, doubled, plus 16.
const FP4_LEVELS: [u8; 16] = [16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4];

/// Nibbles of a 16-byte column: byte j holds element j low and element j + 16 high.
///
/// # Safety
/// `LANES` rows of 16 bytes must be readable.
#[inline(always)]
unsafe fn nibbles<S: Simd>(simd: S, rows: Rows) -> [S::I; 8] {
    // SAFETY: the caller's promise.
    let packed = unsafe { simd.transpose(rows) };
    let mask = simd.splat(0x0f0f_0f0f);
    let low = each(packed, |x| simd.and(x, mask));
    let high = each(packed, |x| simd.and(simd.shr(x, 4), mask));
    [low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]]
}

/// Adds the fifth bits: bit j of `bits` belongs to element j.
#[inline(always)]
fn with_fifth_bits<S: Simd>(simd: S, codes: [S::I; 8], bits: S::I) -> [S::I; 8] {
    let [a, b, c, d, e, f, g, h] = codes;
    [
        simd.or(a, simd.spread_bits(bits, 0, 16)),
        simd.or(b, simd.spread_bits(bits, 1, 16)),
        simd.or(c, simd.spread_bits(bits, 2, 16)),
        simd.or(d, simd.spread_bits(bits, 3, 16)),
        simd.or(e, simd.spread_bits(bits, 4, 16)),
        simd.or(f, simd.spread_bits(bits, 5, 16)),
        simd.or(g, simd.spread_bits(bits, 6, 16)),
        simd.or(h, simd.spread_bits(bits, 7, 16)),
    ]
}

/// Scale (low half) and minimum (high half) of a lane.
#[inline(always)]
fn scale_and_minimum<S: Simd>(simd: S, both: S::I) -> (S::F, S::F) {
    (simd.half(both), simd.half(simd.shr(both, 16)))
}

impl Block32 for Q4_0 {
    const BYTES: usize = 18;
    type Class = Offset32;
    const OFFSET: u32 = 3;

    #[inline(always)]
    unsafe fn scales<S: Simd>(simd: S, rows: Rows) -> (S::F, S::F) {
        // SAFETY: two bytes at the start of the block.
        let d = simd.half(unsafe { simd.gather_u16(rows) });
        (d, d)
    }

    #[inline(always)]
    unsafe fn codes<S: Simd>(simd: S, rows: Rows) -> [S::I; 8] {
        // SAFETY: 16 bytes at offset 2 of 18.
        unsafe { nibbles(simd, rows.at(2)) }
    }
}

impl Block32 for Q4_1 {
    const BYTES: usize = 20;
    type Class = Minima32;
    const OFFSET: u32 = 0;

    #[inline(always)]
    unsafe fn scales<S: Simd>(simd: S, rows: Rows) -> (S::F, S::F) {
        // SAFETY: 16 bytes at the start of 20.
        scale_and_minimum(simd, unsafe { simd.transpose(rows) }[0])
    }

    #[inline(always)]
    unsafe fn codes<S: Simd>(simd: S, rows: Rows) -> [S::I; 8] {
        // SAFETY: 16 bytes at offset 4 of 20.
        unsafe { nibbles(simd, rows.at(4)) }
    }
}

impl Block32 for Q5_0 {
    const BYTES: usize = 22;
    type Class = Offset32;
    const OFFSET: u32 = 4;

    #[inline(always)]
    unsafe fn scales<S: Simd>(simd: S, rows: Rows) -> (S::F, S::F) {
        // SAFETY: 16 bytes at the start of 22.
        let d = simd.half(unsafe { simd.transpose(rows) }[0]);
        (d, d)
    }

    #[inline(always)]
    unsafe fn codes<S: Simd>(simd: S, rows: Rows) -> [S::I; 8] {
        // SAFETY: 16 bytes at the start and at offset 6 of 22.
        let (head, codes) = unsafe { (simd.transpose(rows), nibbles(simd, rows.at(6))) };
        let bits = simd.or(simd.shr(head[0], 16), simd.shl(head[1], 16));
        with_fifth_bits(simd, codes, bits)
    }
}

impl Block32 for Q5_1 {
    const BYTES: usize = 24;
    type Class = Minima32;
    const OFFSET: u32 = 0;

    #[inline(always)]
    unsafe fn scales<S: Simd>(simd: S, rows: Rows) -> (S::F, S::F) {
        // SAFETY: 16 bytes at the start of 24.
        scale_and_minimum(simd, unsafe { simd.transpose(rows) }[0])
    }

    #[inline(always)]
    unsafe fn codes<S: Simd>(simd: S, rows: Rows) -> [S::I; 8] {
        // SAFETY: 16 bytes at the start and at offset 8 of 24.
        let (head, codes) = unsafe { (simd.transpose(rows), nibbles(simd, rows.at(8))) };
        with_fifth_bits(simd, codes, head[1])
    }
}

impl Block32 for Q8_0 {
    const BYTES: usize = 34;
    type Class = Wide32;
    const OFFSET: u32 = 7;

    #[inline(always)]
    unsafe fn scales<S: Simd>(simd: S, rows: Rows) -> (S::F, S::F) {
        // SAFETY: two bytes at the start of the block.
        let d = simd.half(unsafe { simd.gather_u16(rows) });
        (d, d)
    }

    #[inline(always)]
    unsafe fn codes<S: Simd>(simd: S, rows: Rows) -> [S::I; 8] {
        // SAFETY: 16 bytes at offsets 2 and 18 of 34.
        let (a, b) = unsafe { (simd.transpose(rows.at(2)), simd.transpose(rows.at(18))) };
        let flip = simd.splat(0x8080_8080_u32.cast_signed());
        each([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]], |x| simd.xor(x, flip))
    }
}

impl Block32 for Iq4Nl {
    const BYTES: usize = 18;
    type Class = Wide32;
    const OFFSET: u32 = 7;

    #[inline(always)]
    unsafe fn scales<S: Simd>(simd: S, rows: Rows) -> (S::F, S::F) {
        // SAFETY: two bytes at the start of the block.
        let d = simd.half(unsafe { simd.gather_u16(rows) });
        (d, d)
    }

    #[inline(always)]
    unsafe fn codes<S: Simd>(simd: S, rows: Rows) -> [S::I; 8] {
        // SAFETY: 16 bytes at offset 2 of 18.
        each(unsafe { nibbles(simd, rows.at(2)) }, |x| simd.lookup(&IQ4_LEVELS, x))
    }
}

impl Block32 for Mxfp4 {
    const BYTES: usize = 17;
    type Class = Offset32;
    const OFFSET: u32 = 4;

    /// The values are doubled, so the scale is 2^(e − 128): exponent e − 1 of an f32, subnormal for e < 2.
    #[inline(always)]
    unsafe fn scales<S: Simd>(simd: S, rows: Rows) -> (S::F, S::F) {
        // SAFETY: two bytes at the start of 17.
        let e = simd.and(unsafe { simd.gather_u16(rows) }, simd.splat(0xff));
        // 2^(e - 128) = 2^(e/2 - 64) * 2^(e - e/2 - 64): both factors are normal numbers.
        let half = simd.shr(e, 1);
        let rest = simd.add(e, simd.mul(half, simd.splat(-1)));
        let power = |x: S::I| simd.as_f(simd.shl(simd.add(x, simd.splat(127 - 64)), 23));
        let d = simd.mul_f(power(half), power(rest));
        (d, d)
    }

    #[inline(always)]
    unsafe fn codes<S: Simd>(simd: S, rows: Rows) -> [S::I; 8] {
        // SAFETY: 16 bytes at offset 1 of 17.
        each(unsafe { nibbles(simd, rows.at(1)) }, |x| simd.lookup(&FP4_LEVELS, x))
    }
}
