//! The formats of 32 codes under half-precision scales. Layouts: `ggml-common.h`.

use super::Block32;
use super::class::{Minima32, Offset32, Wide32};
use crate::product::view::{Piece, PieceRows};
use crate::simd::{Simd, each};

/// `d` f16, 16 bytes of nibbles.
#[derive(Clone, Copy)]
pub(crate) struct Q4_0;
/// `d` f16, `m` f16, 16 bytes of nibbles.
#[derive(Clone, Copy)]
pub(crate) struct Q4_1;
/// `d` f16, 4 bytes of fifth bits, 16 bytes of nibbles.
#[derive(Clone, Copy)]
pub(crate) struct Q5_0;
/// `d` f16, `m` f16, 4 bytes of fifth bits, 16 bytes of nibbles.
#[derive(Clone, Copy)]
pub(crate) struct Q5_1;
/// `d` f16, 32 signed bytes.
#[derive(Clone, Copy)]
pub(crate) struct Q8_0;
/// `d` f16, 16 bytes of nibbles into a table.
#[derive(Clone, Copy)]
pub(crate) struct Iq4Nl;
/// `e` a power of two, 16 bytes of nibbles into a table.
#[derive(Clone, Copy)]
pub(crate) struct Mxfp4;

/// IQ4 levels plus 128.
pub(super) const IQ4_LEVELS: [u8; 16] =
    [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];

/// FP4 (E2M1) values, doubled, plus 16.
const FP4_LEVELS: [u8; 16] = [16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4];

/// Nibbles of the 16 bytes at `AT`: byte j holds element j low and element j + 16 high.
#[inline(always)]
fn nibbles<const AT: usize, S: Simd, P: Piece>(simd: S, rows: PieceRows<'_, S, P>) -> [S::I; 8] {
    let packed = rows.transpose::<AT>(simd);
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

impl Piece for Q4_0 {
    const BYTES: usize = 18;
}

impl Block32 for Q4_0 {
    type Class = Offset32;
    const OFFSET: u32 = 3;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> (S::F, S::F) {
        let d = simd.half(rows.gather_u16::<0>(simd));
        (d, d)
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> [S::I; 8] {
        nibbles::<2, _, _>(simd, rows)
    }
}

impl Piece for Q4_1 {
    const BYTES: usize = 20;
}

impl Block32 for Q4_1 {
    type Class = Minima32;
    const OFFSET: u32 = 0;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> (S::F, S::F) {
        scale_and_minimum(simd, rows.transpose::<0>(simd)[0])
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> [S::I; 8] {
        nibbles::<4, _, _>(simd, rows)
    }
}

impl Piece for Q5_0 {
    const BYTES: usize = 22;
}

impl Block32 for Q5_0 {
    type Class = Offset32;
    const OFFSET: u32 = 4;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> (S::F, S::F) {
        let d = simd.half(rows.transpose::<0>(simd)[0]);
        (d, d)
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> [S::I; 8] {
        let (head, codes) = (rows.transpose::<0>(simd), nibbles::<6, _, _>(simd, rows));
        let bits = simd.or(simd.shr(head[0], 16), simd.shl(head[1], 16));
        with_fifth_bits(simd, codes, bits)
    }
}

impl Piece for Q5_1 {
    const BYTES: usize = 24;
}

impl Block32 for Q5_1 {
    type Class = Minima32;
    const OFFSET: u32 = 0;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> (S::F, S::F) {
        scale_and_minimum(simd, rows.transpose::<0>(simd)[0])
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> [S::I; 8] {
        let (head, codes) = (rows.transpose::<0>(simd), nibbles::<8, _, _>(simd, rows));
        with_fifth_bits(simd, codes, head[1])
    }
}

impl Piece for Q8_0 {
    const BYTES: usize = 34;
}

impl Block32 for Q8_0 {
    type Class = Wide32;
    const OFFSET: u32 = 7;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> (S::F, S::F) {
        let d = simd.half(rows.gather_u16::<0>(simd));
        (d, d)
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> [S::I; 8] {
        let (a, b) = (rows.transpose::<2>(simd), rows.transpose::<18>(simd));
        let flip = simd.splat(0x8080_8080_u32.cast_signed());
        each([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]], |x| simd.xor(x, flip))
    }
}

impl Piece for Iq4Nl {
    const BYTES: usize = 18;
}

impl Block32 for Iq4Nl {
    type Class = Wide32;
    const OFFSET: u32 = 7;

    #[inline(always)]
    fn scales<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> (S::F, S::F) {
        let d = simd.half(rows.gather_u16::<0>(simd));
        (d, d)
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> [S::I; 8] {
        each(nibbles::<2, _, _>(simd, rows), |x| simd.lookup(&IQ4_LEVELS, x))
    }
}

impl Piece for Mxfp4 {
    const BYTES: usize = 17;
}

impl Block32 for Mxfp4 {
    type Class = Offset32;
    const OFFSET: u32 = 4;

    /// The values are doubled, so the scale is 2^(e − 128): exponent e − 1 of an f32, subnormal for e < 2.
    #[inline(always)]
    fn scales<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> (S::F, S::F) {
        let e = simd.and(rows.gather_u16::<0>(simd), simd.splat(0xff));
        // 2^(e - 128) = 2^(e/2 - 64) * 2^(e - e/2 - 64): both factors are normal numbers.
        let half = simd.shr(e, 1);
        let rest = simd.add(e, simd.mul(half, simd.splat(-1)));
        let power = |x: S::I| simd.as_f(simd.shl(simd.add(x, simd.splat(127 - 64)), 23));
        let d = simd.mul_f(power(half), power(rest));
        (d, d)
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, rows: PieceRows<'_, S, Self>) -> [S::I; 8] {
        each(nibbles::<1, _, _>(simd, rows), |x| simd.lookup(&FP4_LEVELS, x))
    }
}
