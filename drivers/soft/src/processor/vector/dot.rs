//! Dot products of two, four and eight elements.
//!
//! Float products are summed without intermediate rounding and rounded once: the hardware's order is not documented.
//! Not here: matrix instructions.

use doorbell_isa::{Op, op};

use super::super::float::{BF8, BF16, F16, FP8, Format, add_odd, bf16_to_f32, f16_to_f32, round32};
use super::super::handler::Run;
use super::super::mode::Round;
use super::arithmetic::f;
use super::lane_loops::per_lane;

/// Sum of two exact products and a third value, rounded to odd.
fn dot2(a: [f64; 2], b: [f64; 2], c: f64) -> f64 {
    add_odd(add_odd(a[0] * b[0], a[1] * b[1]), c)
}

fn halves(bits: u32) -> [f64; 2] {
    [f64::from(f16_to_f32(bits)), f64::from(f16_to_f32(bits >> 16))]
}

fn brains(bits: u32) -> [f64; 2] {
    [f64::from(bf16_to_f32(bits & 0xffff)), f64::from(bf16_to_f32(bits >> 16))]
}

fn dot2_f16(a: u32, b: u32, c: u32, round: Round) -> u32 {
    round32(dot2(halves(a), halves(b), f64::from(f(c))), round).to_bits()
}

fn dot2_bf16(a: u32, b: u32, c: u32, round: Round) -> u32 {
    round32(dot2(brains(a), brains(b), f64::from(f(c))), round).to_bits()
}

/// One element of `width` bits, signed or not.
pub(super) fn element(bits: u32, index: u32, width: u32, signed: bool) -> i64 {
    let raised = bits << (32 - width * (index + 1));
    if signed { i64::from(raised.cast_signed() >> (32 - width)) } else { i64::from(raised >> (32 - width)) }
}

/// Four products of bytes, wrapping, with the signs of the two sides: what `dot` does when nothing is clamped.
#[inline(always)]
fn dot4_wrapping(a: u32, b: u32, c: u32, signs: [bool; 2]) -> u32 {
    let byte = |bits: u32, shift: u32, signed: bool| {
        let raised = bits << (24 - shift);
        if signed { (raised.cast_signed() >> 24).cast_unsigned() } else { raised >> 24 }
    };
    let product = |shift: u32| byte(a, shift, signs[0]).wrapping_mul(byte(b, shift, signs[1]));
    product(0).wrapping_add(product(8)).wrapping_add(product(16)).wrapping_add(product(24)).wrapping_add(c)
}

macro_rules! dot4_lanes {
    ($env:ident, $s:ident, $out:ident, $signs:expr) => {{
        let [a, b, c] = *$s;
        $env.simd.run(
            #[inline(always)]
            move || {
                let mut value = [0; 32];
                let mut lane = 0;
                while lane < 32 {
                    value[lane] = dot4_wrapping(a[lane], b[lane], c[lane], $signs);
                    lane += 1;
                }
                *$out = value;
            },
        )
    }};
}

const DOT4: Run = Run::Op32(|e, s, out| match (e.clamp, e.neg & 3) {
    (false, 0) => dot4_lanes!(e, s, out, [false, false]),
    (false, 1) => dot4_lanes!(e, s, out, [true, false]),
    (false, 2) => dot4_lanes!(e, s, out, [false, true]),
    (false, _) => dot4_lanes!(e, s, out, [true, true]),
    _ => {
        for (lane, out) in out.iter_mut().enumerate() {
            *out = dot(s[0][lane], s[1][lane], s[2][lane], 8, e.neg, e.clamp);
        }
    }
});

/// Integer dot product; the sum saturates when clamped.
fn dot(a: u32, b: u32, c: u32, width: u32, signs: u8, clamp: bool) -> u32 {
    let (sign_a, sign_b) = (signs & 1 != 0, signs & 2 != 0);
    let products = (0..32 / width).map(|at| element(a, at, width, sign_a) * element(b, at, width, sign_b));
    let sum = products.sum::<i64>() + i64::from(c.cast_signed());
    if clamp { (sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32).cast_unsigned() } else { sum as u32 }
}

fn dot_unsigned(a: u32, b: u32, c: u32, width: u32, clamp: bool) -> u32 {
    let products = (0..32 / width).map(|at| element(a, at, width, false) * element(b, at, width, false));
    let sum = products.sum::<i64>() + i64::from(c);
    if clamp { sum.min(u32::MAX.into()) as u32 } else { sum as u32 }
}

fn dot4_small(a: u32, b: u32, c: u32, formats: [Format; 2], round: Round) -> u32 {
    let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    let products = products.map(|(a, b)| formats[0].decode(a.into()) * formats[1].decode(b.into()));
    round32(products.fold(f64::from(f(c)), add_odd), round).to_bits()
}

const DOT2ACC: Run = Run::Op32(per_lane!(|e, a, b; d| dot2_f16(a, b, *d, e.round32)));

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::v_dot2_f32_f16, Run::Op32(per_lane!(|e, a, b, c| dot2_f16(a, b, c, e.round32)))),
    (op::v_dot2acc_f32_f16, DOT2ACC),
    (op::v_dual_dot2acc_f32_f16, DOT2ACC),
    (op::v_dot2_f32_bf16, Run::Op32(per_lane!(|e, a, b, c| dot2_bf16(a, b, c, e.round32)))),
    (
        op::v_dot2_f16_f16,
        Run::Op32(per_lane!(|e, a, b, c| {
            F16.encode(dot2(halves(a), halves(b), f64::from(f16_to_f32(c))), e.round64)
        })),
    ),
    (
        op::v_dot2_bf16_bf16,
        Run::Op32(per_lane!(|_e, a, b, c| {
            BF16.encode(dot2(brains(a), brains(b), f64::from(bf16_to_f32(c))), Round::Nearest)
        })),
    ),
    (op::v_dot4_i32_iu8, DOT4),
    (op::v_dot8_i32_iu4, Run::Op32(per_lane!(|e, a, b, c| dot(a, b, c, 4, e.neg, e.clamp)))),
    (op::v_dot4_u32_u8, Run::Op32(per_lane!(|e, a, b, c| dot_unsigned(a, b, c, 8, e.clamp)))),
    (op::v_dot8_u32_u4, Run::Op32(per_lane!(|e, a, b, c| dot_unsigned(a, b, c, 4, e.clamp)))),
    (op::v_dot4_f32_fp8_fp8, Run::Op32(per_lane!(|e, a, b, c| dot4_small(a, b, c, [FP8, FP8], e.round32)))),
    (op::v_dot4_f32_fp8_bf8, Run::Op32(per_lane!(|e, a, b, c| dot4_small(a, b, c, [FP8, BF8], e.round32)))),
    (op::v_dot4_f32_bf8_fp8, Run::Op32(per_lane!(|e, a, b, c| dot4_small(a, b, c, [BF8, FP8], e.round32)))),
    (op::v_dot4_f32_bf8_bf8, Run::Op32(per_lane!(|e, a, b, c| dot4_small(a, b, c, [BF8, BF8], e.round32)))),
];
