//! The three steps of exact division: scaling, fused product with rescaling, fix-up.
//!
//! The published pseudo-code loses signs of the scale factors; the rules here are those that make the compiler's
//! division sequence exact and agree with values measured on hardware. Not here: reciprocals.

use doorbell_isa::{Op, op};

use super::super::float::{F16, f16_to_f32, fma32, fma64, round32, scale64};
use super::super::handler::Run;
use super::super::mode::Round;
use super::arithmetic::f;
use super::lane_loops::wide;

/// Facts of a format that scaling depends on.
#[derive(Clone, Copy)]
struct Limits {
    /// Exponent field of a value; 0 for denormals.
    field: fn(f64) -> i32,
    /// Distance of exponents from which the quotient may overflow.
    near_overflow: i32,
    /// Numerators with smaller exponent fields lose bits in the remainder.
    tiny: i32,
    /// Power of two used as scale.
    scale: i32,
    /// Smallest normal value.
    smallest: f64,
    /// Difference of exponent fields from which the quotient may be denormal.
    near_underflow: i32,
}

fn field32(value: f64) -> i32 {
    ((value as f32).to_bits() >> 23 & 0xff).cast_signed()
}

fn field64(value: f64) -> i32 {
    (value.to_bits() >> 52 & 0x7ff) as i32
}

const SINGLE: Limits = Limits {
    field: field32,
    near_overflow: 96,
    tiny: 23,
    scale: 64,
    smallest: f32::MIN_POSITIVE as f64,
    near_underflow: -126,
};
const DOUBLE: Limits = Limits {
    field: field64,
    near_overflow: 768,
    tiny: 53,
    scale: 128,
    smallest: f64::MIN_POSITIVE,
    near_underflow: -1022,
};

/// Denormal or zero of the format.
fn is_small(value: f64, limits: Limits) -> bool {
    value.abs() < limits.smallest
}

/// The scaled operand and whether the quotient has to be rescaled.
fn div_scale(value: f64, denominator: f64, numerator: f64, limits: Limits) -> (f64, bool) {
    let Limits { field, scale, .. } = limits;
    let same = |other: f64| value.to_bits() == other.to_bits();
    if numerator == 0.0 || denominator == 0.0 {
        return (f64::NAN, true);
    }
    if field(numerator) - field(denominator) >= limits.near_overflow {
        return (if same(denominator) { scale64(value, scale) } else { value }, true);
    }
    if is_small(denominator, limits) {
        return (scale64(value, scale), false);
    }
    let small_quotient = field(numerator) - field(denominator) <= limits.near_underflow;
    let small_reciprocal = is_small(1.0 / denominator, limits);
    match (small_reciprocal, small_quotient) {
        (true, true) => (if same(denominator) { scale64(value, -scale) } else { value }, true),
        (true, false) => (scale64(value, -scale), false),
        (false, true) => (if same(numerator) { scale64(value, scale) } else { value }, true),
        // Both are scaled, so the quotient is not.
        (false, false) if field(numerator) <= limits.tiny => (scale64(value, scale), false),
        _ => (value, false),
    }
}

/// The final quotient from the computed one, the denominator and the numerator.
fn div_fixup(quotient: f64, denominator: f64, numerator: f64, lowest: i32, field: fn(f64) -> i32) -> f64 {
    let sign = denominator.is_sign_negative() != numerator.is_sign_negative();
    let signed = |value: f64| if sign { -value } else { value };
    let quiet = |value: f64| f64::from_bits(value.to_bits() | 1 << 51);
    if numerator.is_nan() {
        quiet(numerator)
    } else if denominator.is_nan() {
        quiet(denominator)
    } else if (denominator == 0.0 && numerator == 0.0)
        || (denominator.is_infinite() && numerator.is_infinite())
    {
        f64::from_bits(0xfff8_0000_0000_0000)
    } else if denominator == 0.0 || numerator.is_infinite() {
        signed(f64::INFINITY)
    } else if denominator.is_infinite() || numerator == 0.0 || field(numerator) - field(denominator) < lowest
    {
        signed(0.0)
    } else if quotient.is_nan() {
        signed(f64::INFINITY)
    } else {
        signed(quotient.abs())
    }
}

