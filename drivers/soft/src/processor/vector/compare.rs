//! Vector comparisons, to a mask or to EXEC.
//!
//! Not here: scalar comparisons (`scalar`).

use doorbell_isa::{Op, op};

use super::super::float::f16_to_f32;
use super::super::handler::Run;
use super::super::number::ACCEPTS;
use super::arithmetic::f;
use super::lane_loops::mask_of;
use super::small;

fn h(bits: u32) -> f32 {
    f16_to_f32(bits)
}

/// Bit of a float's class in the mask of `v_cmp_class`: signalling NaN, quiet NaN, -inf, -normal, -denormal, -0, +0,
/// +denormal, +normal, +inf. Fields are widened to 64 bits.
fn class(bits: u64, exponent: u32, mantissa: u32) -> u32 {
    let fraction = bits & ((1 << mantissa) - 1);
    let power = bits >> mantissa & ((1 << exponent) - 1);
    let negative = bits >> (exponent + mantissa) & 1 != 0;
    let side = |minus: u32, plus: u32| if negative { minus } else { plus };
    if power == (1 << exponent) - 1 {
        return match fraction {
            0 => side(2, 9),
            _ if fraction >> (mantissa - 1) == 0 => 0,
            _ => 1,
        };
    }
    match (power, fraction) {
        (0, 0) => side(5, 6),
        (0, _) => side(4, 7),
        _ => side(3, 8),
    }
}

macro_rules! float16 {
    ($index:literal) => {
        Run::Compare32(mask_of!(|a, b| ACCEPTS[$index](h(a).partial_cmp(&h(b)))))
    };
}
macro_rules! float32 {
    ($index:literal) => {
        Run::Compare32(mask_of!(|a, b| ACCEPTS[$index](f(a).partial_cmp(&f(b)))))
    };
}
macro_rules! float64 {
    ($index:literal) => {
        Run::Compare64(mask_of!(|a, b| ACCEPTS[$index](f64::from_bits(a).partial_cmp(&f64::from_bits(b)))))
    };
}

