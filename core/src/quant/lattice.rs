//! What the IQ formats share: lattice points as codes, and sign bits with a parity bit.

use super::grids;

/// The magnitudes of the two-bit formats; no point has the fourth.
const IQ2: [i8; 8] = [8, 25, 43, 0, 0, 0, 0, 0];
const IQ3_XXS_MAGNITUDES: [i8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];
const IQ3_S_MAGNITUDES: [i8; 8] = [1, 3, 5, 7, 9, 11, 13, 15];
/// Eight times the values of the one-bit formats, whose points are shifted by an eighth.
const IQ1_VALUES: [i8; 8] = [-8, 0, 8, 0, 0, 0, 0, 0];

/// Points with `BITS` bits per index into `values`.
const fn points<const BITS: u32, const N: usize, const POINTS: usize>(
    packed: &[u16; POINTS],
    values: [i8; 8],
) -> [[i8; N]; POINTS] {
    let mut points = [[0; N]; POINTS];
    let mut at = 0;
    while at < POINTS {
        let mut i = 0;
        while i < N {
            points[at][i] = values[(packed[at] >> (BITS * i as u32)) as usize & ((1 << BITS) - 1)];
            i += 1;
        }
        at += 1;
    }
    points
}

pub(super) static IQ2_XXS: [[i8; 8]; 256] = points::<2, 8, 256>(&grids::IQ2_XXS, IQ2);
pub(super) static IQ2_XS: [[i8; 8]; 512] = points::<2, 8, 512>(&grids::IQ2_XS, IQ2);
pub(super) static IQ2_S: [[i8; 8]; 1024] = points::<2, 8, 1024>(&grids::IQ2_S, IQ2);
pub(super) static IQ3_XXS: [[i8; 4]; 256] = points::<3, 4, 256>(&grids::IQ3_XXS, IQ3_XXS_MAGNITUDES);
pub(super) static IQ3_S: [[i8; 4]; 512] = points::<3, 4, 512>(&grids::IQ3_S, IQ3_S_MAGNITUDES);
pub(super) static IQ1: [[i8; 8]; 2048] = points::<2, 8, 2048>(&grids::IQ1, IQ1_VALUES);

/// By eight sign bits: all bits of a code that becomes negative, none of one that does not.
static NEGATIVE: [[i8; 8]; 256] = {
    let mut masks = [[0; 8]; 256];
    let mut signs = 0;
    while signs < 256 {
        let mut i = 0;
        while i < 8 {
            masks[signs][i] = -((signs >> i & 1) as i8);
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

/// Magnitudes, negated where bit i of `signs` is set.
pub(super) fn signed(magnitudes: &[i8; 8], signs: u8) -> [i8; 8] {
    let negative = &NEGATIVE[usize::from(signs)];
    core::array::from_fn(|i| (magnitudes[i] ^ negative[i]) - negative[i])
}

/// Two points of four as one of eight.
pub(super) fn pair(low: [i8; 4], high: [i8; 4]) -> [i8; 8] {
    core::array::from_fn(|i| if i < 4 { low[i] } else { high[i - 4] })
}

/// A point of the one-bit formats, shifted by an eighth, times eight.
pub(super) fn shifted(point: &[i8; 8], down: bool) -> [i8; 8] {
    let shift = if down { -1 } else { 1 };
    core::array::from_fn(|i| point[i] + shift)
}

/// Twice nibble `index`, low ones first, plus one: the scales stand for half numbers.
pub(super) fn odd_nibble(bytes: &[u8], index: usize) -> i8 {
    2 * (bytes[index / 2] >> (4 * (index % 2)) & 15).cast_signed() + 1
}
