//! The formats of 256 codes with integer scales per sub-block. Layouts: `ggml-common.h`.
#![expect(unsafe_code, reason = "reads blocks through row pointers that the caller vouches for")]

use super::block32::IQ4_LEVELS;
use super::{Minima16, Minima32, Offset16, RowBlock, Superblock, Visitor, Wide32};
use crate::simd::{Rows, Simd, each};

/// 16 bytes of 4-bit scales and minima, 64 bytes of 2-bit codes, `d` f16, `dmin` f16.
pub(crate) struct Q2K;
/// 32 bytes of third bits, 64 bytes of 2-bit codes, 12 bytes of 6-bit scales, `d` f16.
pub(crate) struct Q3K;
/// `d` f16, `dmin` f16, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles.
pub(crate) struct Q4K;
/// As Q4_K with 32 bytes of fifth bits before the nibbles.
pub(crate) struct Q5K;
/// 128 bytes of nibbles, 64 bytes of upper bits, 16 signed scales, `d` f16.
pub(crate) struct Q6K;
/// `d` f16, 2 + 4 bytes of 6-bit scales, 128 bytes of nibbles into a table.
pub(crate) struct Iq4Xs;

/// Repeats a block for each value of a constant, so that shifts and choices are settled at compile time.
macro_rules! unroll {
    ($name:ident in [$($value:literal)*] $body:block) => {$({
        const $name: usize = $value;
        $body
    })*};
}

/// Byte `index` of every lane, zero-extended.
#[inline(always)]
fn byte<S: Simd>(simd: S, lanes: S::I, index: usize) -> S::I {
    simd.and(simd.shr(lanes, 8 * index as u32), simd.splat(0xff))
}

/// Bytes 2 `index` and 2 `index` + 1 of every lane as a pair of 16-bit halves.
#[inline(always)]
fn byte_pair<S: Simd>(simd: S, lanes: S::I, index: usize) -> S::I {
    let x = simd.shr(lanes, 16 * index as u32);
    simd.or(simd.and(x, simd.splat(0xff)), simd.and(simd.shl(x, 8), simd.splat(0x00ff_0000)))
}

/// Every lane shifted so that bit `FROM` of a byte comes to bit `TO`; neighbors' bits come along.
#[inline(always)]
fn moved<S: Simd, const FROM: usize, const TO: usize>(simd: S, x: S::I) -> S::I {
    if FROM < TO { simd.shl(x, (TO - FROM) as u32) } else { simd.shr(x, (FROM - TO) as u32) }
}

/// Two 16-byte columns, as eight groups of four bytes.
///
/// # Safety
/// `LANES` rows of 32 bytes must be readable.
#[inline(always)]
unsafe fn columns32<S: Simd>(simd: S, rows: Rows) -> [S::I; 8] {
    // SAFETY: the caller's promise.
    let (a, b) = unsafe { (simd.transpose(rows), simd.transpose(rows.at(16))) };
    [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]
}

/// The 6-bit scales and minima of Q4_K and Q5_K: `[scales 0-3, scales 4-7]`, `[minima 0-3, minima 4-7]`, a byte each.
#[inline(always)]
fn six_bit_scales<S: Simd>(simd: S, [_, u0, u1, u2]: [S::I; 4]) -> ([S::I; 2], [S::I; 2]) {
    let (six, four, two) = (simd.splat(0x3f3f_3f3f), simd.splat(0x0f0f_0f0f), simd.splat(0x3030_3030));
    let top = |x: S::I| simd.and(simd.shr(x, 2), two);
    let scales = [simd.and(u0, six), simd.or(simd.and(u2, four), top(u0))];
    let minima = [simd.and(u1, six), simd.or(simd.and(simd.shr(u2, 4), four), top(u1))];
    (scales, minima)
}

/// Scales, minima and block scales of Q4_K and Q5_K; returns the sub-blocks' scales, a byte each.
///
/// # Safety
/// `LANES` rows of 16 bytes must be readable.
#[inline(always)]
unsafe fn six_bit_head<S: Simd, V: Visitor<S>>(simd: S, rows: Rows, visitor: &mut V) -> [S::I; 2] {
    // SAFETY: the caller's promise.
    let head = unsafe { simd.transpose(rows) };
    let (scales, minima) = six_bit_scales(simd, head);
    unroll!(INDEX in [0 1 2 3] {
        visitor.minima(simd, INDEX, byte_pair(simd, minima[INDEX / 2], INDEX % 2));
    });
    visitor.scales(simd, simd.half(head[0]), simd.half(simd.shr(head[0], 16)));
    scales
}