const CLASS_F16: Run = Run::Compare32(mask_of!(|a, b| b >> class((a & 0xffff).into(), 5, 10) & 1 != 0));
const CLASS_F32: Run = Run::Compare32(mask_of!(|a, b| b >> class(a.into(), 8, 23) & 1 != 0));
const CLASS_F64: Run = Run::Compare64(mask_of!(|a, b| b >> class(a, 11, 52) & 1 != 0));

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::v_cmp_f_f16, float16!(0)),
    (op::v_cmp_lt_f16, float16!(1)),
    (op::v_cmp_eq_f16, float16!(2)),
    (op::v_cmp_le_f16, float16!(3)),
    (op::v_cmp_gt_f16, float16!(4)),
    (op::v_cmp_lg_f16, float16!(5)),
    (op::v_cmp_ge_f16, float16!(6)),
    (op::v_cmp_o_f16, float16!(7)),
    (op::v_cmp_u_f16, float16!(8)),
    (op::v_cmp_nge_f16, float16!(9)),
    (op::v_cmp_nlg_f16, float16!(10)),
    (op::v_cmp_ngt_f16, float16!(11)),
    (op::v_cmp_nle_f16, float16!(12)),
    (op::v_cmp_neq_f16, float16!(13)),
    (op::v_cmp_nlt_f16, float16!(14)),
    (op::v_cmp_t_f16, float16!(15)),
    (op::v_cmp_f_f32, float32!(0)),
    (op::v_cmp_lt_f32, float32!(1)),
    (op::v_cmp_eq_f32, float32!(2)),
    (op::v_cmp_le_f32, float32!(3)),
    (op::v_cmp_gt_f32, float32!(4)),
    (op::v_cmp_lg_f32, float32!(5)),
    (op::v_cmp_ge_f32, float32!(6)),
    (op::v_cmp_o_f32, float32!(7)),
    (op::v_cmp_u_f32, float32!(8)),
    (op::v_cmp_nge_f32, float32!(9)),
    (op::v_cmp_nlg_f32, float32!(10)),
    (op::v_cmp_ngt_f32, float32!(11)),
    (op::v_cmp_nle_f32, float32!(12)),
    (op::v_cmp_neq_f32, float32!(13)),
    (op::v_cmp_nlt_f32, float32!(14)),
    (op::v_cmp_t_f32, float32!(15)),
    (op::v_cmp_f_f64, float64!(0)),
    (op::v_cmp_lt_f64, float64!(1)),
    (op::v_cmp_eq_f64, float64!(2)),
    (op::v_cmp_le_f64, float64!(3)),
    (op::v_cmp_gt_f64, float64!(4)),
    (op::v_cmp_lg_f64, float64!(5)),
    (op::v_cmp_ge_f64, float64!(6)),
    (op::v_cmp_o_f64, float64!(7)),
    (op::v_cmp_u_f64, float64!(8)),
    (op::v_cmp_nge_f64, float64!(9)),
    (op::v_cmp_nlg_f64, float64!(10)),
    (op::v_cmp_ngt_f64, float64!(11)),
    (op::v_cmp_nle_f64, float64!(12)),
    (op::v_cmp_neq_f64, float64!(13)),
    (op::v_cmp_nlt_f64, float64!(14)),
    (op::v_cmp_t_f64, float64!(15)),
    (op::v_cmp_lt_i16, Run::Compare32(mask_of!(|a, b| small::s(a) < small::s(b)))),
    (op::v_cmp_eq_i16, Run::Compare32(mask_of!(|a, b| small::s(a) == small::s(b)))),
    (op::v_cmp_le_i16, Run::Compare32(mask_of!(|a, b| small::s(a) <= small::s(b)))),
    (op::v_cmp_gt_i16, Run::Compare32(mask_of!(|a, b| small::s(a) > small::s(b)))),
    (op::v_cmp_ne_i16, Run::Compare32(mask_of!(|a, b| small::s(a) != small::s(b)))),
    (op::v_cmp_ge_i16, Run::Compare32(mask_of!(|a, b| small::s(a) >= small::s(b)))),
    (op::v_cmp_lt_u16, Run::Compare32(mask_of!(|a, b| small::u(a) < small::u(b)))),
    (op::v_cmp_eq_u16, Run::Compare32(mask_of!(|a, b| small::u(a) == small::u(b)))),
    (op::v_cmp_le_u16, Run::Compare32(mask_of!(|a, b| small::u(a) <= small::u(b)))),
    (op::v_cmp_gt_u16, Run::Compare32(mask_of!(|a, b| small::u(a) > small::u(b)))),
    (op::v_cmp_ne_u16, Run::Compare32(mask_of!(|a, b| small::u(a) != small::u(b)))),
    (op::v_cmp_ge_u16, Run::Compare32(mask_of!(|a, b| small::u(a) >= small::u(b)))),
    (op::v_cmp_f_i32, Run::Compare32(mask_of!(|_a, _b| false))),
    (op::v_cmp_lt_i32, Run::Compare32(mask_of!(|a, b| a.cast_signed() < b.cast_signed()))),
    (op::v_cmp_eq_i32, Run::Compare32(mask_of!(|a, b| a.cast_signed() == b.cast_signed()))),
    (op::v_cmp_le_i32, Run::Compare32(mask_of!(|a, b| a.cast_signed() <= b.cast_signed()))),
    (op::v_cmp_gt_i32, Run::Compare32(mask_of!(|a, b| a.cast_signed() > b.cast_signed()))),
    (op::v_cmp_ne_i32, Run::Compare32(mask_of!(|a, b| a.cast_signed() != b.cast_signed()))),
    (op::v_cmp_ge_i32, Run::Compare32(mask_of!(|a, b| a.cast_signed() >= b.cast_signed()))),
    (op::v_cmp_t_i32, Run::Compare32(mask_of!(|_a, _b| true))),
    (op::v_cmp_f_u32, Run::Compare32(mask_of!(|_a, _b| false))),
    (op::v_cmp_lt_u32, Run::Compare32(mask_of!(|a, b| a < b))),
    (op::v_cmp_eq_u32, Run::Compare32(mask_of!(|a, b| a == b))),
    (op::v_cmp_le_u32, Run::Compare32(mask_of!(|a, b| a <= b))),
    (op::v_cmp_gt_u32, Run::Compare32(mask_of!(|a, b| a > b))),
    (op::v_cmp_ne_u32, Run::Compare32(mask_of!(|a, b| a != b))),
    (op::v_cmp_ge_u32, Run::Compare32(mask_of!(|a, b| a >= b))),
    (op::v_cmp_t_u32, Run::Compare32(mask_of!(|_a, _b| true))),
    (op::v_cmp_f_i64, Run::Compare64(mask_of!(|_a, _b| false))),
    (op::v_cmp_lt_i64, Run::Compare64(mask_of!(|a, b| a.cast_signed() < b.cast_signed()))),
    (op::v_cmp_eq_i64, Run::Compare64(mask_of!(|a, b| a.cast_signed() == b.cast_signed()))),
    (op::v_cmp_le_i64, Run::Compare64(mask_of!(|a, b| a.cast_signed() <= b.cast_signed()))),
    (op::v_cmp_gt_i64, Run::Compare64(mask_of!(|a, b| a.cast_signed() > b.cast_signed()))),
    (op::v_cmp_ne_i64, Run::Compare64(mask_of!(|a, b| a.cast_signed() != b.cast_signed()))),
    (op::v_cmp_ge_i64, Run::Compare64(mask_of!(|a, b| a.cast_signed() >= b.cast_signed()))),
    (op::v_cmp_t_i64, Run::Compare64(mask_of!(|_a, _b| true))),
    (op::v_cmp_f_u64, Run::Compare64(mask_of!(|_a, _b| false))),
    (op::v_cmp_lt_u64, Run::Compare64(mask_of!(|a, b| a < b))),
    (op::v_cmp_eq_u64, Run::Compare64(mask_of!(|a, b| a == b))),
    (op::v_cmp_le_u64, Run::Compare64(mask_of!(|a, b| a <= b))),
    (op::v_cmp_gt_u64, Run::Compare64(mask_of!(|a, b| a > b))),
    (op::v_cmp_ne_u64, Run::Compare64(mask_of!(|a, b| a != b))),
    (op::v_cmp_ge_u64, Run::Compare64(mask_of!(|a, b| a >= b))),
    (op::v_cmp_t_u64, Run::Compare64(mask_of!(|_a, _b| true))),
    (op::v_cmp_class_f16, CLASS_F16),
    (op::v_cmp_class_f32, CLASS_F32),
    (op::v_cmp_class_f64, CLASS_F64),
    (op::v_cmpx_f_f16, float16!(0)),
    (op::v_cmpx_lt_f16, float16!(1)),
    (op::v_cmpx_eq_f16, float16!(2)),
    (op::v_cmpx_le_f16, float16!(3)),
    (op::v_cmpx_gt_f16, float16!(4)),
    (op::v_cmpx_lg_f16, float16!(5)),
    (op::v_cmpx_ge_f16, float16!(6)),
    (op::v_cmpx_o_f16, float16!(7)),
    (op::v_cmpx_u_f16, float16!(8)),
    (op::v_cmpx_nge_f16, float16!(9)),
    (op::v_cmpx_nlg_f16, float16!(10)),
    (op::v_cmpx_ngt_f16, float16!(11)),
    (op::v_cmpx_nle_f16, float16!(12)),
    (op::v_cmpx_neq_f16, float16!(13)),
    (op::v_cmpx_nlt_f16, float16!(14)),
    (op::v_cmpx_t_f16, float16!(15)),
    (op::v_cmpx_f_f32, float32!(0)),
    (op::v_cmpx_lt_f32, float32!(1)),
    (op::v_cmpx_eq_f32, float32!(2)),
    (op::v_cmpx_le_f32, float32!(3)),
    (op::v_cmpx_gt_f32, float32!(4)),
    (op::v_cmpx_lg_f32, float32!(5)),
    (op::v_cmpx_ge_f32, float32!(6)),
    (op::v_cmpx_o_f32, float32!(7)),
    (op::v_cmpx_u_f32, float32!(8)),
    (op::v_cmpx_nge_f32, float32!(9)),
    (op::v_cmpx_nlg_f32, float32!(10)),
    (op::v_cmpx_ngt_f32, float32!(11)),
    (op::v_cmpx_nle_f32, float32!(12)),
    (op::v_cmpx_neq_f32, float32!(13)),
    (op::v_cmpx_nlt_f32, float32!(14)),
    (op::v_cmpx_t_f32, float32!(15)),
    (op::v_cmpx_f_f64, float64!(0)),
    (op::v_cmpx_lt_f64, float64!(1)),
    (op::v_cmpx_eq_f64, float64!(2)),
    (op::v_cmpx_le_f64, float64!(3)),
    (op::v_cmpx_gt_f64, float64!(4)),
    (op::v_cmpx_lg_f64, float64!(5)),
    (op::v_cmpx_ge_f64, float64!(6)),
    (op::v_cmpx_o_f64, float64!(7)),
    (op::v_cmpx_u_f64, float64!(8)),
    (op::v_cmpx_nge_f64, float64!(9)),
    (op::v_cmpx_nlg_f64, float64!(10)),
    (op::v_cmpx_ngt_f64, float64!(11)),
    (op::v_cmpx_nle_f64, float64!(12)),
    (op::v_cmpx_neq_f64, float64!(13)),
    (op::v_cmpx_nlt_f64, float64!(14)),
    (op::v_cmpx_t_f64, float64!(15)),
    (op::v_cmpx_lt_i16, Run::Compare32(mask_of!(|a, b| small::s(a) < small::s(b)))),
    (op::v_cmpx_eq_i16, Run::Compare32(mask_of!(|a, b| small::s(a) == small::s(b)))),
    (op::v_cmpx_le_i16, Run::Compare32(mask_of!(|a, b| small::s(a) <= small::s(b)))),
    (op::v_cmpx_gt_i16, Run::Compare32(mask_of!(|a, b| small::s(a) > small::s(b)))),
    (op::v_cmpx_ne_i16, Run::Compare32(mask_of!(|a, b| small::s(a) != small::s(b)))),
    (op::v_cmpx_ge_i16, Run::Compare32(mask_of!(|a, b| small::s(a) >= small::s(b)))),
    (op::v_cmpx_lt_u16, Run::Compare32(mask_of!(|a, b| small::u(a) < small::u(b)))),
    (op::v_cmpx_eq_u16, Run::Compare32(mask_of!(|a, b| small::u(a) == small::u(b)))),
    (op::v_cmpx_le_u16, Run::Compare32(mask_of!(|a, b| small::u(a) <= small::u(b)))),
    (op::v_cmpx_gt_u16, Run::Compare32(mask_of!(|a, b| small::u(a) > small::u(b)))),
    (op::v_cmpx_ne_u16, Run::Compare32(mask_of!(|a, b| small::u(a) != small::u(b)))),
    (op::v_cmpx_ge_u16, Run::Compare32(mask_of!(|a, b| small::u(a) >= small::u(b)))),
    (op::v_cmpx_f_i32, Run::Compare32(mask_of!(|_a, _b| false))),
    (op::v_cmpx_lt_i32, Run::Compare32(mask_of!(|a, b| a.cast_signed() < b.cast_signed()))),
    (op::v_cmpx_eq_i32, Run::Compare32(mask_of!(|a, b| a.cast_signed() == b.cast_signed()))),
    (op::v_cmpx_le_i32, Run::Compare32(mask_of!(|a, b| a.cast_signed() <= b.cast_signed()))),
    (op::v_cmpx_gt_i32, Run::Compare32(mask_of!(|a, b| a.cast_signed() > b.cast_signed()))),
    (op::v_cmpx_ne_i32, Run::Compare32(mask_of!(|a, b| a.cast_signed() != b.cast_signed()))),
    (op::v_cmpx_ge_i32, Run::Compare32(mask_of!(|a, b| a.cast_signed() >= b.cast_signed()))),
    (op::v_cmpx_t_i32, Run::Compare32(mask_of!(|_a, _b| true))),
    (op::v_cmpx_f_u32, Run::Compare32(mask_of!(|_a, _b| false))),
    (op::v_cmpx_lt_u32, Run::Compare32(mask_of!(|a, b| a < b))),
    (op::v_cmpx_eq_u32, Run::Compare32(mask_of!(|a, b| a == b))),
    (op::v_cmpx_le_u32, Run::Compare32(mask_of!(|a, b| a <= b))),
    (op::v_cmpx_gt_u32, Run::Compare32(mask_of!(|a, b| a > b))),
    (op::v_cmpx_ne_u32, Run::Compare32(mask_of!(|a, b| a != b))),
    (op::v_cmpx_ge_u32, Run::Compare32(mask_of!(|a, b| a >= b))),
    (op::v_cmpx_t_u32, Run::Compare32(mask_of!(|_a, _b| true))),
    (op::v_cmpx_f_i64, Run::Compare64(mask_of!(|_a, _b| false))),
    (op::v_cmpx_lt_i64, Run::Compare64(mask_of!(|a, b| a.cast_signed() < b.cast_signed()))),
    (op::v_cmpx_eq_i64, Run::Compare64(mask_of!(|a, b| a.cast_signed() == b.cast_signed()))),
    (op::v_cmpx_le_i64, Run::Compare64(mask_of!(|a, b| a.cast_signed() <= b.cast_signed()))),
    (op::v_cmpx_gt_i64, Run::Compare64(mask_of!(|a, b| a.cast_signed() > b.cast_signed()))),
    (op::v_cmpx_ne_i64, Run::Compare64(mask_of!(|a, b| a.cast_signed() != b.cast_signed()))),
    (op::v_cmpx_ge_i64, Run::Compare64(mask_of!(|a, b| a.cast_signed() >= b.cast_signed()))),
    (op::v_cmpx_t_i64, Run::Compare64(mask_of!(|_a, _b| true))),
    (op::v_cmpx_f_u64, Run::Compare64(mask_of!(|_a, _b| false))),
    (op::v_cmpx_lt_u64, Run::Compare64(mask_of!(|a, b| a < b))),
    (op::v_cmpx_eq_u64, Run::Compare64(mask_of!(|a, b| a == b))),
    (op::v_cmpx_le_u64, Run::Compare64(mask_of!(|a, b| a <= b))),
    (op::v_cmpx_gt_u64, Run::Compare64(mask_of!(|a, b| a > b))),
    (op::v_cmpx_ne_u64, Run::Compare64(mask_of!(|a, b| a != b))),
    (op::v_cmpx_ge_u64, Run::Compare64(mask_of!(|a, b| a >= b))),
    (op::v_cmpx_t_u64, Run::Compare64(mask_of!(|_a, _b| true))),
    (op::v_cmpx_class_f16, CLASS_F16),
    (op::v_cmpx_class_f32, CLASS_F32),
    (op::v_cmpx_class_f64, CLASS_F64),
];
