//! Conversions between number types, rounding to integers, exponent and significand extraction.
//!
//! Not here: double precision (`double.rs`).

use doorbell_isa::{Op, op};

use super::super::float::{BF8, F16, F32, FP8, Format, f16_to_f32, f32_to_f16, round32, scale64};
use super::super::handler::Run;
use super::super::mode::Round;
use super::super::number::{from_int, to_i32, to_u32};
use super::super::registers::Wide;
use super::arithmetic::f;
use super::lane_loops::per_lane;

fn h(bits: u32) -> f32 {
    f16_to_f32(bits)
}

fn to_i16(value: f32) -> u32 {
    u32::from((value as i16).cast_unsigned())
}

fn to_u16(value: f32) -> u32 {
    u32::from(value as u16)
}

/// Fraction, below 1.
fn fract32(value: f32) -> f32 {
    let fraction = value - libm::floorf(value);
    if fraction.is_nan() { f32::NAN } else { fraction.clamp(0.0, f32::from_bits(0x3f7f_ffff)) }
}

fn fract16(bits: u32) -> u32 {
    let value = h(bits);
    let fraction = value - libm::floorf(value);
    if fraction.is_nan() { 0x7e00 } else { F16.encode(f64::from(fraction.min(0.999_511_7)), Round::Nearest) }
}

/// Exponent such that significand times two to it is the value and the significand lies in [0.5, 1).
fn frexp_exp(value: f64) -> i32 {
    if value == 0.0 || !value.is_finite() { 0 } else { libm::frexp(value).1 }
}

/// The significand that belongs to `frexp_exp`.
fn frexp_mant(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() { value } else { libm::frexp(value).0 }
}

/// A half kept exactly by an operation on its f32 value.
fn on_half(bits: u32, operation: fn(f32) -> f32) -> u32 {
    F16.encode(f64::from(operation(h(bits))), Round::Nearest)
}

/// Scaled by `scale` and rounded to nearest, ties to even, into a signed range.
fn to_snorm(value: f64, scale: f64) -> u32 {
    let value = if value.is_nan() { 0.0 } else { value.clamp(-1.0, 1.0) };
    (libm::rint(value * scale) as i32).cast_unsigned() & 0xffff
}

fn to_unorm(value: f64, scale: f64) -> u32 {
    let value = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
    libm::rint(value * scale) as u32
}

fn pack(low: u32, high: u32) -> u32 {
    low & 0xffff | high << 16
}

fn snorm32(bits: u32) -> u32 {
    to_snorm(f64::from(f(bits)), 32767.0)
}

fn unorm32(bits: u32) -> u32 {
    to_unorm(f64::from(f(bits)), 65535.0)
}

fn snorm16(bits: u32) -> u32 {
    to_snorm(f64::from(h(bits)), 32767.0)
}

fn unorm16(bits: u32) -> u32 {
    to_unorm(f64::from(h(bits)), 65535.0)
}

/// One byte of `c` replaced by the value as u8 (nearest even, saturating).
fn pk_u8(a: u32, b: u32, c: u32) -> u32 {
    let shift = (b & 3) * 8;
    let byte = (libm::rintf(f(a)) as u8).into();
    c & !(0xff << shift) | u32::wrapping_shl(byte, shift)
}

fn sat_u8(bits: u32) -> u32 {
    ((bits as u16).cast_signed().clamp(0, 255)) as u32
}

/// Two small floats into one half of the destination.
fn pk_small(format: Format, a: u32, b: u32, old: u32, op_sel: u8) -> u32 {
    let [low, high] = [a, b].map(|bits| format.encode(f64::from(f(bits)), Round::Nearest));
    let pair = low | high << 8;
    if op_sel & 8 != 0 { old & 0xffff | pair << 16 } else { old & 0xffff_0000 | pair }
}

/// Stochastic rounding: the upper `bits` random bits are added below the significand that is kept.
fn sr_small(format: Format, bits: u32, a: u32, random: u32, old: u32, op_sel: u8) -> u32 {
    let mantissa = (a & 0x7f_ffff).wrapping_add(random >> (32 - bits)) & 0x7f_ffff;
    let value = if f(a).is_finite() { f(a & 0xff80_0000 | mantissa) } else { f(a) };
    let byte = format.encode(f64::from(value), Round::Nearest);
    let shift = u32::from(op_sel >> 2 & 3) * 8;
    old & !(0xff << shift) | byte << shift
}

/// A byte as single.
fn small(format: Format, byte: u32) -> u32 {
    F32.encode(format.decode(byte & 0xff), Round::Nearest)
}