/// A NaN of a single keeps its payload.
fn narrow(value: f64) -> u32 {
    round32(value, Round::Nearest).to_bits()
}

fn fmas32(a: u32, b: u32, c: u32, rescale: bool, round: Round) -> u32 {
    let product = fma32(f(a), f(b), f(c), round);
    if !rescale {
        return product.to_bits();
    }
    // The rescaled result is rounded once, from the exact product.
    let odd = super::super::float::fma_odd(f64::from(f(a)), f64::from(f(b)), f64::from(f(c)));
    let power = if field32(f64::from(f(c))) > 127 { 64 } else { -64 };
    round32(scale64(odd, power), round).to_bits()
}

fn fmas64(a: f64, b: f64, c: f64, rescale: bool, round: Round) -> f64 {
    let product = fma64(a, b, c, round);
    let power = if field64(c) > 1023 { 128 } else { -128 };
    if rescale { scale64(product, power) } else { product }
}

pub(super) static TABLE: &[(Op, Run)] = &[
    (
        op::v_div_scale_f32,
        Run::Carry64(|_, s, out| {
            let mut mask = 0;
            for (lane, out) in out.iter_mut().enumerate() {
                let [value, denominator, numerator] =
                    [0, 1, 2].map(|index| f64::from(f(s[index][lane] as u32)));
                let (scaled, rescale) = div_scale(value, denominator, numerator, SINGLE);
                *out = narrow(scaled).into();
                mask |= u32::from(rescale) << lane;
            }
            mask
        }),
    ),
    (
        op::v_div_scale_f64,
        Run::Carry64(|_, s, out| {
            let mut mask = 0;
            for (lane, out) in out.iter_mut().enumerate() {
                let [value, denominator, numerator] = [0, 1, 2].map(|index| f64::from_bits(s[index][lane]));
                let (scaled, rescale) = div_scale(value, denominator, numerator, DOUBLE);
                *out = scaled.to_bits();
                mask |= u32::from(rescale) << lane;
            }
            mask
        }),
    ),
    (
        op::v_div_fmas_f32,
        Run::Op32(|e, s, out| {
            for (lane, out) in out.iter_mut().enumerate() {
                *out = fmas32(s[0][lane], s[1][lane], s[2][lane], e.vcc >> lane & 1 != 0, e.round32);
            }
        }),
    ),
    (
        op::v_div_fmas_f64,
        Run::Op64(|e, s, out| {
            for (lane, out) in out.iter_mut().enumerate() {
                let [a, b, c] = [0, 1, 2].map(|index| f64::from_bits(s[index][lane]));
                *out = fmas64(a, b, c, e.vcc >> lane & 1 != 0, e.round64).to_bits();
            }
        }),
    ),
    (
        op::v_div_fixup_f32,
        Run::Op64(wide!(|_e, s| {
            let [quotient, denominator, numerator] = s.map(|bits| f64::from(f(bits as u32)));
            narrow(div_fixup(quotient, denominator, numerator, -150, field32)).into()
        })),
    ),
    (
        op::v_div_fixup_f64,
        Run::Op64(wide!(|_e, s| {
            let [quotient, denominator, numerator] = s.map(f64::from_bits);
            div_fixup(quotient, denominator, numerator, -1075, field64).to_bits()
        })),
    ),
    (
        op::v_div_fixup_f16,
        Run::Op32(|_, s, out| {
            for (lane, out) in out.iter_mut().enumerate() {
                let [quotient, denominator, numerator] =
                    [0, 1, 2].map(|index| f64::from(f16_to_f32(s[index][lane])));
                *out =
                    F16.encode(div_fixup(quotient, denominator, numerator, i32::MIN, |_| 0), Round::Nearest);
            }
        }),
    ),
];
