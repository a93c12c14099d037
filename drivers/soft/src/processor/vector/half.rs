//! Half-precision sums and products, one per register.
//!
//! Not here: packed pairs (`packed.rs`), minima (`minmax.rs`), conversions, transcendentals.

use doorbell_isa::{Op, op};

use super::super::float::{F16, add16, f16_to_f32, fma16, fma32, mul16};
use super::super::handler::{Op32, Run};
use super::super::mode::Round;
use super::arithmetic::f;
use super::lane_loops::per_lane;

const SIGN: u32 = 0x8000;

/// A half scaled by a power of two that is itself given as a signed 16-bit integer.
fn ldexp16(value: u32, power: u32, round: Round) -> u32 {
    let power = i32::from((power as u16).cast_signed()).clamp(-100, 100);
    F16.encode(super::super::float::scale64(f64::from(f16_to_f32(value)), power), round)
}

pub(super) const ADD: Op32 = per_lane!(|e, a, b| add16(a, b, e.round64));
pub(super) const MUL: Op32 = per_lane!(|e, a, b| mul16(a, b, e.round64));
pub(super) const FMA: Op32 = per_lane!(|e, a, b, c| fma16(a, b, c, e.round64));
pub(super) const FMAC: Op32 = per_lane!(|e, a, b; d| fma16(a, b, *d, e.round64));
/// Fused product in single precision, then one more rounding to half.
const MIX: Run = Run::Op32(per_lane!(|e, a, b, c| {
    F16.encode(f64::from(fma32(f(a), f(b), f(c), e.round32)), e.round64)
}));

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::v_add_f16, Run::Op32(ADD)),
    (op::v_sub_f16, Run::Op32(per_lane!(|e, a, b| add16(a, b ^ SIGN, e.round64)))),
    (op::v_subrev_f16, Run::Op32(per_lane!(|e, a, b| add16(b, a ^ SIGN, e.round64)))),
    (op::v_mul_f16, Run::Op32(MUL)),
    (op::v_fma_f16, Run::Op32(FMA)),
    (op::v_fmac_f16, Run::Op32(FMAC)),
    (op::v_fmaak_f16, Run::Op32(FMA)),
    (op::v_fmamk_f16, Run::Op32(FMA)),
    (op::v_ldexp_f16, Run::Op32(per_lane!(|e, a, b| ldexp16(a, b, e.round64)))),
    (op::v_fma_mixlo_f16, MIX),
    (op::v_fma_mixhi_f16, MIX),
];
