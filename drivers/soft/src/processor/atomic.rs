//! The functions of atomic instructions.
//!
//! Not here: their addresses and widths.

use super::float::{BF16, F16, Format, add32, add64};
use super::mode::Round;
use super::number::number;

/// New memory value from the old one, the operand, and the comparand.
pub(crate) type Alu = fn(u64, u64, u64) -> u64;

fn i(value: u64) -> i32 {
    (value as u32).cast_signed()
}

fn l(value: u64) -> i64 {
    value.cast_signed()
}

fn f(value: u64) -> f32 {
    f32::from_bits(value as u32)
}

fn d(value: u64) -> f64 {
    f64::from_bits(value)
}

fn cut(value: u64) -> u64 {
    value & 0xffff_ffff
}

fn pick(choose: bool, yes: u64, no: u64) -> u64 {
    if choose { yes } else { no }
}

/// minimumNumber / maximumNumber of memory and operand, in the order the memory unit uses.
fn number32(old: u64, data: u64, max: bool) -> u64 {
    number(f(data), f(old), max).to_bits().into()
}

fn number64(old: u64, data: u64, max: bool) -> u64 {
    number(d(data), d(old), max).to_bits()
}

fn packed(old: u64, data: u64, format: Format) -> u64 {
    let sum = |shift: u32| {
        let [a, b] = [old, data].map(|value| format.decode((value >> shift) as u32 & 0xffff));
        u64::from(format.encode(a + b, Round::Nearest)) << shift
    };
    sum(0) | sum(16)
}

/// Name without prefix and `_rtn`, bytes, function.
pub(super) static ATOMICS: &[(&str, u8, Alu)] = &[
    ("swap_b32", 4, |_, data, _| data),
    ("storexchg_b32", 4, |_, data, _| data),
    ("cmpswap_b32", 4, |old, data, compare| pick(old == compare, data, old)),
    ("cmpstore_b32", 4, |old, data, compare| pick(old == compare, data, old)),
    ("cmpswap_f32", 4, |old, data, compare| pick(f(old) == f(compare), data, old)),
    ("cmpstore_f32", 4, |old, data, compare| pick(f(old) == f(compare), data, old)),
    ("add_u32", 4, |old, data, _| cut(old.wrapping_add(data))),
    ("sub_u32", 4, |old, data, _| cut(old.wrapping_sub(data))),
    ("rsub_u32", 4, |old, data, _| cut(data.wrapping_sub(old))),
    ("min_i32", 4, |old, data, _| pick(i(data) < i(old), data, old)),
    ("max_i32", 4, |old, data, _| pick(i(data) > i(old), data, old)),
    ("min_u32", 4, |old, data, _| old.min(data)),
    ("max_u32", 4, |old, data, _| old.max(data)),
    ("and_b32", 4, |old, data, _| old & data),
    ("or_b32", 4, |old, data, _| old | data),
    ("xor_b32", 4, |old, data, _| old ^ data),
    ("mskor_b32", 4, |old, data, second| cut(old & !data | second)),
    ("inc_u32", 4, |old, data, _| pick(old >= data, 0, old.wrapping_add(1))),
    ("dec_u32", 4, |old, data, _| pick(old == 0 || old > data, data, old.wrapping_sub(1))),
    ("sub_clamp_u32", 4, |old, data, _| old.saturating_sub(data)),
    ("cond_sub_u32", 4, |old, data, _| pick(old >= data, old.wrapping_sub(data), old)),
    ("add_f32", 4, |old, data, _| add32(f(old), f(data), Round::Nearest).to_bits().into()),
    ("min_f32", 4, |old, data, _| pick(f(data) < f(old), data, old)),
    ("max_f32", 4, |old, data, _| pick(f(data) > f(old), data, old)),
    ("min_num_f32", 4, |old, data, _| number32(old, data, false)),
    ("max_num_f32", 4, |old, data, _| number32(old, data, true)),
    ("pk_add_f16", 4, |old, data, _| packed(old, data, F16)),
    ("pk_add_bf16", 4, |old, data, _| packed(old, data, BF16)),
    ("swap_b64", 8, |_, data, _| data),
    ("storexchg_b64", 8, |_, data, _| data),
    ("cmpswap_b64", 8, |old, data, compare| pick(old == compare, data, old)),
    ("cmpstore_b64", 8, |old, data, compare| pick(old == compare, data, old)),
    ("cmpstore_f64", 8, |old, data, compare| pick(d(old) == d(compare), data, old)),
    ("add_u64", 8, |old, data, _| old.wrapping_add(data)),
    ("sub_u64", 8, |old, data, _| old.wrapping_sub(data)),
    ("rsub_u64", 8, |old, data, _| data.wrapping_sub(old)),
    ("min_i64", 8, |old, data, _| pick(l(data) < l(old), data, old)),
    ("max_i64", 8, |old, data, _| pick(l(data) > l(old), data, old)),
    ("min_u64", 8, |old, data, _| old.min(data)),
    ("max_u64", 8, |old, data, _| old.max(data)),
    ("and_b64", 8, |old, data, _| old & data),
    ("or_b64", 8, |old, data, _| old | data),
    ("xor_b64", 8, |old, data, _| old ^ data),
    ("mskor_b64", 8, |old, data, second| old & !data | second),
    ("inc_u64", 8, |old, data, _| pick(old >= data, 0, old.wrapping_add(1))),
    ("dec_u64", 8, |old, data, _| pick(old == 0 || old > data, data, old.wrapping_sub(1))),
    ("add_f64", 8, |old, data, _| add64(d(old), d(data), Round::Nearest).to_bits()),
    ("min_f64", 8, |old, data, _| pick(d(data) < d(old), data, old)),
    ("max_f64", 8, |old, data, _| pick(d(data) > d(old), data, old)),
    ("min_num_f64", 8, |old, data, _| number64(old, data, false)),
    ("max_num_f64", 8, |old, data, _| number64(old, data, true)),
];