impl Superblock for Q4K {
    const BYTES: usize = 144;
    type Class = Minima32;
    const OFFSET: u32 = 0;

    #[inline(always)]
    unsafe fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: Rows, visitor: &mut V) {
        let mask = simd.splat(0x0f0f_0f0f);
        // SAFETY: 16 bytes at the start of 144.
        let scales = unsafe { six_bit_head(simd, rows, visitor) };
        unroll!(CHUNK in [0 1 2 3] {
            // SAFETY: 32 bytes at offsets 16, 48, 80, 112 of 144.
            let packed = unsafe { columns32(simd, rows.at(16 + 32 * CHUNK)) };
            let (sub, word) = (2 * CHUNK, scales[CHUNK / 2]);
            visitor.sub32(simd, sub, each(packed, |x| simd.and(x, mask)), byte(simd, word, sub % 4));
            let high = each(packed, |x| simd.and(simd.shr(x, 4), mask));
            visitor.sub32(simd, sub + 1, high, byte(simd, word, sub % 4 + 1));
        });
    }
}

impl Superblock for Q5K {
    const BYTES: usize = 176;
    type Class = Minima32;
    const OFFSET: u32 = 0;

    #[inline(always)]
    unsafe fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: Rows, visitor: &mut V) {
        let (mask, fifth) = (simd.splat(0x0f0f_0f0f), simd.splat(0x1010_1010));
        // SAFETY: 16 bytes at the start, 32 bytes at offset 16 of 176.
        let (scales, bits) = unsafe { (six_bit_head(simd, rows, visitor), columns32(simd, rows.at(16))) };
        unroll!(CHUNK in [0 1 2 3] {
            // SAFETY: 32 bytes at offsets 48, 80, 112, 144 of 176.
            let packed = unsafe { columns32(simd, rows.at(48 + 32 * CHUNK)) };
            unroll!(HIGH in [0 1] {
                const SUB: usize = 2 * CHUNK + HIGH;
                let mut codes = each(packed, |x| simd.and(simd.shr(x, 4 * HIGH as u32), mask));
                for i in 0..8 {
                    // Bit SUB of a byte moves to bit 4.
                    codes[i] = simd.or(codes[i], simd.and(moved::<S, SUB, 4>(simd, bits[i]), fifth));
                }
                visitor.sub32(simd, SUB, codes, byte(simd, scales[SUB / 4], SUB % 4));
            });
        });
    }
}

impl Superblock for Q6K {
    const BYTES: usize = 210;
    type Class = Offset16;
    const OFFSET: u32 = 5;

    #[inline(always)]
    unsafe fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: Rows, visitor: &mut V) {
        let (mask, upper) = (simd.splat(0x0f0f_0f0f), simd.splat(0x3030_3030));
        // SAFETY: 16 bytes at offset 192, two bytes at offset 208 of 210.
        let (scales, d) = unsafe { (simd.transpose(rows.at(192)), simd.gather_u16(rows.at(208))) };
        visitor.scales(simd, simd.half(d), simd.half(d));
        unroll!(HALF in [0 1] {
            unroll!(COLUMN in [0 1] {
                let (low, high) = (64 * HALF + 16 * COLUMN, 128 + 32 * HALF + 16 * COLUMN);
                // SAFETY: 16 bytes at offsets up to 64 + 32 + 16, and up to 128 + 32 + 16, of 210.
                let (a, b, h) = unsafe {
                    (simd.transpose(rows.at(low)), simd.transpose(rows.at(low + 32)), simd.transpose(rows.at(high)))
                };
                unroll!(RUN in [0 1 2 3] {
                    let nibbles = if RUN.is_multiple_of(2) { a } else { b };
                    let mut codes = each(nibbles, |x| simd.and(simd.shr(x, 4 * (RUN as u32 / 2)), mask));
                    for i in 0..4 {
                        // Bits 2 RUN and 2 RUN + 1 of a byte move to bits 4 and 5.
                        let bits = match RUN {
                            0 => moved::<S, 0, 4>(simd, h[i]),
                            1 => moved::<S, 2, 4>(simd, h[i]),
                            2 => moved::<S, 4, 4>(simd, h[i]),
                            _ => moved::<S, 6, 4>(simd, h[i]),
                        };
                        codes[i] = simd.or(codes[i], simd.and(bits, upper));
                    }
                    const SUB: usize = 8 * HALF + 2 * RUN + COLUMN;
                    // Signed byte SUB % 4 of word SUB / 4.
                    let scale = simd.sar(simd.shl(scales[SUB / 4], 24 - 8 * (SUB as u32 % 4)), 24);
                    visitor.sub16(simd, SUB, codes, scale);
                });
            });
        });
    }
}

