//! Minima, maxima and medians of floats, with the NaN rules of either generation.
//!
//! Not here: integer minima (`integer.rs`).

use doorbell_isa::{Op, op};

use super::super::float::{F16, f16_to_f32};
use super::super::handler::Run;
use super::super::mode::{Mode, Round};
use super::super::number::{Real, legacy, number, propagating};
use super::arithmetic::f;
use super::lane_loops::{per_lane, wide};

/// Rules for NaN and zero.
#[derive(Clone, Copy)]
enum Rule {
    Legacy,
    Number,
    Propagating,
}

fn pick<T: Real>(rule: Rule, a: T, b: T, max: bool, mode: Mode) -> T {
    match rule {
        Rule::Legacy => legacy(a, b, max, mode),
        Rule::Number => number(a, b, max),
        Rule::Propagating => propagating(a, b, max),
    }
}

/// First combined with second by `inner`, then with the third by `outer` (true: maximum).
fn chain<T: Real>(rule: Rule, s: [T; 3], inner: bool, outer: bool, mode: Mode) -> T {
    pick(rule, pick(rule, s[0], s[1], inner, mode), s[2], outer, mode)
}

fn median<T: Real>(rule: Rule, s: [T; 3], mode: Mode) -> T {
    if s.iter().any(|value| value.nan()) {
        return chain(rule, s, false, false, mode);
    }
    let most = chain(rule, s, true, true, mode);
    if most == s[0] {
        pick(rule, s[1], s[2], true, mode)
    } else if most == s[1] {
        pick(rule, s[0], s[2], true, mode)
    } else {
        pick(rule, s[0], s[1], true, mode)
    }
}

fn h(bits: u32) -> f32 {
    f16_to_f32(bits)
}

/// Exact: the value was a half.
fn to_half(value: f32) -> u32 {
    F16.encode(f64::from(value), Round::Nearest)
}

macro_rules! two32 {
    ($rule:ident, $max:literal) => {
        Run::Op32(per_lane!(|e, a, b| pick(Rule::$rule, f(a), f(b), $max, e.mode).to_bits()))
    };
}
macro_rules! two16 {
    ($rule:ident, $max:literal) => {
        per_lane!(|e, a, b| to_half(pick(Rule::$rule, h(a), h(b), $max, e.mode)))
    };
}
macro_rules! two64 {
    ($rule:ident, $max:literal) => {
        Run::Op64(wide!(|e, s| {
            let [a, b, _] = s.map(f64::from_bits);
            pick(Rule::$rule, a, b, $max, e.mode).to_bits()
        }))
    };
}
macro_rules! three32 {
    ($rule:ident, $inner:literal, $outer:literal) => {
        Run::Op32(per_lane!(|e, a, b, c| {
            chain(Rule::$rule, [f(a), f(b), f(c)], $inner, $outer, e.mode).to_bits()
        }))
    };
}
macro_rules! three16 {
    ($rule:ident, $inner:literal, $outer:literal) => {
        Run::Op32(per_lane!(|e, a, b, c| {
            to_half(chain(Rule::$rule, [h(a), h(b), h(c)], $inner, $outer, e.mode))
        }))
    };
}
macro_rules! median32 {
    ($rule:ident) => {
        Run::Op32(per_lane!(|e, a, b, c| median(Rule::$rule, [f(a), f(b), f(c)], e.mode).to_bits()))
    };
}
macro_rules! median16 {
    ($rule:ident) => {
        Run::Op32(per_lane!(|e, a, b, c| to_half(median(Rule::$rule, [h(a), h(b), h(c)], e.mode))))
    };
}

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::v_min_f32, two32!(Legacy, false)),
    (op::v_max_f32, two32!(Legacy, true)),
    (op::v_dual_min_f32, two32!(Legacy, false)),
    (op::v_dual_max_f32, two32!(Legacy, true)),
    (op::v_min_num_f32, two32!(Number, false)),
    (op::v_max_num_f32, two32!(Number, true)),
    (op::v_dual_min_num_f32, two32!(Number, false)),
    (op::v_dual_max_num_f32, two32!(Number, true)),
    (op::v_minimum_f32, two32!(Propagating, false)),
    (op::v_maximum_f32, two32!(Propagating, true)),
    (op::v_min_f16, Run::Op32(two16!(Legacy, false))),
    (op::v_max_f16, Run::Op32(two16!(Legacy, true))),
    (op::v_min_num_f16, Run::Op32(two16!(Number, false))),
    (op::v_max_num_f16, Run::Op32(two16!(Number, true))),
    (op::v_minimum_f16, Run::Op32(two16!(Propagating, false))),
    (op::v_maximum_f16, Run::Op32(two16!(Propagating, true))),
    (op::v_pk_min_f16, Run::Packed(two16!(Legacy, false))),
    (op::v_pk_max_f16, Run::Packed(two16!(Legacy, true))),
    (op::v_pk_min_num_f16, Run::Packed(two16!(Number, false))),
    (op::v_pk_max_num_f16, Run::Packed(two16!(Number, true))),
    (op::v_pk_minimum_f16, Run::Packed(two16!(Propagating, false))),
    (op::v_pk_maximum_f16, Run::Packed(two16!(Propagating, true))),
    (op::v_min_f64, two64!(Legacy, false)),
    (op::v_max_f64, two64!(Legacy, true)),
    (op::v_min_num_f64, two64!(Number, false)),
    (op::v_max_num_f64, two64!(Number, true)),
    (op::v_minimum_f64, two64!(Propagating, false)),
    (op::v_maximum_f64, two64!(Propagating, true)),
    (op::v_min3_f32, three32!(Legacy, false, false)),
    (op::v_max3_f32, three32!(Legacy, true, true)),
    (op::v_minmax_f32, three32!(Legacy, false, true)),
    (op::v_maxmin_f32, three32!(Legacy, true, false)),
    (op::v_med3_f32, median32!(Legacy)),
    (op::v_min3_num_f32, three32!(Number, false, false)),
    (op::v_max3_num_f32, three32!(Number, true, true)),
    (op::v_minmax_num_f32, three32!(Number, false, true)),
    (op::v_maxmin_num_f32, three32!(Number, true, false)),
    (op::v_med3_num_f32, median32!(Number)),
    (op::v_minimum3_f32, three32!(Propagating, false, false)),
    (op::v_maximum3_f32, three32!(Propagating, true, true)),
    (op::v_minimummaximum_f32, three32!(Propagating, false, true)),
    (op::v_maximumminimum_f32, three32!(Propagating, true, false)),
    (op::v_min3_f16, three16!(Legacy, false, false)),
    (op::v_max3_f16, three16!(Legacy, true, true)),
    (op::v_minmax_f16, three16!(Legacy, false, true)),
    (op::v_maxmin_f16, three16!(Legacy, true, false)),
    (op::v_med3_f16, median16!(Legacy)),
    (op::v_min3_num_f16, three16!(Number, false, false)),
    (op::v_max3_num_f16, three16!(Number, true, true)),
    (op::v_minmax_num_f16, three16!(Number, false, true)),
    (op::v_maxmin_num_f16, three16!(Number, true, false)),
    (op::v_med3_num_f16, median16!(Number)),
    (op::v_minimum3_f16, three16!(Propagating, false, false)),
    (op::v_maximum3_f16, three16!(Propagating, true, true)),
    (op::v_minimummaximum_f16, three16!(Propagating, false, true)),
    (op::v_maximumminimum_f16, three16!(Propagating, true, false)),
];
