//! Exact arithmetic in every rounding direction, and the small formats.
//!
//! Sums, products and fused products are formed in f64 rounded to odd, which rounds once more to any shorter
//! format as if from the exact value. Not here: which instruction uses what (`vector`, `scalar`).

use super::mode::Round;

const SIGN32: u32 = 0x8000_0000;

/// A short floating-point format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Format {
    /// Exponent bits.
    exponent: u32,
    /// Stored significand bits.
    mantissa: u32,
    /// True if the top exponent holds infinities and NaNs; if not, only all ones is NaN (fp8 E4M3).
    has_infinity: bool,
}

/// IEEE half.
pub(crate) const F16: Format = Format { exponent: 5, mantissa: 10, has_infinity: true };
/// bfloat16.
pub(crate) const BF16: Format = Format { exponent: 8, mantissa: 7, has_infinity: true };
/// IEEE single.
pub(crate) const F32: Format = Format { exponent: 8, mantissa: 23, has_infinity: true };
/// OCP E4M3.
pub(crate) const FP8: Format = Format { exponent: 4, mantissa: 3, has_infinity: false };
/// OCP E5M2.
pub(crate) const BF8: Format = Format { exponent: 5, mantissa: 2, has_infinity: true };

impl Format {
    /// Bits of a value.
    pub(crate) const fn bits(self) -> u32 {
        1 + self.exponent + self.mantissa
    }

    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    const fn sign(self) -> u32 {
        1 << (self.exponent + self.mantissa)
    }

    /// Bits of infinity; of the NaN where there is no infinity.
    const fn infinity(self) -> u32 {
        if self.has_infinity { ((1 << self.exponent) - 1) << self.mantissa } else { self.sign() - 1 }
    }

    /// Bits of the largest finite value.
    const fn largest(self) -> u32 {
        self.infinity() - 1
    }

    /// The nearest value to `x` in the given direction. `x` may be rounded to odd.
    pub(crate) fn encode(self, x: f64, round: Round) -> u32 {
        let bits = x.to_bits();
        let negative = bits >> 63 != 0;
        let sign = if negative { self.sign() } else { 0 };
        if x.is_nan() {
            let payload = ((bits << 12 >> 12) >> (52 - self.mantissa)) as u32;
            let quiet = 1 << (self.mantissa - 1);
            return sign | self.infinity() | if self.has_infinity { payload | quiet } else { 0 };
        }
        if x.is_infinite() {
            return sign | self.infinity();
        }
        let raw = (bits >> 52 & 0x7ff) as i32;
        let significand = (bits & ((1 << 52) - 1)) | if raw == 0 { 0 } else { 1 << 52 };
        let exponent = raw.max(1) - 1023;
        let lowest = 1 - self.bias();
        // Bits of the significand below the last place of the result.
        let drop = (52 - self.mantissa as i32) + (lowest - exponent).max(0);
        let (kept, rest, half) = if drop >= 63 {
            (0, u64::from(significand != 0), 2)
        } else {
            (significand >> drop, significand & ((1 << drop) - 1), 1u64 << (drop - 1))
        };
        let up = match round {
            Round::Nearest => rest > half || (rest == half && kept & 1 != 0),
            Round::Up => rest != 0 && !negative,
            Round::Down => rest != 0 && negative,
            Round::Zero => false,
        };
        let kept = (kept + u64::from(up)) as u32;
        let scale = (exponent - lowest).max(0) as u32;
        // A significand with its leading bit adds one to the exponent field by itself.
        let magnitude = (u64::from(scale) << self.mantissa) + u64::from(kept);
        let most = u64::from(if self.has_infinity { self.infinity() } else { self.infinity() - 1 });
        if magnitude >= most + u64::from(!self.has_infinity) {
            let to_infinity = match round {
                Round::Nearest => true,
                Round::Up => !negative,
                Round::Down => negative,
                Round::Zero => false,
            };
            return sign | if to_infinity { self.infinity() } else { self.largest() };
        }
        sign | magnitude as u32
    }