impl RowBlock for Q6K {
    #[inline(always)]
    unsafe fn products<S: Simd>(
        simd: S,
        block: *const u8,
        codes: [*const u8; 2],
        sums: [&[i16; 16]; 2],
    ) -> [S::I; 2] {
        // SAFETY: 16 bytes at offset 192 of 210.
        let scales = unsafe { block.add(192).cast::<[i8; 16]>().read_unaligned() };
        let offset = |sums| simd.mul(simd.dot_sixteen(&scales, sums), simd.splat(-(1 << Self::OFFSET)));
        let mut total = [offset(sums[0]), offset(sums[1])];
        unroll!(PAIR in [0 1 2 3] {
            if PAIR < 32 / S::LANES {
                let scales = simd.pack_scales(&scales, PAIR);
                // SAFETY: the block; vectors 2 PAIR and 2 PAIR + 1 of the activation codes.
                unsafe {
                    let a = q6_codes(simd, block, 2 * PAIR);
                    let b = q6_codes(simd, block, 2 * PAIR + 1);
                    for term in 0..2 {
                        // With codes up to 63 and activations within ±127 sums of four fit 16 bits.
                        let input = |vector: usize| simd.load(codes[term].add(4 * S::LANES * vector));
                        let a = simd.dot::<false>(simd.splat(0), a, input(2 * PAIR));
                        let b = simd.dot::<false>(simd.splat(0), b, input(2 * PAIR + 1));
                        total[term] = simd.dot_pairs(total[term], simd.pack(a, b), scales);
                    }
                }
            }
        });
        total
    }

    #[inline(always)]
    unsafe fn scale(block: *const u8) -> u16 {
        // SAFETY: two bytes at offset 208 of 210.
        u16::from_le(unsafe { block.add(208).cast::<u16>().read_unaligned() })
    }
}

/// The `vector`-th vector of a Q6_K block's codes, in order of elements.
///
/// # Safety
/// The block must be readable.
#[inline(always)]
unsafe fn q6_codes<S: Simd>(simd: S, block: *const u8, vector: usize) -> S::I {
    // A run is 32 codes; four runs share 32 bytes of upper bits, two share 32 bytes of nibbles.
    let run = vector * S::LANES / 8;
    let (half, place) = (run / 4, run % 4);
    let low = 64 * half + 32 * (place % 2);
    let bits = 2 * place as u32;
    // SAFETY: nibbles up to 128, upper bits up to 192 of 210 bytes.
    let (nibbles, upper) = unsafe {
        (simd.load(block.add(low)), simd.run_shifted(block.add(128 + 32 * half), [bits, bits + 2]))
    };
    let nibbles = simd.and(simd.shr(nibbles, 4 * (place as u32 / 2)), simd.splat(0x0f0f_0f0f));
    simd.or(nibbles, simd.shl(simd.and(upper, simd.splat(0x0303_0303)), 4))
}

impl Superblock for Q2K {
    const BYTES: usize = 84;
    type Class = Minima16;
    const OFFSET: u32 = 0;

    #[inline(always)]
    unsafe fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: Rows, visitor: &mut V) {
        let (four, two) = (simd.splat(0x0f0f_0f0f), simd.splat(0x0303_0303));
        // SAFETY: 16 bytes at the start, two bytes at offsets 80 and 82 of 84.
        let (both, d, dmin) =
            unsafe { (simd.transpose(rows), simd.gather_u16(rows.at(80)), simd.gather_u16(rows.at(82))) };
        visitor.scales(simd, simd.half(d), simd.half(dmin));
        let scales = each(both, |x| simd.and(x, four));
        let minima = each(both, |x| simd.and(simd.shr(x, 4), four));
        unroll!(INDEX in [0 1 2 3 4 5 6 7] {
            visitor.minima(simd, INDEX, byte_pair(simd, minima[INDEX / 2], INDEX % 2));
        });
        unroll!(HALF in [0 1] {
            unroll!(COLUMN in [0 1] {
                // SAFETY: 16 bytes at offsets 16, 32, 48, 64 of 84.
                let packed = unsafe { simd.transpose(rows.at(16 + 32 * HALF + 16 * COLUMN)) };
                unroll!(RUN in [0 1 2 3] {
                    let codes = each(packed, |x| simd.and(simd.shr(x, 2 * RUN as u32), two));
                    const SUB: usize = 8 * HALF + 2 * RUN + COLUMN;
                    visitor.sub16(simd, SUB, codes, byte(simd, scales[SUB / 4], SUB % 4));
                });
            });
        });
    }
}

