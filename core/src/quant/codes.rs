//! Small integers: rounding to them, unpacking them from bytes, and their products.

/// Rounds to the nearest integer, ties to even, and limits to ±127; NaN gives 0.
///
/// Adding 1.5·2^23 leaves no fraction bits, so the addition itself rounds.
pub(super) fn round_to_code(value: f32) -> i8 {
    const MAGIC: f32 = 12_582_912.0;
    ((value.clamp(-127.0, 127.0) + MAGIC) - MAGIC) as i8
}

/// Sixteen bytes as 32 codes: the low nibbles in order, then the high ones.
pub(super) fn nibbles(packed: &[u8; 16]) -> [u8; 32] {
    core::array::from_fn(|i| if i < 16 { packed[i] & 15 } else { packed[i - 16] >> 4 })
}

/// Eight bytes as 16 codes: the low nibbles in order, then the high ones.
pub(super) fn nibble_halves(packed: &[u8; 8]) -> [u8; 16] {
    core::array::from_fn(|i| if i < 8 { packed[i] & 15 } else { packed[i - 8] >> 4 })
}

/// [`nibbles`] with bit i of `high` as the fifth bit of code i.
pub(super) fn five_bits(packed: &[u8; 16], high: [u8; 4]) -> [u8; 32] {
    let high = u32::from_le_bytes(high);
    let low = nibbles(packed);
    core::array::from_fn(|i| low[i] | ((high >> i & 1) as u8) << 4)
}

/// The table entries of codes.
pub(super) fn look_up(packed: &[u8; 16], table: &[i8; 16]) -> [i8; 32] {
    nibbles(packed).map(|code| table[usize::from(code)])
}

/// Unsigned codes minus `bias`.
pub(super) fn signed<const N: usize>(codes: [u8; N], bias: i8) -> [i8; N] {
    codes.map(|code| code.cast_signed() - bias)
}

/// Σ weight code · activation code.
pub(super) fn products(weights: &[i8], activations: &[i8]) -> i32 {
    weights.iter().zip(activations).map(|(weight, input)| i32::from(*weight) * i32::from(*input)).sum()
}

/// Σ scale · weight code · activation code over runs of equal length, one per scale.
pub(super) fn scaled_products(scales: &[i32], weights: &[i8; 256], activations: &[i8; 256]) -> i32 {
    let run = 256 / scales.len();
    let runs = weights.chunks_exact(run).zip(activations.chunks_exact(run));
    scales.iter().zip(runs).map(|(scale, (weights, inputs))| scale * products(weights, inputs)).sum()
}

/// Values of codes under the scales of runs and that of the block.
pub(super) fn write_runs(d: f32, scales: &[i32], codes: &[i8; 256], out: &mut [f32]) {
    let run = 256 / scales.len();
    for (scale, (out, codes)) in scales.iter().zip(out.chunks_exact_mut(run).zip(codes.chunks_exact(run))) {
        let d = d * *scale as f32;
        for (out, code) in out.iter_mut().zip(codes) {
            *out = d * f32::from(*code);
        }
    }
}

/// The sum under both scales.
pub(super) fn scaled(weight: f32, activation: f32, sum: i32) -> f64 {
    f64::from(weight) * f64::from(activation) * f64::from(sum)
}

/// The largest magnitude; NaN if there is a NaN.
pub(super) fn max_magnitude(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |max: f32, value| {
        let magnitude = value.abs();
        if magnitude > max || magnitude.is_nan() { magnitude } else { max }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_half_to_even_and_limited() {
        for (value, code) in [
            (0.5, 0),
            (1.5, 2),
            (2.5, 2),
            (-0.5, 0),
            (-2.5, -2),
            (126.5, 126),
            (127.4, 127),
            (1e30, 127),
            (-1e30, -127),
            (f32::INFINITY, 127),
            (f32::NAN, 0),
        ] {
            assert_eq!(round_to_code(value), code, "{value}");
        }
    }
}
