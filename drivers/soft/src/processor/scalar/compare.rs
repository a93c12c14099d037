//! Scalar comparisons.
//!
//! Not here: branches on their result (`control.rs`).

use doorbell_isa::{Op, op};

use super::super::float::f16_to_f32;
use super::super::handler::Run;
use super::super::number::ACCEPTS;
use super::super::wave::Wave;

/// Sets SCC; comparisons have no other result.
fn set(wave: &mut Wave, condition: bool) -> u64 {
    wave.scc = condition;
    0
}

fn lo(value: u64) -> u32 {
    value as u32
}

fn i(value: u64) -> i32 {
    (value as u32).cast_signed()
}

/// The 16-bit constant of a SOPK comparison, sign-extended.
fn ki(value: u64) -> i32 {
    i32::from((value as u16).cast_signed())
}

/// The same, zero-extended.
fn ku(value: u64) -> u32 {
    u32::from(value as u16)
}

fn f(value: u64) -> f32 {
    f32::from_bits(value as u32)
}

fn h(value: u64) -> f32 {
    f16_to_f32(value as u32)
}

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::s_cmp_eq_i32, Run::Scalar(|w, [a, b, _]| set(w, i(a) == i(b)))),
    (op::s_cmp_eq_u32, Run::Scalar(|w, [a, b, _]| set(w, lo(a) == lo(b)))),
    (op::s_cmpk_eq_i32, Run::Scalar(|w, [a, b, _]| set(w, i(a) == ki(b)))),
    (op::s_cmpk_eq_u32, Run::Scalar(|w, [a, b, _]| set(w, lo(a) == ku(b)))),
    (op::s_cmp_lg_i32, Run::Scalar(|w, [a, b, _]| set(w, i(a) != i(b)))),
    (op::s_cmp_lg_u32, Run::Scalar(|w, [a, b, _]| set(w, lo(a) != lo(b)))),
    (op::s_cmpk_lg_i32, Run::Scalar(|w, [a, b, _]| set(w, i(a) != ki(b)))),
    (op::s_cmpk_lg_u32, Run::Scalar(|w, [a, b, _]| set(w, lo(a) != ku(b)))),
    (op::s_cmp_gt_i32, Run::Scalar(|w, [a, b, _]| set(w, i(a) > i(b)))),
    (op::s_cmp_gt_u32, Run::Scalar(|w, [a, b, _]| set(w, lo(a) > lo(b)))),
    (op::s_cmpk_gt_i32, Run::Scalar(|w, [a, b, _]| set(w, i(a) > ki(b)))),
    (op::s_cmpk_gt_u32, Run::Scalar(|w, [a, b, _]| set(w, lo(a) > ku(b)))),
    (op::s_cmp_ge_i32, Run::Scalar(|w, [a, b, _]| set(w, i(a) >= i(b)))),
    (op::s_cmp_ge_u32, Run::Scalar(|w, [a, b, _]| set(w, lo(a) >= lo(b)))),
    (op::s_cmpk_ge_i32, Run::Scalar(|w, [a, b, _]| set(w, i(a) >= ki(b)))),
    (op::s_cmpk_ge_u32, Run::Scalar(|w, [a, b, _]| set(w, lo(a) >= ku(b)))),
    (op::s_cmp_lt_i32, Run::Scalar(|w, [a, b, _]| set(w, i(a) < i(b)))),
    (op::s_cmp_lt_u32, Run::Scalar(|w, [a, b, _]| set(w, lo(a) < lo(b)))),
    (op::s_cmpk_lt_i32, Run::Scalar(|w, [a, b, _]| set(w, i(a) < ki(b)))),
    (op::s_cmpk_lt_u32, Run::Scalar(|w, [a, b, _]| set(w, lo(a) < ku(b)))),
    (op::s_cmp_le_i32, Run::Scalar(|w, [a, b, _]| set(w, i(a) <= i(b)))),
    (op::s_cmp_le_u32, Run::Scalar(|w, [a, b, _]| set(w, lo(a) <= lo(b)))),
    (op::s_cmpk_le_i32, Run::Scalar(|w, [a, b, _]| set(w, i(a) <= ki(b)))),
    (op::s_cmpk_le_u32, Run::Scalar(|w, [a, b, _]| set(w, lo(a) <= ku(b)))),
    (op::s_cmp_eq_u64, Run::Scalar(|w, [a, b, _]| set(w, a == b))),
    (op::s_cmp_lg_u64, Run::Scalar(|w, [a, b, _]| set(w, a != b))),
    (op::s_bitcmp0_b32, Run::Scalar(|w, [a, b, _]| set(w, a >> (b & 31) & 1 == 0))),
    (op::s_bitcmp1_b32, Run::Scalar(|w, [a, b, _]| set(w, a >> (b & 31) & 1 != 0))),
    (op::s_bitcmp0_b64, Run::Scalar(|w, [a, b, _]| set(w, a >> (b & 63) & 1 == 0))),
    (op::s_bitcmp1_b64, Run::Scalar(|w, [a, b, _]| set(w, a >> (b & 63) & 1 != 0))),
    (op::s_cmp_lt_f32, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[1](f(a).partial_cmp(&f(b)))))),
    (op::s_cmp_eq_f32, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[2](f(a).partial_cmp(&f(b)))))),
    (op::s_cmp_le_f32, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[3](f(a).partial_cmp(&f(b)))))),
    (op::s_cmp_gt_f32, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[4](f(a).partial_cmp(&f(b)))))),
    (op::s_cmp_lg_f32, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[5](f(a).partial_cmp(&f(b)))))),
    (op::s_cmp_ge_f32, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[6](f(a).partial_cmp(&f(b)))))),
    (op::s_cmp_o_f32, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[7](f(a).partial_cmp(&f(b)))))),
    (op::s_cmp_u_f32, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[8](f(a).partial_cmp(&f(b)))))),
    (op::s_cmp_nge_f32, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[9](f(a).partial_cmp(&f(b)))))),
    (op::s_cmp_nlg_f32, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[10](f(a).partial_cmp(&f(b)))))),
    (op::s_cmp_ngt_f32, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[11](f(a).partial_cmp(&f(b)))))),
    (op::s_cmp_nle_f32, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[12](f(a).partial_cmp(&f(b)))))),
    (op::s_cmp_neq_f32, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[13](f(a).partial_cmp(&f(b)))))),
    (op::s_cmp_nlt_f32, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[14](f(a).partial_cmp(&f(b)))))),
    (op::s_cmp_lt_f16, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[1](h(a).partial_cmp(&h(b)))))),
    (op::s_cmp_eq_f16, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[2](h(a).partial_cmp(&h(b)))))),
    (op::s_cmp_le_f16, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[3](h(a).partial_cmp(&h(b)))))),
    (op::s_cmp_gt_f16, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[4](h(a).partial_cmp(&h(b)))))),
    (op::s_cmp_lg_f16, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[5](h(a).partial_cmp(&h(b)))))),
    (op::s_cmp_ge_f16, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[6](h(a).partial_cmp(&h(b)))))),
    (op::s_cmp_o_f16, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[7](h(a).partial_cmp(&h(b)))))),
    (op::s_cmp_u_f16, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[8](h(a).partial_cmp(&h(b)))))),
    (op::s_cmp_nge_f16, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[9](h(a).partial_cmp(&h(b)))))),
    (op::s_cmp_nlg_f16, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[10](h(a).partial_cmp(&h(b)))))),
    (op::s_cmp_ngt_f16, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[11](h(a).partial_cmp(&h(b)))))),
    (op::s_cmp_nle_f16, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[12](h(a).partial_cmp(&h(b)))))),
    (op::s_cmp_neq_f16, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[13](h(a).partial_cmp(&h(b)))))),
    (op::s_cmp_nlt_f16, Run::Scalar(|w, [a, b, _]| set(w, ACCEPTS[14](h(a).partial_cmp(&h(b)))))),
];
