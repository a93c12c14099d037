//! Double precision.
//!
//! Not here: division steps (`divide.rs`), minima (`minmax.rs`).

use doorbell_isa::{Op, op};

use super::super::float::{add64, fma64, ldexp64, mul64, round32, scale64};
use super::super::handler::Run;
use super::super::mode::Round;
use super::lane_loops::wide;

fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn fract(value: f64) -> f64 {
    let fraction = value - libm::floor(value);
    if fraction.is_nan() { f64::NAN } else { fraction.clamp(0.0, 1.0 - f64::EPSILON / 2.0) }
}

fn exponent(value: f64) -> u64 {
    if value == 0.0 || !value.is_finite() { 0 } else { u64::from(libm::frexp(value).1.cast_unsigned()) }
}

fn mantissa(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() { value } else { libm::frexp(value).0 }
}

/// A double to single in any direction; the double is exact.
fn to_single(value: f64, round: Round) -> u64 {
    round32(value, round).to_bits().into()
}

/// The 1,201 fraction bits of 2/pi, most significant first, in groups of 32 (the last group holds 17 bits).
static TWO_OVER_PI: [u32; 38] = [
    0xa2f9_836e,
    0x4e44_1529,
    0xfc27_57d1,
    0xf534_ddc0,
    0xdb62_9599,
    0x3c43_9041,
    0xfe51_63ab,
    0xdebb_c561,
    0xb724_6e3a,
    0x424d_d2e0,
    0x0649_2eea,
    0x09d1_921c,
    0xfe1d_eb1c,
    0xb129_a73e,
    0xe882_35f5,
    0x2ebb_4484,
    0xe99c_7026,
    0xb45f_7e41,
    0x3991_d639,
    0x8353_39f4,
    0x9c84_5f8b,
    0xbdf9_283b,
    0x1ff8_97ff,
    0xde05_980f,
    0xef2f_118b,
    0x5a0a_6d1f,
    0x6d36_7ecf,
    0x27cb_09b7,
    0x4f46_3f66,
    0x9e5f_ea2d,
    0x7527_bac7,
    0xebe5_f17b,
    0x3d07_39f7,
    0x8a52_92ea,
    0x6bfb_5fb1,
    0x1f8d_5d08,
    0x5603_3046,
    0xfc7b_0000,
];

/// `count` bits of 2/pi from bit `start` behind the binary point; zeroes before it and past the end.
fn two_over_pi(start: i64, count: i64) -> u64 {
    let bit = |at: i64| {
        let word = usize::try_from(at.div_euclid(32)).ok().and_then(|word| TWO_OVER_PI.get(word));
        let inside = (0..1201).contains(&at);
        word.filter(|_| inside).map_or(0, |word| u64::from(word >> (31 - at.rem_euclid(32)) & 1))
    };
    (start..start + count).fold(0, |value, at| value << 1 | bit(at))
}

/// A segment of 2/pi scaled so that the product with `value` keeps its significant part.
fn trig_preop(value: u64, segment: u64) -> f64 {
    let power = (value >> 52 & 0x7ff).cast_signed();
    let shift = (segment & 31).cast_signed() * 53 + (power - 1077).max(0);
    let result = two_over_pi(shift, 53) as f64;
    let scale = -53 - shift + if power >= 1968 { 128 } else { 0 };
    scale64(result, scale as i32)
}

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::v_cvt_i32_f64, Run::Op64(wide!(|_e, s| u64::from((d(s[0]) as i32).cast_unsigned())))),
    (op::v_cvt_u32_f64, Run::Op64(wide!(|_e, s| u64::from(d(s[0]) as u32)))),
    (op::v_cvt_f64_i32, Run::Op64(wide!(|_e, s| f64::from((s[0] as u32).cast_signed()).to_bits()))),
    (op::v_cvt_f64_u32, Run::Op64(wide!(|_e, s| f64::from(s[0] as u32).to_bits()))),
    (op::v_cvt_f32_f64, Run::Op64(wide!(|e, s| to_single(d(s[0]), e.round32)))),
    (op::v_cvt_f64_f32, Run::Op64(wide!(|_e, s| f64::from(f32::from_bits(s[0] as u32)).to_bits()))),
    (op::v_trunc_f64, Run::Op64(wide!(|_e, s| libm::trunc(d(s[0])).to_bits()))),
    (op::v_ceil_f64, Run::Op64(wide!(|_e, s| libm::ceil(d(s[0])).to_bits()))),
    (op::v_rndne_f64, Run::Op64(wide!(|_e, s| libm::rint(d(s[0])).to_bits()))),
    (op::v_floor_f64, Run::Op64(wide!(|_e, s| libm::floor(d(s[0])).to_bits()))),
    (op::v_fract_f64, Run::Op64(wide!(|_e, s| fract(d(s[0])).to_bits()))),
    (op::v_frexp_exp_i32_f64, Run::Op64(wide!(|_e, s| exponent(d(s[0]))))),
    (op::v_frexp_mant_f64, Run::Op64(wide!(|_e, s| mantissa(d(s[0])).to_bits()))),
    (op::v_add_f64, ADD),
    (op::v_add_f64_gfx12, ADD),
    (op::v_mul_f64, MUL),
    (op::v_mul_f64_gfx12, MUL),
    (op::v_fma_f64, Run::Op64(wide!(|e, s| fma64(d(s[0]), d(s[1]), d(s[2]), e.round64).to_bits()))),
    (
        op::v_ldexp_f64,
        Run::Op64(wide!(|e, s| ldexp64(d(s[0]), (s[1] as u32).cast_signed(), e.round64).to_bits())),
    ),
    (op::v_trig_preop_f64, Run::Op64(wide!(|_e, s| trig_preop(s[0], s[1]).to_bits()))),
];

const ADD: Run = Run::Op64(wide!(|e, s| add64(d(s[0]), d(s[1]), e.round64).to_bits()));
const MUL: Run = Run::Op64(wide!(|e, s| mul64(d(s[0]), d(s[1]), e.round64).to_bits()));
