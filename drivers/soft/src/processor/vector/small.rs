//! 16-bit integers, one per register.
//!
//! Not here: packed pairs (`packed.rs`).

use doorbell_isa::{Op, op};

use super::super::handler::{Op32, Run};
use super::lane_loops::per_lane;

#[inline]
pub(super) fn u(bits: u32) -> u16 {
    bits as u16
}

#[inline]
pub(super) fn s(bits: u32) -> i16 {
    (bits as u16).cast_signed()
}

fn wide_s(value: i16) -> u32 {
    u32::from(value.cast_unsigned())
}

fn med3<T: Ord>(a: T, b: T, c: T) -> T {
    let mut sorted = [a, b, c];
    sorted.sort_unstable();
    let [_, middle, _] = sorted;
    middle
}

fn mad_u16(a: u32, b: u32, c: u32, clamp: bool) -> u32 {
    let exact = u64::from(u(a)) * u64::from(u(b)) + u64::from(u(c));
    if clamp { exact.min(0xffff) as u32 } else { exact as u32 & 0xffff }
}

fn mad_i16(a: u32, b: u32, c: u32, clamp: bool) -> u32 {
    let exact = i64::from(s(a)) * i64::from(s(b)) + i64::from(s(c));
    let kept = if clamp { exact.clamp(i16::MIN.into(), i16::MAX.into()) } else { exact };
    wide_s(kept as i16)
}

fn mad_u32_u16(a: u32, b: u32, c: u32, clamp: bool) -> u32 {
    let product = u32::from(u(a)) * u32::from(u(b));
    if clamp { product.saturating_add(c) } else { product.wrapping_add(c) }
}

fn mad_i32_i16(a: u32, b: u32, c: u32, clamp: bool) -> u32 {
    let product = i32::from(s(a)) * i32::from(s(b));
    let c = c.cast_signed();
    if clamp { product.saturating_add(c).cast_unsigned() } else { product.wrapping_add(c).cast_unsigned() }
}

pub(super) const ADD_U: Op32 = per_lane!(|e, a, b| {
    if e.clamp { u(a).saturating_add(u(b)).into() } else { u(a).wrapping_add(u(b)).into() }
});
pub(super) const SUB_U: Op32 = per_lane!(|e, a, b| {
    if e.clamp { u(a).saturating_sub(u(b)).into() } else { u(a).wrapping_sub(u(b)).into() }
});
pub(super) const ADD_I: Op32 = per_lane!(|e, a, b| {
    wide_s(if e.clamp { s(a).saturating_add(s(b)) } else { s(a).wrapping_add(s(b)) })
});
pub(super) const SUB_I: Op32 = per_lane!(|e, a, b| {
    wide_s(if e.clamp { s(a).saturating_sub(s(b)) } else { s(a).wrapping_sub(s(b)) })
});
pub(super) const MUL_LO: Op32 = per_lane!(|_e, a, b| u(a).wrapping_mul(u(b)).into());
pub(super) const MIN_U: Op32 = per_lane!(|_e, a, b| u(a).min(u(b)).into());
pub(super) const MAX_U: Op32 = per_lane!(|_e, a, b| u(a).max(u(b)).into());
pub(super) const MIN_I: Op32 = per_lane!(|_e, a, b| wide_s(s(a).min(s(b))));
pub(super) const MAX_I: Op32 = per_lane!(|_e, a, b| wide_s(s(a).max(s(b))));
pub(super) const LSHLREV: Op32 = per_lane!(|_e, a, b| u32::from(u(b) << (a & 15)));
pub(super) const LSHRREV: Op32 = per_lane!(|_e, a, b| u32::from(u(b) >> (a & 15)));
pub(super) const ASHRREV: Op32 = per_lane!(|_e, a, b| wide_s(s(b) >> (a & 15)));
pub(super) const MAD_U: Op32 = per_lane!(|e, a, b, c| mad_u16(a, b, c, e.clamp));
pub(super) const MAD_I: Op32 = per_lane!(|e, a, b, c| mad_i16(a, b, c, e.clamp));

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::v_add_nc_u16, Run::Op32(ADD_U)),
    (op::v_sub_nc_u16, Run::Op32(SUB_U)),
    (op::v_add_nc_i16, Run::Op32(ADD_I)),
    (op::v_sub_nc_i16, Run::Op32(SUB_I)),
    (op::v_mul_lo_u16, Run::Op32(MUL_LO)),
    (op::v_min_u16, Run::Op32(MIN_U)),
    (op::v_max_u16, Run::Op32(MAX_U)),
    (op::v_min_i16, Run::Op32(MIN_I)),
    (op::v_max_i16, Run::Op32(MAX_I)),
    (op::v_lshlrev_b16, Run::Op32(LSHLREV)),
    (op::v_lshrrev_b16, Run::Op32(LSHRREV)),
    (op::v_ashrrev_i16, Run::Op32(ASHRREV)),
    (op::v_mad_u16, Run::Op32(MAD_U)),
    (op::v_mad_i16, Run::Op32(MAD_I)),
    (op::v_mad_u32_u16, Run::Op32(per_lane!(|e, a, b, c| mad_u32_u16(a, b, c, e.clamp)))),
    (op::v_mad_i32_i16, Run::Op32(per_lane!(|e, a, b, c| mad_i32_i16(a, b, c, e.clamp)))),
    (op::v_min3_i16, Run::Op32(per_lane!(|_e, a, b, c| wide_s(s(a).min(s(b)).min(s(c)))))),
    (op::v_max3_i16, Run::Op32(per_lane!(|_e, a, b, c| wide_s(s(a).max(s(b)).max(s(c)))))),
    (op::v_min3_u16, Run::Op32(per_lane!(|_e, a, b, c| u(a).min(u(b)).min(u(c)).into()))),
    (op::v_max3_u16, Run::Op32(per_lane!(|_e, a, b, c| u(a).max(u(b)).max(u(c)).into()))),
    (op::v_med3_i16, Run::Op32(per_lane!(|_e, a, b, c| wide_s(med3(s(a), s(b), s(c)))))),
    (op::v_med3_u16, Run::Op32(per_lane!(|_e, a, b, c| med3(u(a), u(b), u(c)).into()))),
    (op::v_not_b16, Run::Op32(per_lane!(|_e, a| !a & 0xffff))),
    (op::v_and_b16, Run::Op32(per_lane!(|_e, a, b| a & b & 0xffff))),
    (op::v_or_b16, Run::Op32(per_lane!(|_e, a, b| (a | b) & 0xffff))),
    (op::v_xor_b16, Run::Op32(per_lane!(|_e, a, b| (a ^ b) & 0xffff))),
];
