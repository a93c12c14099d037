//! The formats of 256 codes with integer scales per sub-block. Layouts: `ggml-common.h`.

use super::block32::IQ4_LEVELS;
use super::class::{Minima16, Minima32, Offset16, Wide32};
use super::{RowBlock, Superblock, Visitor};
use crate::product::view::{Piece, PieceRows};
use crate::simd::{Simd, each};

/// 16 bytes of 4-bit scales and minima, 64 bytes of 2-bit codes, `d` f16, `dmin` f16.
#[derive(Clone, Copy)]
pub(crate) struct Q2K;
/// 32 bytes of third bits, 64 bytes of 2-bit codes, 12 bytes of 6-bit scales, `d` f16.
#[derive(Clone, Copy)]
pub(crate) struct Q3K;
/// `d` f16, `dmin` f16, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles.
#[derive(Clone, Copy)]
pub(crate) struct Q4K;
/// As Q4_K with 32 bytes of fifth bits before the nibbles.
#[derive(Clone, Copy)]
pub(crate) struct Q5K;
/// 128 bytes of nibbles, 64 bytes of upper bits, 16 signed scales, `d` f16.
#[derive(Clone, Copy)]
pub(crate) struct Q6K;
/// `d` f16, 2 + 4 bytes of 6-bit scales, 128 bytes of nibbles into a table.
#[derive(Clone, Copy)]
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

/// The 16 bytes at `A` and those at `B`, as eight groups of four.
#[inline(always)]
fn columns32<const A: usize, const B: usize, S: Simd, P: Piece>(
    simd: S,
    rows: PieceRows<'_, S, P>,
) -> [S::I; 8] {
    let (a, b) = (rows.transpose::<A>(simd), rows.transpose::<B>(simd));
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
#[inline(always)]
fn six_bit_head<S: Simd, P: Piece, V: Visitor<S>>(
    simd: S,
    rows: PieceRows<'_, S, P>,
    visitor: &mut V,
) -> [S::I; 2] {
    let head = rows.transpose::<0>(simd);
    let (scales, minima) = six_bit_scales(simd, head);
    unroll!(INDEX in [0 1 2 3] {
        visitor.minima(simd, INDEX, byte_pair(simd, minima[INDEX / 2], INDEX % 2));
    });
    visitor.scales(simd, simd.half(head[0]), simd.half(simd.shr(head[0], 16)));
    scales
}

impl Piece for Q4K {
    const BYTES: usize = 144;
}

impl Superblock for Q4K {
    type Class = Minima32;
    const OFFSET: u32 = 0;

    #[inline(always)]
    fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: PieceRows<'_, S, Self>, visitor: &mut V) {
        let mask = simd.splat(0x0f0f_0f0f);
        let scales = six_bit_head(simd, rows, visitor);
        unroll!(CHUNK in [0 1 2 3] {
            let packed = columns32::<{ 16 + 32 * CHUNK }, { 32 + 32 * CHUNK }, _, _>(simd, rows);
            let (sub, word) = (2 * CHUNK, scales[CHUNK / 2]);
            visitor.sub32(simd, sub, each(packed, |x| simd.and(x, mask)), byte(simd, word, sub % 4));
            let high = each(packed, |x| simd.and(simd.shr(x, 4), mask));
            visitor.sub32(simd, sub + 1, high, byte(simd, word, sub % 4 + 1));
        });
    }
}

impl Piece for Q5K {
    const BYTES: usize = 176;
}

impl Superblock for Q5K {
    type Class = Minima32;
    const OFFSET: u32 = 0;

