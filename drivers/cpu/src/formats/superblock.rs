//! The formats of 256 codes with integer scales per sub-block. Layouts: `ggml-common.h`.
#![expect(unsafe_code, reason = "reads blocks through row pointers that the caller vouches for")]

use super::block32::IQ4_LEVELS;
use super::{Minima16, Minima32, Offset16, Superblock, Visitor, Wide32};
use crate::simd::{Rows, Simd};

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
    for index in 0..4 {
        visitor.minima(simd, index, byte_pair(simd, minima[index / 2], index % 2));
    }
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
        for chunk in 0..4 {
            // SAFETY: 32 bytes at offsets 16, 48, 80, 112 of 144.
            let packed = unsafe { columns32(simd, rows.at(16 + 32 * chunk)) };
            let scale = |sub: usize| byte(simd, scales[sub / 4], sub % 4);
            visitor.sub32(simd, 2 * chunk, packed.map(|x| simd.and(x, mask)), scale(2 * chunk));
            let high = packed.map(|x| simd.and(simd.shr(x, 4), mask));
            visitor.sub32(simd, 2 * chunk + 1, high, scale(2 * chunk + 1));
        }
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
        for chunk in 0..4 {
            // SAFETY: 32 bytes at offsets 48, 80, 112, 144 of 176.
            let packed = unsafe { columns32(simd, rows.at(48 + 32 * chunk)) };
            for (sub, shift) in [(2 * chunk, 0), (2 * chunk + 1, 4)] {
                let mut codes = packed.map(|x| simd.and(simd.shr(x, shift), mask));
                for (code, bits) in codes.iter_mut().zip(bits) {
                    // Bit `sub` of a byte moves to bit 4.
                    let moved = if sub < 4 { simd.shl(bits, 4 - sub as u32) } else { simd.shr(bits, sub as u32 - 4) };
                    *code = simd.or(*code, simd.and(moved, fifth));
                }
                visitor.sub32(simd, sub, codes, byte(simd, scales[sub / 4], sub % 4));
            }
        }
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
        // Signed byte `sub % 4` of word `sub / 4`.
        let scale = |sub: usize| simd.sar(simd.shl(scales[sub / 4], 24 - 8 * (sub as u32 % 4)), 24);
        for half in 0..2 {
            for column in 0..2 {
                let (low, high) = (64 * half + 16 * column, 128 + 32 * half + 16 * column);
                // SAFETY: 16 bytes at offsets up to 64 + 32 + 16, and up to 128 + 32 + 16, of 210.
                let (a, b, h) = unsafe {
                    (simd.transpose(rows.at(low)), simd.transpose(rows.at(low + 32)), simd.transpose(rows.at(high)))
                };
                for run in 0..4 {
                    let nibbles = if run % 2 == 0 { a } else { b };
                    let mut codes = nibbles.map(|x| simd.and(simd.shr(x, 4 * (run as u32 / 2)), mask));
                    for (code, bits) in codes.iter_mut().zip(h) {
                        let moved = [simd.shl(bits, 4), simd.shl(bits, 2), bits, simd.shr(bits, 2)][run];
                        *code = simd.or(*code, simd.and(moved, upper));
                    }
                    let sub = 8 * half + 2 * run + column;
                    visitor.sub16(simd, sub, codes, scale(sub));
                }
            }
        }
    }
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
        let scales = both.map(|x| simd.and(x, four));
        let minima = both.map(|x| simd.and(simd.shr(x, 4), four));
        for index in 0..8 {
            visitor.minima(simd, index, byte_pair(simd, minima[index / 2], index % 2));
        }
        for half in 0..2 {
            for column in 0..2 {
                // SAFETY: 16 bytes at offsets 16, 32, 48, 64 of 84.
                let packed = unsafe { simd.transpose(rows.at(16 + 32 * half + 16 * column)) };
                for run in 0..4 {
                    let codes = packed.map(|x| simd.and(simd.shr(x, 2 * run as u32), two));
                    let sub = 8 * half + 2 * run + column;
                    visitor.sub16(simd, sub, codes, byte(simd, scales[sub / 4], sub % 4));
                }
            }
        }
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
        for column in 0..2 {
            // SAFETY: 16 bytes at offsets 0 and 16 of 110.
            let bits = unsafe { simd.transpose(rows.at(16 * column)) };
            for half in 0..2 {
                // SAFETY: 16 bytes at offsets 32, 48, 64, 80 of 110.
                let packed = unsafe { simd.transpose(rows.at(32 + 32 * half + 16 * column)) };
                for run in 0..4 {
                    let mut codes = packed.map(|x| simd.and(simd.shr(x, 2 * run as u32), two));
                    let bit = (4 * half + run) as u32;
                    for (code, bits) in codes.iter_mut().zip(bits) {
                        // Bit `bit` of a byte moves to bit 2.
                        let moved = if bit < 2 { simd.shl(bits, 2 - bit) } else { simd.shr(bits, bit - 2) };
                        *code = simd.or(*code, simd.and(moved, third));
                    }
                    let sub = 8 * half + 2 * run + column;
                    let scale = simd.add(byte(simd, scales[sub / 4], sub % 4), simd.splat(-32));
                    visitor.sub16(simd, sub, codes, scale);
                }
            }
        }
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
        for sub in 0..8 {
            // SAFETY: 16 bytes at offsets 8 to 120 of 136.
            let packed = unsafe { simd.transpose(rows.at(8 + 16 * sub)) };
            let shift = sub as u32;
            let low = simd.and(simd.shr(head[1], 4 * shift), simd.splat(0x0f));
            let high = simd.and(simd.shl(simd.shr(head[0], 16 + 2 * shift), 4), simd.splat(0x30));
            let scale = simd.add(simd.or(low, high), simd.splat(-32));
            let level = |x: S::I| simd.lookup(&IQ4_LEVELS, simd.and(x, mask));
            let [a, b, c, d] = packed.map(level);
            let [e, f, g, h] = packed.map(|x| level(simd.shr(x, 4)));
            visitor.sub32(simd, sub, [a, b, c, d, e, f, g, h], scale);
        }
    }
}