    /// The exact value of these bits.
    pub(crate) fn decode(self, bits: u32) -> f64 {
        let negative = bits & self.sign() != 0;
        let magnitude = bits & (self.sign() - 1);
        let exponent = (magnitude >> self.mantissa) as i32;
        let fraction = magnitude & ((1 << self.mantissa) - 1);
        let sign = if negative { 1 << 63 } else { 0 };
        let special =
            if self.has_infinity { magnitude >= self.infinity() } else { magnitude == self.infinity() };
        if special {
            let payload =
                if self.has_infinity { u64::from(fraction) << (52 - self.mantissa) } else { 1 << 51 };
            return f64::from_bits(sign | 0x7ff0_0000_0000_0000 | payload);
        }
        let leading = if exponent == 0 { 0 } else { 1 << self.mantissa };
        let power = exponent.max(1) - self.bias() - self.mantissa as i32;
        let unsigned = f64::from(fraction | leading) * f64::from_bits(((power + 1023) as u64) << 52);
        if negative { -unsigned } else { unsigned }
    }
}

/// Half to single, exact; NaN payloads are kept, also signalling ones.
#[inline]
pub(crate) fn f16_to_f32(half: u32) -> f32 {
    let half = half & 0xffff;
    let sign = (half & 0x8000) << 16;
    let magnitude = half & 0x7fff;
    if magnitude >= 0x7c00 {
        return f32::from_bits(sign | 0x7f80_0000 | (magnitude & 0x3ff) << 13);
    }
    if magnitude < 0x400 {
        // Denormal halves: the integer times 2^-24 is exact.
        let value = magnitude as f32 * f32::from_bits(0x3380_0000);
        return f32::from_bits(sign | value.to_bits());
    }
    f32::from_bits(sign | ((magnitude << 13) + 0x3800_0000))
}

/// Single to half in the given direction.
pub(crate) fn f32_to_f16(value: f32, round: Round) -> u32 {
    F16.encode(f64::from(value), round)
}

/// bfloat16 to single, exact.
#[inline]
pub(crate) fn bf16_to_f32(bits: u32) -> f32 {
    f32::from_bits(bits << 16)
}

/// Adjusts the nearest f64 of an exact value to its odd rounding. `error` is exact minus `nearest`.
#[inline]
fn to_odd(nearest: f64, error: f64) -> f64 {
    let bits = nearest.to_bits();
    let inexact = error != 0.0 && error.is_finite() && nearest.is_finite();
    if !inexact || bits & 1 != 0 {
        return nearest;
    }
    let grows = (error > 0.0) == (nearest > 0.0);
    f64::from_bits(if grows { bits.wrapping_add(1) } else { bits.wrapping_sub(1) })
}

/// Error of a sum that was rounded to nearest (Knuth's two-sum).
#[inline]
fn sum_error(a: f64, b: f64, sum: f64) -> f64 {
    let part = sum - a;
    (a - (sum - part)) + (b - part)
}

/// `a + b`, rounded to odd.
#[inline]
pub(crate) fn add_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    to_odd(sum, sum_error(a, b, sum))
}

/// `a * b + c` for factors of at most 26 significant bits, rounded to odd.
#[inline]
pub(crate) fn fma_odd(a: f64, b: f64, c: f64) -> f64 {
    add_odd(a * b, c)
}

/// Sign of an exact zero sum: minus when rounding down, unless both are plus.
fn zero_sum(sum: f64, a: f64, b: f64, round: Round) -> f64 {
    if sum == 0.0 && round == Round::Down && !(a.is_sign_positive() && b.is_sign_positive()) {
        -0.0
    } else {
        sum
    }
}

/// `a * b + c` of singles with one rounding.
#[inline]
pub(crate) fn fma32(a: f32, b: f32, c: f32, round: Round) -> f32 {
    let (a, b, c) = (f64::from(a), f64::from(b), f64::from(c));
    let odd = fma_odd(a, b, c);
    if round == Round::Nearest { odd as f32 } else { round32(zero_sum(odd, a * b, c, round), round) }
}

/// Rounds an f64, which may be rounded to odd, to single.
pub(crate) fn round32(odd: f64, round: Round) -> f32 {
    if round == Round::Nearest { odd as f32 } else { f32::from_bits(F32.encode(odd, round)) }
}

/// Sum of singles.
#[inline]
pub(crate) fn add32(a: f32, b: f32, round: Round) -> f32 {
    if round == Round::Nearest {
        return a + b;
    }
    let (a, b) = (f64::from(a), f64::from(b));
    round32(zero_sum(add_odd(a, b), a, b, round), round)
}

/// Product of singles.
#[inline]
pub(crate) fn mul32(a: f32, b: f32, round: Round) -> f32 {
    if round == Round::Nearest { a * b } else { round32(f64::from(a) * f64::from(b), round) }
}