    #[inline(always)]
    fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: PieceRows<'_, S, Self>, visitor: &mut V) {
        let (mask, fifth) = (simd.splat(0x0f0f_0f0f), simd.splat(0x1010_1010));
        let (scales, bits) = (six_bit_head(simd, rows, visitor), columns32::<16, 32, _, _>(simd, rows));
        unroll!(CHUNK in [0 1 2 3] {
            let packed = columns32::<{ 48 + 32 * CHUNK }, { 64 + 32 * CHUNK }, _, _>(simd, rows);
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

impl Piece for Q6K {
    const BYTES: usize = 210;
}

impl Superblock for Q6K {
    type Class = Offset16;
    const OFFSET: u32 = 5;

    #[inline(always)]
    fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: PieceRows<'_, S, Self>, visitor: &mut V) {
        let (mask, upper) = (simd.splat(0x0f0f_0f0f), simd.splat(0x3030_3030));
        let (scales, d) = (rows.transpose::<192>(simd), rows.gather_u16::<208>(simd));
        visitor.scales(simd, simd.half(d), simd.half(d));
        unroll!(HALF in [0 1] {
            unroll!(COLUMN in [0 1] {
                const LOW: usize = 64 * HALF + 16 * COLUMN;
                const HIGH: usize = 128 + 32 * HALF + 16 * COLUMN;
                let (a, b) = (rows.transpose::<LOW>(simd), rows.transpose::<{ LOW + 32 }>(simd));
                let h = rows.transpose::<HIGH>(simd);
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
    fn products<S: Simd>(simd: S, block: &[u8], codes: [&[u8; 256]; 2], sums: [&[i16; 16]; 2]) -> [S::I; 2] {
        let block: &[u8; 210] = block.first_chunk().expect("a block of Q6_K");
        let mut scales = [0; 16];
        for (scale, byte) in scales.iter_mut().zip(&block[192..208]) {
            *scale = byte.cast_signed();
        }
        let offset = |sums| simd.mul(simd.dot_sixteen(&scales, sums), simd.splat(-(1 << Self::OFFSET)));
        let mut total = [offset(sums[0]), offset(sums[1])];
        unroll!(PAIR in [0 1 2 3] {
            if PAIR < 32 / S::LANES {
                let scales = simd.pack_scales(&scales, PAIR);
                let a = q6_codes(simd, block, 2 * PAIR);
                let b = q6_codes(simd, block, 2 * PAIR + 1);
                for term in 0..2 {
                    // With codes up to 63 and activations within ±127 sums of four fit 16 bits.
                    let input = |vector: usize| simd.read(&codes[term][4 * S::LANES * vector..]);
                    let a = simd.dot::<false>(simd.splat(0), a, input(2 * PAIR));
                    let b = simd.dot::<false>(simd.splat(0), b, input(2 * PAIR + 1));
                    total[term] = simd.dot_pairs(total[term], simd.pack(a, b), scales);
                }
            }
        });
        total
    }

    #[inline(always)]
    fn scale(block: &[u8]) -> u16 {
        u16::from_le_bytes([block[208], block[209]])
    }
}

/// The `vector`-th vector of a Q6_K block's codes, in order of elements.
#[inline(always)]
fn q6_codes<S: Simd>(simd: S, block: &[u8; 210], vector: usize) -> S::I {
    // A run is 32 codes; four runs share 32 bytes of upper bits, two share 32 bytes of nibbles.
    let run = vector * S::LANES / 8;
    let (half, quarter) = (run / 4, run % 4);
    let low = 64 * half + 32 * (quarter % 2);
    let bits = 2 * quarter as u32;
    let upper = block[128 + 32 * half..].first_chunk().expect("upper bits of Q6_K");
    let (nibbles, upper) = (simd.read(&block[low..]), simd.run_shifted(upper, [bits, bits + 2]));
    let nibbles = simd.and(simd.shr(nibbles, 4 * (quarter as u32 / 2)), simd.splat(0x0f0f_0f0f));
    simd.or(nibbles, simd.shl(simd.and(upper, simd.splat(0x0303_0303)), 4))
}

impl Piece for Q2K {
    const BYTES: usize = 84;
}

impl Superblock for Q2K {
    type Class = Minima16;
    const OFFSET: u32 = 0;

    #[inline(always)]
    fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: PieceRows<'_, S, Self>, visitor: &mut V) {
        let (four, two) = (simd.splat(0x0f0f_0f0f), simd.splat(0x0303_0303));
        let (both, d, dmin) =
            (rows.transpose::<0>(simd), rows.gather_u16::<80>(simd), rows.gather_u16::<82>(simd));
        visitor.scales(simd, simd.half(d), simd.half(dmin));
        let scales = each(both, |x| simd.and(x, four));
        let minima = each(both, |x| simd.and(simd.shr(x, 4), four));
        unroll!(INDEX in [0 1 2 3 4 5 6 7] {
            visitor.minima(simd, INDEX, byte_pair(simd, minima[INDEX / 2], INDEX % 2));
        });
        unroll!(HALF in [0 1] {
            unroll!(COLUMN in [0 1] {
                let packed = rows.transpose::<{ 16 + 32 * HALF + 16 * COLUMN }>(simd);
                unroll!(RUN in [0 1 2 3] {
                    let codes = each(packed, |x| simd.and(simd.shr(x, 2 * RUN as u32), two));
                    const SUB: usize = 8 * HALF + 2 * RUN + COLUMN;
                    visitor.sub16(simd, SUB, codes, byte(simd, scales[SUB / 4], SUB % 4));
                });
            });
        });
    }
}

impl Piece for Q3K {
    const BYTES: usize = 110;
}

impl Superblock for Q3K {
    type Class = Offset16;
    const OFFSET: u32 = 2;

    #[inline(always)]
    fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: PieceRows<'_, S, Self>, visitor: &mut V) {
        let (four, two, third) = (simd.splat(0x0f0f_0f0f), simd.splat(0x0303_0303), simd.splat(0x0404_0404));
        let (tail, d) = (rows.transpose::<94>(simd), rows.gather_u16::<108>(simd));
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
            let bits = rows.transpose::<{ 16 * COLUMN }>(simd);
            unroll!(HALF in [0 1] {
                let packed = rows.transpose::<{ 32 + 32 * HALF + 16 * COLUMN }>(simd);
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

impl Piece for Iq4Xs {
    const BYTES: usize = 136;
}

impl Superblock for Iq4Xs {
    type Class = Wide32;
    const OFFSET: u32 = 7;

    #[inline(always)]
    fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: PieceRows<'_, S, Self>, visitor: &mut V) {
        let mask = simd.splat(0x0f0f_0f0f);
        let head = rows.transpose::<0>(simd);
        visitor.scales(simd, simd.half(head[0]), simd.half(head[0]));
        unroll!(SUB in [0 1 2 3 4 5 6 7] {
            let packed = rows.transpose::<{ 8 + 16 * SUB }>(simd);
            let low = simd.and(simd.shr(head[1], 4 * SUB as u32), simd.splat(0x0f));
            let high = simd.and(simd.shl(simd.shr(head[0], 16 + 2 * SUB as u32), 4), simd.splat(0x30));
            let scale = simd.add(simd.or(low, high), simd.splat(-32));
            let [a, b, c, d] = each(packed, |x| simd.lookup(&IQ4_LEVELS, simd.and(x, mask)));
            let [e, f, g, h] = each(packed, |x| simd.lookup(&IQ4_LEVELS, simd.and(simd.shr(x, 4), mask)));
            visitor.sub32(simd, SUB, [a, b, c, d, e, f, g, h], scale);
        });
    }
}
