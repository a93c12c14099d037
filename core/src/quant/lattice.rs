//! Parts that the IQ formats share: lattice points as codes, and sign bits with a parity bit.

use super::grids;

/// The magnitudes of the two-bit formats; no point has the fourth.
const IQ2: [i8; 8] = [8, 25, 43, 0, 0, 0, 0, 0];
const IQ3_XXS_MAGNITUDES: [i8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];
const IQ3_S_MAGNITUDES: [i8; 8] = [1, 3, 5, 7, 9, 11, 13, 15];
/// Eight times the values of the one-bit formats, whose points are shifted by an eighth.
const IQ1_VALUES: [i8; 8] = [-8, 0, 8, 0, 0, 0, 0, 0];

/// Codes of eight elements in the form of [`super::Expanded`], the first in the lowest byte.
pub(super) type Eight = u64;

/// The lower seven bits of every byte.
const SEVENS: Eight = 0x7f7f_7f7f_7f7f_7f7f;
/// The lowest bit of every byte.
const ONES: Eight = 0x0101_0101_0101_0101;

/// Points of `len` elements with `bits` bits per index into `values`, biased.
const fn points<const POINTS: usize>(
    packed: &[u16; POINTS],
    len: u32,
    bits: u32,
    values: [i8; 8],
) -> [Eight; POINTS] {
    let mut points = [0; POINTS];
    let mut at = 0;
    while at < POINTS {
        let mut i = 0;
        while i < len {
            let value = values[(packed[at] >> (bits * i)) as usize & ((1 << bits) - 1)];
            points[at] |= ((value + 64).cast_unsigned() as Eight) << (8 * i);
            i += 1;
        }
        at += 1;
    }
    points
}

pub(super) static IQ2_XXS: [Eight; 256] = points(&grids::IQ2_XXS, 8, 2, IQ2);
pub(super) static IQ2_XS: [Eight; 512] = points(&grids::IQ2_XS, 8, 2, IQ2);
pub(super) static IQ2_S: [Eight; 1024] = points(&grids::IQ2_S, 8, 2, IQ2);
/// Four elements each.
pub(super) static IQ3_XXS: [Eight; 256] = points(&grids::IQ3_XXS, 4, 3, IQ3_XXS_MAGNITUDES);
/// Four elements each.
pub(super) static IQ3_S: [Eight; 512] = points(&grids::IQ3_S, 4, 3, IQ3_S_MAGNITUDES);
pub(super) static IQ1: [Eight; 2048] = points(&grids::IQ1, 8, 2, IQ1_VALUES);

/// By eight sign bits: all bits of a byte that becomes negative, none of one that does not.
static NEGATIVE: [Eight; 256] = {
    let mut masks = [0; 256];
    let mut signs = 0;
    while signs < 256 {
        let mut i = 0;
        while i < 8 {
            if signs >> i & 1 == 1 {
                masks[signs] |= 0xff << (8 * i);
            }
            i += 1;
        }
        signs += 1;
    }
    masks
};

/// Eight sign bits of which only seven are stored: their number is even.
pub(super) fn even_signs(stored: u32) -> u8 {
    let stored = (stored & 127) as u8;
    stored | ((stored.count_ones() & 1) as u8) << 7
}

/// Codes of at least 0, negated where bit i of `signs` is set.
pub(super) fn signed(codes: Eight, signs: u8) -> [u8; 8] {
    let negative = NEGATIVE[usize::from(signs)];
    // 64 - x is 255 - (64 + x) - 127, and no byte borrows.
    ((codes ^ negative) - (negative & SEVENS)).to_le_bytes()
}

/// Two points of four as one of eight.
pub(super) fn pair(low: Eight, high: Eight) -> Eight {
    low | high << 32
}

/// A point of the one-bit formats, shifted by an eighth, times eight.
pub(super) fn shifted(point: Eight, down: bool) -> [u8; 8] {
    let shifted = if down { point - ONES } else { point + ONES };
    shifted.to_le_bytes()
}

/// Twice nibble `index`, low ones first, plus one: the scales stand for half numbers.
pub(super) fn odd_nibble(bytes: &[u8], index: usize) -> i8 {
    2 * (bytes[index / 2] >> (4 * (index % 2)) & 15).cast_signed() + 1
}