/// `a * b + c` of halves with one rounding; halves in the low 16 bits.
pub(crate) fn fma16(a: u32, b: u32, c: u32, round: Round) -> u32 {
    let [a, b, c] = [a, b, c].map(|bits| f64::from(f16_to_f32(bits)));
    F16.encode(zero_sum(fma_odd(a, b, c), a * b, c, round), round)
}

/// Sum of halves.
pub(crate) fn add16(a: u32, b: u32, round: Round) -> u32 {
    let [a, b] = [a, b].map(|bits| f64::from(f16_to_f32(bits)));
    F16.encode(zero_sum(a + b, a, b, round), round)
}

/// Product of halves.
pub(crate) fn mul16(a: u32, b: u32, round: Round) -> u32 {
    F16.encode(f64::from(f16_to_f32(a)) * f64::from(f16_to_f32(b)), round)
}

/// A finite double as a sign, an integer and a power of two.
fn parts64(value: f64) -> (bool, u128, i32) {
    let bits = value.to_bits();
    let field = (bits >> 52 & 0x7ff) as i32;
    let fraction = u128::from(bits & ((1 << 52) - 1));
    let mantissa = if field == 0 { fraction } else { fraction | 1 << 52 };
    (bits >> 63 != 0, mantissa, field.max(1) - 1075)
}

/// `mantissa * 2^power`, not zero, as a double in a direction; the lowest bit may stand for anything below it.
fn pack64(negative: bool, mantissa: u128, power: i32, round: Round) -> f64 {
    let top = 127 - mantissa.leading_zeros().cast_signed() + power;
    let unit = top.max(-1022) - 52;
    let shift = unit - power;
    let (mut kept, rest, half) = match shift {
        ..=0 => (mantissa << shift.unsigned_abs(), 0, 1),
        1..=127 => (mantissa >> shift, mantissa & ((1 << shift) - 1), 1 << (shift - 1)),
        _ => (0, 1, 2),
    };
    let away = match round {
        Round::Nearest => rest > half || (rest == half && kept & 1 != 0),
        Round::Up => rest != 0 && !negative,
        Round::Down => rest != 0 && negative,
        Round::Zero => false,
    };
    kept += u128::from(away);
    let magnitude = match kept {
        ..0x10_0000_0000_0000 => kept as u64,
        _ if unit > 971 => u64::MAX,
        // A carry out of the significand is one into the exponent.
        _ => (i64::from(unit + 1074).cast_unsigned() << 52).wrapping_add(kept as u64),
    };
    let infinite = magnitude >= f64::INFINITY.to_bits();
    let grows = match round {
        Round::Nearest => true,
        Round::Up => !negative,
        Round::Down => negative,
        Round::Zero => false,
    };
    let largest = if grows { f64::INFINITY } else { f64::MAX };
    let value = if infinite { largest } else { f64::from_bits(magnitude) };
    if negative { -value } else { value }
}

/// An integer moved so that its highest bit is number 122, with its power of two.
fn raised(mantissa: u128, power: i32) -> (u128, i32) {
    let shift = mantissa.leading_zeros().cast_signed() - 5;
    (mantissa << shift, power - shift)
}

/// `a * b + c` of doubles with one rounding in a direction other than the nearest.
fn directed64(a: f64, b: f64, c: f64, round: Round) -> f64 {
    let ((sign_a, a, power_a), (sign_b, b, power_b)) = (parts64(a), parts64(b));
    let (sign_c, c, power_c) = parts64(c);
    let (sign, product) = (sign_a != sign_b, a * b);
    let negative_zero = if sign == sign_c { sign } else { round == Round::Down };
    match (product, c) {
        (0, 0) => return if negative_zero { -0.0 } else { 0.0 },
        (0, _) => return pack64(sign_c, c, power_c, round),
        (_, 0) => return pack64(sign, product, power_a + power_b, round),
        _ => {}
    }
    let (left, right) = (raised(product, power_a + power_b), raised(c, power_c));
    let (mut high, mut low) = ((sign, left), (sign_c, right));
    if (left.1, left.0) < (right.1, right.0) {
        core::mem::swap(&mut high, &mut low);
    }
    let ((sign, (large, power)), (sign_low, (small, power_low))) = (high, low);
    let distance = power.abs_diff(power_low);
    // What is shifted out leaves a mark in the lowest bit.
    let shifted = small.checked_shr(distance).unwrap_or(0);
    let lost = distance > 127 || shifted << distance != small;
    let shifted = shifted | u128::from(lost);
    let sum = if sign == sign_low { large + shifted } else { large - shifted };
    if sum == 0 {
        return if round == Round::Down { -0.0 } else { 0.0 };
    }
    pack64(sign, sum, power, round)
}