impl Superblock for Q3K {
    const BYTES: usize = 110;
    type Class = Offset16;
    const OFFSET: u32 = 2;

    #[inline(always)]
    unsafe fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: Rows, visitor: &mut V) {
        let (four, two, third) = (simd.splat(0x0f0f_0f0f), simd.splat(0x0303_0303), simd.splat(0x0404_0404));
        // SAFETY: 16 bytes at offset 94, two bytes at offset 108 of 110.
        let (tail, d) = unsafe { (simd.transpose(rows.at(94)), simd.gather_u16(rows.at(108))) };
        visitor.scales(simd, simd.half(d), simd.half(d));
        // The 12 scale bytes start at 96, two bytes into the first word.
        let word = |i: usize| simd.or(simd.shr(tail[i], 16), simd.shl(tail[i + 1], 16));
        let (u0, u1, u2) = (word(0), word(1), word(2));
        let top = |pair: u32| simd.shl(simd.and(simd.shr(u2, 2 * pair), two), 4);
        let scales = [
            simd.or(simd.and(u0, four), top(0)),
            simd.or(simd.and(u1, four), top(1)),
            simd.or(simd.and(simd.shr(u0, 4), four), top(2)),
            simd.or(simd.and(simd.shr(u1, 4), four), top(3)),
        ];
        unroll!(COLUMN in [0 1] {
            // SAFETY: 16 bytes at offsets 0 and 16 of 110.
            let bits = unsafe { simd.transpose(rows.at(16 * COLUMN)) };
            unroll!(HALF in [0 1] {
                // SAFETY: 16 bytes at offsets 32, 48, 64, 80 of 110.
                let packed = unsafe { simd.transpose(rows.at(32 + 32 * HALF + 16 * COLUMN)) };
                unroll!(RUN in [0 1 2 3] {
                    const BIT: usize = 4 * HALF + RUN;
                    let mut codes = each(packed, |x| simd.and(simd.shr(x, 2 * RUN as u32), two));
                    for i in 0..4 {
                        codes[i] = simd.or(codes[i], simd.and(moved::<S, BIT, 2>(simd, bits[i]), third));
                    }
                    const SUB: usize = 8 * HALF + 2 * RUN + COLUMN;
                    let scale = simd.add(byte(simd, scales[SUB / 4], SUB % 4), simd.splat(-32));
                    visitor.sub16(simd, SUB, codes, scale);
                });
            });
        });
    }
}

impl Superblock for Iq4Xs {
    const BYTES: usize = 136;
    type Class = Wide32;
    const OFFSET: u32 = 7;

    #[inline(always)]
    unsafe fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: Rows, visitor: &mut V) {
        let mask = simd.splat(0x0f0f_0f0f);
        // SAFETY: 16 bytes at the start of 136: d, high scale bits, low scale bits, codes.
        let head = unsafe { simd.transpose(rows) };
        visitor.scales(simd, simd.half(head[0]), simd.half(head[0]));
        unroll!(SUB in [0 1 2 3 4 5 6 7] {
            // SAFETY: 16 bytes at offsets 8 to 120 of 136.
            let packed = unsafe { simd.transpose(rows.at(8 + 16 * SUB)) };
            let low = simd.and(simd.shr(head[1], 4 * SUB as u32), simd.splat(0x0f));
            let high = simd.and(simd.shl(simd.shr(head[0], 16 + 2 * SUB as u32), 4), simd.splat(0x30));
            let scale = simd.add(simd.or(low, high), simd.splat(-32));
            let [a, b, c, d] = each(packed, |x| simd.lookup(&IQ4_LEVELS, simd.and(x, mask)));
            let [e, f, g, h] = each(packed, |x| simd.lookup(&IQ4_LEVELS, simd.and(simd.shr(x, 4), mask)));
            visitor.sub32(simd, SUB, [a, b, c, d, e, f, g, h], scale);
        });
    }
}
