//! Reciprocals, roots, exponentials, logarithms and circular functions, correctly rounded, with an optional error.
//!
//! The hardware is allowed an error of one last place and its bits are not known, so results are the nearest ones,
//! moved by `Env::perturb` places. Denormal results of rcp and exp and denormal inputs of log, rcp and rsq count as
//! zero. Not here: division steps.

use doorbell_isa::{Op, op};

use super::super::env::Env;
use super::super::float::{F16, f16_to_f32, flush32};
use super::super::handler::Run;
use super::super::mode::Round;
use super::arithmetic::f;
use super::lane_loops::{per_lane, wide};

/// Moves a finite, nonzero single by some last places.
fn perturbed(bits: u32, env: &Env) -> u32 {
    let value = f(bits);
    if env.perturb == 0 || !value.is_normal() {
        return bits;
    }
    let moved = bits.wrapping_add_signed(env.perturb);
    if f(moved).is_normal() { moved } else { bits }
}

fn perturbed16(bits: u32, env: &Env) -> u32 {
    let normal = |bits: u32| bits & 0x7c00 != 0 && bits & 0x7c00 != 0x7c00;
    let moved = bits.wrapping_add_signed(env.perturb);
    if env.perturb != 0 && normal(bits) && normal(moved) { moved } else { bits }
}

pub(crate) fn rcp(x: f64) -> f64 {
    1.0 / x
}

pub(crate) fn rsq(x: f64) -> f64 {
    if x == 0.0 { f64::NEG_INFINITY.copysign(x) } else { 1.0 / libm::sqrt(x) }
}

/// The reciprocal root of a double, rounded once: root and quotient carry what they lack as a second double.
fn rsq64(x: f64) -> f64 {
    if x <= 0.0 || !x.is_finite() {
        return rsq(x);
    }
    // An even power of two keeps the residues of small numbers normal.
    let (x, scale) = if x < 1e-200 { (x * POWER_400, POWER_200) } else { (x, 1.0) };
    let root = libm::sqrt(x);
    let rest = libm::fma(-root, root, x) / (2.0 * root);
    let first = 1.0 / root;
    let lacking = libm::fma(-first, root, 1.0) - first * rest;
    (first + first * lacking) * scale
}

const POWER_200: f64 = 1_606_938_044_258_990_275_541_962_092_341_162_602_522_202_993_782_792_835_301_376.0;
const POWER_400: f64 = POWER_200 * POWER_200;

/// Base-2 logarithm; the logarithm of either zero is minus infinity.
pub(crate) fn log(x: f64) -> f64 {
    libm::log2(x)
}

/// Sine of `x` revolutions.
fn sin(x: f64) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    let turn = x - libm::trunc(x);
    if turn == 0.0 || turn.abs() == 0.5 {
        0.0f64.copysign(x)
    } else {
        libm::sin(turn * core::f64::consts::TAU)
    }
}

/// Cosine of `x` revolutions.
fn cos(x: f64) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    let turn = (x - libm::trunc(x)).abs();
    if turn == 0.25 || turn == 0.75 { 0.0 } else { libm::cos(turn * core::f64::consts::TAU) }
}

/// Sides of an instruction that treat denormals as zero.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    Neither,
    Input,
    Output,
    Both,
}

fn single(bits: u32, env: &Env, flush: Flush, function: fn(f64) -> f64) -> u32 {
    let input = if matches!(flush, Flush::Input | Flush::Both) { flush32(bits) } else { bits };
    let exact = (function(f64::from(f(input))) as f32).to_bits();
    let result = if matches!(flush, Flush::Output | Flush::Both) { flush32(exact) } else { exact };
    perturbed(result, env)
}

fn half(bits: u32, env: &Env, function: fn(f64) -> f64) -> u32 {
    perturbed16(F16.encode(function(f64::from(f16_to_f32(bits))), Round::Nearest), env)
}

macro_rules! single {
    ($flush:ident, $function:expr) => {
        Run::Op32(per_lane!(|e, a| single(a, e, Flush::$flush, $function)))
    };
}
macro_rules! half {
    ($function:expr) => {
        Run::Op32(per_lane!(|e, a| half(a, e, $function)))
    };
}
macro_rules! double {
    ($function:expr) => {
        Run::Op64(wide!(|_e, s| $function(f64::from_bits(s[0])).to_bits()))
    };
}

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::v_exp_f32, single!(Output, libm::exp2)),
    (op::v_log_f32, single!(Input, log)),
    (op::v_rcp_f32, single!(Both, rcp)),
    (op::v_rcp_iflag_f32, single!(Both, rcp)),
    (op::v_rsq_f32, single!(Input, rsq)),
    (op::v_sqrt_f32, single!(Neither, libm::sqrt)),
    (op::v_sin_f32, single!(Neither, sin)),
    (op::v_cos_f32, single!(Neither, cos)),
    (op::v_s_exp_f32, single!(Output, libm::exp2)),
    (op::v_s_log_f32, single!(Input, log)),
    (op::v_s_rcp_f32, single!(Both, rcp)),
    (op::v_s_rsq_f32, single!(Input, rsq)),
    (op::v_s_sqrt_f32, single!(Neither, libm::sqrt)),
    (op::v_exp_f16, half!(libm::exp2)),
    (op::v_log_f16, half!(log)),
    (op::v_rcp_f16, half!(rcp)),
    (op::v_rsq_f16, half!(rsq)),
    (op::v_sqrt_f16, half!(libm::sqrt)),
    (op::v_sin_f16, half!(sin)),
    (op::v_cos_f16, half!(cos)),
    (op::v_s_exp_f16, half!(libm::exp2)),
    (op::v_s_log_f16, half!(log)),
    (op::v_s_rcp_f16, half!(rcp)),
    (op::v_s_rsq_f16, half!(rsq)),
    (op::v_s_sqrt_f16, half!(libm::sqrt)),
    (op::v_rcp_f64, double!(rcp)),
    (op::v_rsq_f64, double!(rsq64)),
    (op::v_sqrt_f64, double!(libm::sqrt)),
];
