//! The exponential function for many non-positive arguments: no branch and no table, so that compilers
//! vectorize it, with the same result on every host.

/// `ln 2` in two parts, the first with so few bits that its small multiples are exact.
const LN2_HIGH: f32 = 355.0 / 512.0;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// Adding and subtracting it rounds to an integer.
const ROUND: f32 = 12_582_912.0;

/// Below this the result is zero; it is the smallest whose result is a normal number.
const LOWEST: f32 = -87.336_54;

/// `e^x` for `x <= 0`, with a relative error below 2e-7; zero where the result would be subnormal.
///
/// Minus infinity gives zero. Positive arguments up to 88 are computed as well.
#[inline]
pub(super) fn exp(x: f32) -> f32 {
    let clamped = if x < LOWEST { LOWEST } else { x };
    let rounded = clamped * core::f32::consts::LOG2_E + ROUND;
    let power = rounded - ROUND;
    let rest = (clamped - power * LN2_HIGH) - power * LN2_LOW;
    // the Taylor polynomial, accurate to 2^-26 for |rest| <= ln 2 / 2
    let mut sum = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * rest + coefficient;
    }
    // the low bits of the rounded number are the integer
    let scale = f32::from_bits((rounded.to_bits() << 23).wrapping_add(0x3f80_0000));
    if x < LOWEST { 0.0 } else { sum * scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_to_libm() {
        let mut worst = 0.0_f64;
        for step in 0..=899_000_u32 {
            let x = -f64::from(step) as f32 / 10_304.0;
            let exact = libm::exp(f64::from(x));
            worst = worst.max((f64::from(exp(x)) / exact - 1.0).abs());
        }
        assert!(worst < 2e-7, "{worst}");
        assert_eq!(
            [exp(0.0), exp(-0.0), exp(-87.4), exp(-1e30), exp(f32::NEG_INFINITY)],
            [1.0, 1.0, 0.0, 0.0, 0.0]
        );
        assert!((exp(10.0) / 22_026.465 - 1.0).abs() < 1e-6);
    }
}
