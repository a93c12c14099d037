//! What the IQ formats share: packed lattice points, and sign bits with a parity bit.

/// The magnitudes of the two-bit IQ formats.
const IQ2: [u8; 4] = [8, 25, 43, 0];

/// The eight magnitudes of a two-bit lattice point.
pub(super) fn iq2_point(packed: u16) -> [f32; 8] {
    core::array::from_fn(|i| f32::from(IQ2[usize::from(packed >> (2 * i) & 3)]))
}

/// The four magnitudes of a three-bit lattice point.
pub(super) fn iq3_point(packed: u16, magnitudes: &[u8; 8]) -> [f32; 4] {
    core::array::from_fn(|i| f32::from(magnitudes[usize::from(packed >> (3 * i) & 7)]))
}

/// The eight values −1, 0 or 1 of a one-bit lattice point.
pub(super) fn iq1_point(packed: u16) -> [f32; 8] {
    core::array::from_fn(|i| f32::from(packed >> (2 * i) & 3) - 1.0)
}

/// Eight sign bits of which only seven are stored: their number is even.
pub(super) fn even_signs(stored: u32) -> u8 {
    let stored = (stored & 127) as u8;
    stored | ((stored.count_ones() & 1) as u8) << 7
}

/// Writes magnitudes under one scale, negated where bit i of `signs` is set.
pub(super) fn signed(out: &mut [f32], scale: f32, magnitudes: &[f32], signs: u8) {
    for (i, (out, magnitude)) in out.iter_mut().zip(magnitudes).enumerate() {
        *out = scale * magnitude * if signs >> i & 1 == 0 { 1.0 } else { -1.0 };
    }
}

/// Nibble `index`, low ones first.
pub(super) fn nibble(bytes: &[u8], index: usize) -> f32 {
    f32::from(bytes[index / 2] >> (4 * (index % 2)) & 15)
}