fn ldexp32(value: f32, power: u32, round: Round) -> u32 {
    // A double holds any single times these.
    let power = power.cast_signed().clamp(-800, 800);
    round32(scale64(f64::from(value), power), round).to_bits()
}

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::v_cvt_f32_i32, Run::Op32(per_lane!(|e, a| from_int(a.cast_signed().into(), e.round32)))),
    (op::v_cvt_f32_u32, Run::Op32(per_lane!(|e, a| from_int(a.into(), e.round32)))),
    (op::v_cvt_u32_f32, Run::Op32(per_lane!(|_e, a| to_u32(f(a))))),
    (op::v_cvt_i32_f32, Run::Op32(per_lane!(|_e, a| to_i32(f(a))))),
    (op::v_cvt_f16_f32, Run::Op32(per_lane!(|e, a| f32_to_f16(f(a), e.round64)))),
    (op::v_cvt_f32_f16, Run::Op32(per_lane!(|_e, a| quiet(h(a))))),
    (op::v_cvt_nearest_i32_f32, Run::Op32(per_lane!(|_e, a| to_i32(libm::floorf(f(a) + 0.5))))),
    (op::v_cvt_floor_i32_f32, Run::Op32(per_lane!(|_e, a| to_i32(libm::floorf(f(a)))))),
    (
        op::v_cvt_off_f32_i4,
        Run::Op32(per_lane!(|_e, a| (((a << 28).cast_signed() >> 28) as f32 / 16.0).to_bits())),
    ),
    (op::v_cvt_f32_ubyte0, Run::Op32(per_lane!(|_e, a| ((a & 0xff) as f32).to_bits()))),
    (op::v_cvt_f32_ubyte1, Run::Op32(per_lane!(|_e, a| ((a >> 8 & 0xff) as f32).to_bits()))),
    (op::v_cvt_f32_ubyte2, Run::Op32(per_lane!(|_e, a| ((a >> 16 & 0xff) as f32).to_bits()))),
    (op::v_cvt_f32_ubyte3, Run::Op32(per_lane!(|_e, a| ((a >> 24) as f32).to_bits()))),
    (op::v_fract_f32, Run::Op32(per_lane!(|_e, a| fract32(f(a)).to_bits()))),
    (op::v_trunc_f32, Run::Op32(per_lane!(|_e, a| libm::truncf(f(a)).to_bits()))),
    (op::v_ceil_f32, Run::Op32(per_lane!(|_e, a| libm::ceilf(f(a)).to_bits()))),
    (op::v_rndne_f32, Run::Op32(per_lane!(|_e, a| libm::rintf(f(a)).to_bits()))),
    (op::v_floor_f32, Run::Op32(per_lane!(|_e, a| libm::floorf(f(a)).to_bits()))),
    (op::v_frexp_exp_i32_f32, Run::Op32(per_lane!(|_e, a| frexp_exp(f(a).into()).cast_unsigned()))),
    (op::v_frexp_mant_f32, Run::Op32(per_lane!(|_e, a| (frexp_mant(f(a).into()) as f32).to_bits()))),
    (op::v_cvt_f16_u16, Run::Op32(per_lane!(|e, a| F16.encode(f64::from(a & 0xffff), e.round64)))),
    (
        op::v_cvt_f16_i16,
        Run::Op32(per_lane!(|e, a| F16.encode(f64::from((a as u16).cast_signed()), e.round64))),
    ),
    (op::v_cvt_u16_f16, Run::Op32(per_lane!(|_e, a| to_u16(h(a))))),
    (op::v_cvt_i16_f16, Run::Op32(per_lane!(|_e, a| to_i16(h(a))))),
    (op::v_frexp_mant_f16, Run::Op32(per_lane!(|_e, a| F16.encode(frexp_mant(h(a).into()), Round::Nearest)))),
    (op::v_frexp_exp_i16_f16, Run::Op32(per_lane!(|_e, a| frexp_exp(h(a).into()).cast_unsigned() & 0xffff))),
    (op::v_floor_f16, Run::Op32(per_lane!(|_e, a| on_half(a, libm::floorf)))),
    (op::v_ceil_f16, Run::Op32(per_lane!(|_e, a| on_half(a, libm::ceilf)))),
    (op::v_trunc_f16, Run::Op32(per_lane!(|_e, a| on_half(a, libm::truncf)))),
    (op::v_rndne_f16, Run::Op32(per_lane!(|_e, a| on_half(a, libm::rintf)))),
    (op::v_fract_f16, Run::Op32(per_lane!(|_e, a| fract16(a)))),
    (op::v_cvt_norm_i16_f16, Run::Op32(per_lane!(|_e, a| snorm16(a)))),
    (op::v_cvt_norm_u16_f16, Run::Op32(per_lane!(|_e, a| unorm16(a)))),
    (op::v_cvt_i32_i16, Run::Op32(per_lane!(|_e, a| i32::from((a as u16).cast_signed()).cast_unsigned()))),
    (op::v_cvt_u32_u16, Run::Op32(per_lane!(|_e, a| a & 0xffff))),
    (op::v_sat_pk_u8_i16, Run::Op32(per_lane!(|_e, a| sat_u8(a) | sat_u8(a >> 16) << 8))),
    (
        op::v_cvt_pk_rtz_f16_f32,
        Run::Op32(per_lane!(|_e, a, b| {
            pack(f32_to_f16(f(a), Round::Zero), f32_to_f16(f(b), Round::Zero))
        })),
    ),
    (op::v_pack_b32_f16, Run::Op32(per_lane!(|_e, a, b| pack(a, b)))),
    (op::v_cvt_pk_i16_f32, Run::Op32(per_lane!(|_e, a, b| pack(to_i16(f(a)), to_i16(f(b)))))),
    (op::v_cvt_pk_u16_f32, Run::Op32(per_lane!(|_e, a, b| pack(to_u16(f(a)), to_u16(f(b)))))),
    (op::v_cvt_pk_norm_i16_f16, Run::Op32(per_lane!(|_e, a, b| pack(snorm16(a), snorm16(b))))),
    (op::v_cvt_pk_norm_u16_f16, Run::Op32(per_lane!(|_e, a, b| pack(unorm16(a), unorm16(b))))),
    (op::v_cvt_pk_norm_i16_f32, Run::Op32(per_lane!(|_e, a, b| pack(snorm32(a), snorm32(b))))),
    (op::v_cvt_pk_norm_u16_f32, Run::Op32(per_lane!(|_e, a, b| pack(unorm32(a), unorm32(b))))),
    (op::v_cvt_pk_u16_u32, Run::Op32(per_lane!(|_e, a, b| pack(a.min(0xffff), b.min(0xffff))))),
    (
        op::v_cvt_pk_i16_i32,
        Run::Op32(per_lane!(|_e, a, b| {
            let [a, b] = [a, b]
                .map(|value| value.cast_signed().clamp(i16::MIN.into(), i16::MAX.into()).cast_unsigned());
            pack(a, b)
        })),
    ),
    (op::v_cvt_pk_u8_f32, Run::Op32(per_lane!(|_e, a, b, c| pk_u8(a, b, c)))),
    (op::v_ldexp_f32, Run::Op32(per_lane!(|e, a, b| ldexp32(f(a), b, e.round32)))),
    (op::v_cvt_f32_fp8, Run::Op32(per_lane!(|e, a| small(FP8, a >> (byte_of(e.op_sel) * 8))))),
    (op::v_cvt_f32_bf8, Run::Op32(per_lane!(|e, a| small(BF8, a >> (byte_of(e.op_sel) * 8))))),
    (op::v_cvt_pk_fp8_f32, Run::Op32(per_lane!(|e, a, b; d| pk_small(FP8, a, b, *d, e.op_sel)))),
    (op::v_cvt_pk_bf8_f32, Run::Op32(per_lane!(|e, a, b; d| pk_small(BF8, a, b, *d, e.op_sel)))),
    (op::v_cvt_sr_fp8_f32, Run::Op32(per_lane!(|e, a, b; d| sr_small(FP8, 20, a, b, *d, e.op_sel)))),
    (op::v_cvt_sr_bf8_f32, Run::Op32(per_lane!(|e, a, b; d| sr_small(BF8, 21, a, b, *d, e.op_sel)))),
    (op::v_cvt_pk_f32_fp8, Run::Op64(|e, s, out| pair(FP8, e.op_sel, &s[0], out))),
    (op::v_cvt_pk_f32_bf8, Run::Op64(|e, s, out| pair(BF8, e.op_sel, &s[0], out))),
];

/// Two small floats of one half of a register as two singles.
fn pair(format: Format, op_sel: u8, value: &Wide, out: &mut Wide) {
    for (out, value) in out.iter_mut().zip(value) {
        let half = (value >> (u32::from(op_sel & 1) * 16)) as u32;
        *out = u64::from(small(format, half)) | u64::from(small(format, half >> 8)) << 32;
    }
}

/// A NaN made quiet.
fn quiet(value: f32) -> u32 {
    if value.is_nan() { value.to_bits() | 0x40_0000 } else { value.to_bits() }
}

/// The byte number that half selects spell: bit 0 selects the upper pair, bit 1 the upper byte of it.
fn byte_of(op_sel: u8) -> u32 {
    u32::from((op_sel & 1) << 1 | op_sel >> 1 & 1)
}