/// Sum of doubles.
pub(crate) fn add64(a: f64, b: f64, round: Round) -> f64 {
    let finite = a.is_finite() && b.is_finite();
    if round == Round::Nearest || !finite { a + b } else { directed64(a, 1.0, b, round) }
}

/// Product of doubles.
pub(crate) fn mul64(a: f64, b: f64, round: Round) -> f64 {
    let finite = a.is_finite() && b.is_finite();
    if round == Round::Nearest || !finite || a == 0.0 || b == 0.0 {
        return a * b;
    }
    directed64(a, b, 0.0, round)
}

/// `a * b + c` of doubles.
pub(crate) fn fma64(a: f64, b: f64, c: f64, round: Round) -> f64 {
    let finite = a.is_finite() && b.is_finite() && c.is_finite();
    if round == Round::Nearest || !finite { libm::fma(a, b, c) } else { directed64(a, b, c, round) }
}

/// A double times any power of two, rounded once.
pub(crate) fn ldexp64(value: f64, power: i32, round: Round) -> f64 {
    let (negative, mantissa, own) = parts64(value);
    if mantissa == 0 || !value.is_finite() {
        return value;
    }
    pack64(negative, mantissa, own.saturating_add(power.clamp(-5000, 5000)), round)
}

/// Zero of the same sign in place of a denormal single.
#[inline]
pub(crate) fn flush32(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & SIGN32 } else { bits }
}

/// Zero of the same sign in place of a denormal half.
#[inline]
pub(crate) fn flush16(bits: u32) -> u32 {
    if bits & 0x7c00 == 0 { bits & 0x8000 } else { bits }
}

/// Zero of the same sign in place of a denormal double.
#[inline]
pub(crate) fn flush64(bits: u64) -> u64 {
    if bits & 0x7ff0_0000_0000_0000 == 0 { bits & (1 << 63) } else { bits }
}

/// True if a single is a signalling NaN.
#[inline]
pub(crate) fn is_signalling32(value: f32) -> bool {
    value.is_nan() && value.to_bits() & 0x40_0000 == 0
}

/// `2^power` of any integer power, as far as it is a double.
pub(crate) fn scale64(value: f64, power: i32) -> f64 {
    libm::scalbn(value, power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_round_trips_and_agrees_with_the_short_path() {
        for bits in 0..=0xffff_u32 {
            let value = f16_to_f32(bits);
            assert_eq!(value.is_nan(), F16.decode(bits).is_nan(), "{bits:#x}");
            if !value.is_nan() {
                assert_eq!(f64::from(value).to_bits(), F16.decode(bits).to_bits(), "{bits:#x}");
                assert_eq!(F16.encode(f64::from(value), Round::Nearest), bits);
                assert_eq!(F16.encode(f64::from(value), Round::Zero), bits);
            }
        }
    }

    #[test]
    fn directions_bracket_the_nearest_value() {
        let one_third = 1.0 / 3.0;
        let down = F16.decode(F16.encode(one_third, Round::Down));
        let up = F16.decode(F16.encode(one_third, Round::Up));
        assert!(down < one_third && one_third < up);
        assert_eq!(F16.encode(65520.0, Round::Nearest), 0x7c00);
        assert_eq!(F16.encode(65520.0, Round::Zero), 0x7bff);
        assert_eq!(F16.encode(65519.9, Round::Nearest), 0x7bff);
        assert_eq!(F16.encode(f64::powi(2.0, -25), Round::Nearest), 0);
        assert_eq!(F16.encode(f64::powi(2.0, -25), Round::Up), 1);
        assert_eq!(FP8.encode(448.0, Round::Nearest), 0x7e);
        assert_eq!(FP8.decode(0x7e), 448.0);
        assert_eq!(BF8.decode(0x7b), 57344.0);
    }

    #[test]
    fn fused_product_equals_the_host() {
        let mut random = crate::memory::Random::new(7);
        for _ in 0..200_000 {
            let [a, b, c] = [0; 3].map(|_| f32::from_bits(random.bits() as u32));
            let expected = a.mul_add(b, c);
            let found = fma32(a, b, c, Round::Nearest);
            assert!(
                expected.to_bits() == found.to_bits() || expected.is_nan() && found.is_nan(),
                "{a:e} {b:e} {c:e}"
            );
        }
    }
}
