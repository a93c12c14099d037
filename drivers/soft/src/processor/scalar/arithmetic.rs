//! Scalar instructions with results in scalar registers.
//!
//! Not here: comparisons and program control (`control.rs`), scalar memory.

use doorbell_isa::{Op, op};

use super::super::float::{F16, add16, add32, f16_to_f32, f32_to_f16, fma16, fma32, mul16, mul32};
use super::super::handler::Run;
use super::super::mode::Round;
use super::super::number::{cls, clz, ctz, from_int, legacy, number, propagating, to_i32, to_u32};
use super::super::registers::EXEC;
use super::super::wave::Wave;

fn lo(value: u64) -> u32 {
    value as u32
}

fn i(value: u64) -> i32 {
    (value as u32).cast_signed()
}

fn f(value: u64) -> f32 {
    f32::from_bits(value as u32)
}

fn h(value: u64) -> f32 {
    f16_to_f32(value as u32)
}

fn bits(value: f32) -> u64 {
    value.to_bits().into()
}

/// A half; the value is exact in half precision.
fn half(value: f32) -> u64 {
    F16.encode(f64::from(value), Round::Nearest).into()
}

/// A 32-bit result that sets SCC when it is not zero.
fn flag(wave: &mut Wave, value: u32) -> u64 {
    wave.scc = value != 0;
    value.into()
}

/// The same for 64 bits.
fn flag64(wave: &mut Wave, value: u64) -> u64 {
    wave.scc = value != 0;
    value
}

/// SCC = `condition`.
fn scc(wave: &mut Wave, condition: bool, value: u64) -> u64 {
    wave.scc = condition;
    value
}

/// Replaces EXEC and returns the old one.
fn save(wave: &mut Wave, exec: u32) -> u64 {
    let old = wave.sgpr[EXEC];
    wave.sgpr[EXEC] = exec;
    wave.scc = exec != 0;
    old.into()
}

/// The 64-bit form.
fn save64(wave: &mut Wave, exec: u64) -> u64 {
    let old = wave.scalar64(EXEC);
    wave.set_scalar64(EXEC, exec);
    wave.scc = exec != 0;
    old
}

/// Replaces EXEC and returns the new one.
fn write(wave: &mut Wave, exec: u32) -> u64 {
    save(wave, exec);
    exec.into()
}

fn write64(wave: &mut Wave, exec: u64) -> u64 {
    save64(wave, exec);
    exec
}

fn exec(wave: &Wave) -> u32 {
    wave.sgpr[EXEC]
}

fn exec64(wave: &Wave) -> u64 {
    wave.scalar64(EXEC)
}

/// Signed sum with overflow in SCC.
fn add_i32(wave: &mut Wave, a: u64, b: u64) -> u64 {
    let (sum, overflow) = i(a).overflowing_add(i(b));
    scc(wave, overflow, sum.cast_unsigned().into())
}

fn sub_i32(wave: &mut Wave, a: u64, b: u64) -> u64 {
    let (sum, overflow) = i(a).overflowing_sub(i(b));
    scc(wave, overflow, sum.cast_unsigned().into())
}

/// Unsigned sum of low halves with carry in SCC.
fn add_u32(wave: &mut Wave, a: u64, b: u64, carry: bool) -> u64 {
    let sum = u64::from(lo(a)) + u64::from(lo(b)) + u64::from(carry);
    scc(wave, sum >> 32 != 0, sum & 0xffff_ffff)
}

fn sub_u32(wave: &mut Wave, a: u64, b: u64, borrow: bool) -> u64 {
    let difference = u64::from(lo(a)).wrapping_sub(u64::from(lo(b))).wrapping_sub(u64::from(borrow));
    scc(wave, difference >> 63 != 0, difference & 0xffff_ffff)
}

/// `(a << shift) + b`, carry of the 64-bit sum in SCC.
fn shift_add(wave: &mut Wave, a: u64, b: u64, shift: u32) -> u64 {
    let sum = (u64::from(lo(a)) << shift) + u64::from(lo(b));
    scc(wave, sum >> 32 != 0, sum & 0xffff_ffff)
}

/// Field of `b[4:0]` (offset) and `b[22:16]` (width); widths of 32 and more take all that is left.
fn bfe_u32(a: u64, b: u64) -> u32 {
    let (offset, width) = (b & 31, b >> 16 & 0x7f);
    let field = lo(a) >> offset;
    if width >= 32 { field } else { field & ((1 << width) - 1) }
}

fn bfe_i32(a: u64, b: u64) -> u32 {
    let (offset, width) = (b & 31, b >> 16 & 0x7f);
    let field = i(a) >> offset;
    match width {
        0 => 0,
        1..=31 => ((field << (32 - width)) >> (32 - width)).cast_unsigned(),
        _ => field.cast_unsigned(),
    }
}

fn bfe_u64(a: u64, b: u64) -> u64 {
    let (offset, width) = (b & 63, b >> 16 & 0x7f);
    let field = a >> offset;
    if width >= 64 { field } else { field & ((1 << width) - 1) }
}

fn bfe_i64(a: u64, b: u64) -> u64 {
    let (offset, width) = (b & 63, b >> 16 & 0x7f);
    let field = a.cast_signed() >> offset;
    match width {
        0 => 0,
        1..=63 => ((field << (64 - width)) >> (64 - width)).cast_unsigned(),
        _ => field.cast_unsigned(),
    }
}

fn bfm64(a: u64, b: u64) -> u64 {
    ((1u64 << (a & 63)) - 1) << (b & 63)
}

fn ctz64(a: u64) -> u64 {
    if a == 0 { 0xffff_ffff } else { a.trailing_zeros().into() }
}

fn clz64(a: u64) -> u64 {
    if a == 0 { 0xffff_ffff } else { a.leading_zeros().into() }
}

fn cls64(a: u64) -> u64 {
    let folded = if a.cast_signed() < 0 { !a } else { a };
    if folded == 0 { 0xffff_ffff } else { folded.leading_zeros().into() }
}

/// Every bit twice.
fn replicate(a: u64) -> u64 {
    (0..32).fold(0, |out, bit| out | (if a >> bit & 1 != 0 { 3 } else { 0 }) << (2 * bit))
}

fn pack(low: u64, high: u64) -> u64 {
    low & 0xffff | (high & 0xffff) << 16
}

/// The 16-bit constant of a SOPK instruction, sign-extended.
fn k(value: u64) -> i32 {
    i32::from((value as u16).cast_signed())
}

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::s_mov_b32, Run::Scalar(|_, [a, ..]| a)),
    (op::s_mov_b64, Run::Scalar(|_, [a, ..]| a)),
    (op::s_cmov_b32, Run::Scalar(|w, [a, _, old]| if w.scc { a } else { old })),
    (op::s_cmov_b64, Run::Scalar(|w, [a, _, old]| if w.scc { a } else { old })),
    (op::s_brev_b32, Run::Scalar(|_, [a, ..]| lo(a).reverse_bits().into())),
    (op::s_brev_b64, Run::Scalar(|_, [a, ..]| a.reverse_bits())),
    (op::s_ctz_i32_b32, Run::Scalar(|_, [a, ..]| ctz(lo(a)).into())),
    (op::s_ctz_i32_b64, Run::Scalar(|_, [a, ..]| ctz64(a))),
    (op::s_clz_i32_u32, Run::Scalar(|_, [a, ..]| clz(lo(a)).into())),
    (op::s_clz_i32_u64, Run::Scalar(|_, [a, ..]| clz64(a))),
    (op::s_cls_i32, Run::Scalar(|_, [a, ..]| cls(lo(a)).into())),
    (op::s_cls_i32_i64, Run::Scalar(|_, [a, ..]| cls64(a))),
    (op::s_sext_i32_i8, Run::Scalar(|_, [a, ..]| i32::from((a as u8).cast_signed()).cast_unsigned().into())),
    (
        op::s_sext_i32_i16,
        Run::Scalar(|_, [a, ..]| i32::from((a as u16).cast_signed()).cast_unsigned().into()),
    ),
    (op::s_bitset0_b32, Run::Scalar(|_, [a, _, old]| old & !(1 << (a & 31)))),
    (op::s_bitset1_b32, Run::Scalar(|_, [a, _, old]| old | 1 << (a & 31))),
    (op::s_bitset0_b64, Run::Scalar(|_, [a, _, old]| old & !(1 << (a & 63)))),
    (op::s_bitset1_b64, Run::Scalar(|_, [a, _, old]| old | 1 << (a & 63))),
    (op::s_bitreplicate_b64_b32, Run::Scalar(|_, [a, ..]| replicate(a))),
    (op::s_abs_i32, Run::Scalar(|w, [a, ..]| flag(w, i(a).unsigned_abs()))),
    (op::s_bcnt0_i32_b32, Run::Scalar(|w, [a, ..]| flag(w, lo(a).count_zeros()))),
    (op::s_bcnt0_i32_b64, Run::Scalar(|w, [a, ..]| flag(w, a.count_zeros()))),
    (op::s_bcnt1_i32_b32, Run::Scalar(|w, [a, ..]| flag(w, lo(a).count_ones()))),
    (op::s_bcnt1_i32_b64, Run::Scalar(|w, [a, ..]| flag(w, a.count_ones()))),
    (op::s_not_b32, Run::Scalar(|w, [a, ..]| flag(w, !lo(a)))),
    (op::s_not_b64, Run::Scalar(|w, [a, ..]| flag64(w, !a))),
    (op::s_and_saveexec_b32, Run::Scalar(|w, [a, ..]| save(w, lo(a) & exec(w)))),
    (op::s_and_saveexec_b64, Run::Scalar(|w, [a, ..]| save64(w, a & exec64(w)))),
    (op::s_or_saveexec_b32, Run::Scalar(|w, [a, ..]| save(w, lo(a) | exec(w)))),
    (op::s_or_saveexec_b64, Run::Scalar(|w, [a, ..]| save64(w, a | exec64(w)))),
    (op::s_xor_saveexec_b32, Run::Scalar(|w, [a, ..]| save(w, lo(a) ^ exec(w)))),
    (op::s_xor_saveexec_b64, Run::Scalar(|w, [a, ..]| save64(w, a ^ exec64(w)))),
    (op::s_nand_saveexec_b32, Run::Scalar(|w, [a, ..]| save(w, !(lo(a) & exec(w))))),
    (op::s_nand_saveexec_b64, Run::Scalar(|w, [a, ..]| save64(w, !(a & exec64(w))))),
    (op::s_nor_saveexec_b32, Run::Scalar(|w, [a, ..]| save(w, !(lo(a) | exec(w))))),
    (op::s_nor_saveexec_b64, Run::Scalar(|w, [a, ..]| save64(w, !(a | exec64(w))))),
    (op::s_xnor_saveexec_b32, Run::Scalar(|w, [a, ..]| save(w, !(lo(a) ^ exec(w))))),
    (op::s_xnor_saveexec_b64, Run::Scalar(|w, [a, ..]| save64(w, !(a ^ exec64(w))))),
    (op::s_and_not0_saveexec_b32, Run::Scalar(|w, [a, ..]| save(w, !lo(a) & exec(w)))),
    (op::s_and_not0_saveexec_b64, Run::Scalar(|w, [a, ..]| save64(w, !a & exec64(w)))),
    (op::s_or_not0_saveexec_b32, Run::Scalar(|w, [a, ..]| save(w, !lo(a) | exec(w)))),
    (op::s_or_not0_saveexec_b64, Run::Scalar(|w, [a, ..]| save64(w, !a | exec64(w)))),
    (op::s_and_not1_saveexec_b32, Run::Scalar(|w, [a, ..]| save(w, lo(a) & !exec(w)))),
    (op::s_and_not1_saveexec_b64, Run::Scalar(|w, [a, ..]| save64(w, a & !exec64(w)))),
    (op::s_or_not1_saveexec_b32, Run::Scalar(|w, [a, ..]| save(w, lo(a) | !exec(w)))),
    (op::s_or_not1_saveexec_b64, Run::Scalar(|w, [a, ..]| save64(w, a | !exec64(w)))),
    (op::s_and_not0_wrexec_b32, Run::Scalar(|w, [a, ..]| write(w, !lo(a) & exec(w)))),
    (op::s_and_not0_wrexec_b64, Run::Scalar(|w, [a, ..]| write64(w, !a & exec64(w)))),
    (op::s_and_not1_wrexec_b32, Run::Scalar(|w, [a, ..]| write(w, lo(a) & !exec(w)))),
    (op::s_and_not1_wrexec_b64, Run::Scalar(|w, [a, ..]| write64(w, a & !exec64(w)))),
    (op::s_ceil_f32, Run::Scalar(|_, [a, ..]| bits(libm::ceilf(f(a))))),
    (op::s_floor_f32, Run::Scalar(|_, [a, ..]| bits(libm::floorf(f(a))))),
    (op::s_trunc_f32, Run::Scalar(|_, [a, ..]| bits(libm::truncf(f(a))))),
    (op::s_rndne_f32, Run::Scalar(|_, [a, ..]| bits(libm::rintf(f(a))))),
    (op::s_ceil_f16, Run::Scalar(|_, [a, ..]| half(libm::ceilf(h(a))))),
    (op::s_floor_f16, Run::Scalar(|_, [a, ..]| half(libm::floorf(h(a))))),
    (op::s_trunc_f16, Run::Scalar(|_, [a, ..]| half(libm::truncf(h(a))))),
    (op::s_rndne_f16, Run::Scalar(|_, [a, ..]| half(libm::rintf(h(a))))),
    (op::s_cvt_f32_i32, Run::Scalar(|w, [a, ..]| from_int(i(a).into(), w.mode.round32()).into())),
    (op::s_cvt_f32_u32, Run::Scalar(|w, [a, ..]| from_int(lo(a).into(), w.mode.round32()).into())),
    (op::s_cvt_i32_f32, Run::Scalar(|_, [a, ..]| to_i32(f(a)).into())),
    (op::s_cvt_u32_f32, Run::Scalar(|_, [a, ..]| to_u32(f(a)).into())),
    (op::s_cvt_f16_f32, Run::Scalar(|w, [a, ..]| f32_to_f16(f(a), w.mode.round64()).into())),
    (op::s_cvt_f32_f16, Run::Scalar(|_, [a, ..]| bits(h(a)))),
    (op::s_cvt_hi_f32_f16, Run::Scalar(|_, [a, ..]| bits(h(a >> 16)))),
    (op::s_add_u32, Run::Scalar(|w, [a, b, _]| add_u32(w, a, b, false))),
    (op::s_add_co_u32, Run::Scalar(|w, [a, b, _]| add_u32(w, a, b, false))),
    (op::s_sub_u32, Run::Scalar(|w, [a, b, _]| sub_u32(w, a, b, false))),
    (op::s_sub_co_u32, Run::Scalar(|w, [a, b, _]| sub_u32(w, a, b, false))),
    (op::s_add_i32, Run::Scalar(|w, [a, b, _]| add_i32(w, a, b))),
    (op::s_add_co_i32, Run::Scalar(|w, [a, b, _]| add_i32(w, a, b))),
    (op::s_sub_i32, Run::Scalar(|w, [a, b, _]| sub_i32(w, a, b))),
    (op::s_sub_co_i32, Run::Scalar(|w, [a, b, _]| sub_i32(w, a, b))),
    (op::s_addc_u32, Run::Scalar(|w, [a, b, _]| add_u32(w, a, b, w.scc))),
    (op::s_add_co_ci_u32, Run::Scalar(|w, [a, b, _]| add_u32(w, a, b, w.scc))),
    (op::s_subb_u32, Run::Scalar(|w, [a, b, _]| sub_u32(w, a, b, w.scc))),
    (op::s_sub_co_ci_u32, Run::Scalar(|w, [a, b, _]| sub_u32(w, a, b, w.scc))),
    (op::s_absdiff_i32, Run::Scalar(|w, [a, b, _]| flag(w, i(a).wrapping_sub(i(b)).unsigned_abs()))),
    (op::s_lshl_b32, Run::Scalar(|w, [a, b, _]| flag(w, lo(a) << (b & 31)))),
    (op::s_lshl_b64, Run::Scalar(|w, [a, b, _]| flag64(w, a << (b & 63)))),
    (op::s_lshr_b32, Run::Scalar(|w, [a, b, _]| flag(w, lo(a) >> (b & 31)))),
    (op::s_lshr_b64, Run::Scalar(|w, [a, b, _]| flag64(w, a >> (b & 63)))),
    (op::s_ashr_i32, Run::Scalar(|w, [a, b, _]| flag(w, (i(a) >> (b & 31)).cast_unsigned()))),
    (op::s_ashr_i64, Run::Scalar(|w, [a, b, _]| flag64(w, (a.cast_signed() >> (b & 63)).cast_unsigned()))),
    (op::s_lshl1_add_u32, Run::Scalar(|w, [a, b, _]| shift_add(w, a, b, 1))),
    (op::s_lshl2_add_u32, Run::Scalar(|w, [a, b, _]| shift_add(w, a, b, 2))),
    (op::s_lshl3_add_u32, Run::Scalar(|w, [a, b, _]| shift_add(w, a, b, 3))),
    (op::s_lshl4_add_u32, Run::Scalar(|w, [a, b, _]| shift_add(w, a, b, 4))),
    (op::s_min_i32, Run::Scalar(|w, [a, b, _]| scc(w, i(a) < i(b), i(a).min(i(b)).cast_unsigned().into()))),
    (op::s_min_u32, Run::Scalar(|w, [a, b, _]| scc(w, lo(a) < lo(b), a.min(b)))),
    (op::s_max_i32, Run::Scalar(|w, [a, b, _]| scc(w, i(a) >= i(b), i(a).max(i(b)).cast_unsigned().into()))),
    (op::s_max_u32, Run::Scalar(|w, [a, b, _]| scc(w, lo(a) >= lo(b), a.max(b)))),
    (op::s_and_b32, Run::Scalar(|w, [a, b, _]| flag(w, lo(a) & lo(b)))),
    (op::s_and_b64, Run::Scalar(|w, [a, b, _]| flag64(w, a & b))),
    (op::s_or_b32, Run::Scalar(|w, [a, b, _]| flag(w, lo(a) | lo(b)))),
    (op::s_or_b64, Run::Scalar(|w, [a, b, _]| flag64(w, a | b))),
    (op::s_xor_b32, Run::Scalar(|w, [a, b, _]| flag(w, lo(a) ^ lo(b)))),
    (op::s_xor_b64, Run::Scalar(|w, [a, b, _]| flag64(w, a ^ b))),
    (op::s_nand_b32, Run::Scalar(|w, [a, b, _]| flag(w, !(lo(a) & lo(b))))),
    (op::s_nand_b64, Run::Scalar(|w, [a, b, _]| flag64(w, !(a & b)))),
    (op::s_nor_b32, Run::Scalar(|w, [a, b, _]| flag(w, !(lo(a) | lo(b))))),
    (op::s_nor_b64, Run::Scalar(|w, [a, b, _]| flag64(w, !(a | b)))),
    (op::s_xnor_b32, Run::Scalar(|w, [a, b, _]| flag(w, !(lo(a) ^ lo(b))))),
    (op::s_xnor_b64, Run::Scalar(|w, [a, b, _]| flag64(w, !(a ^ b)))),
    (op::s_and_not1_b32, Run::Scalar(|w, [a, b, _]| flag(w, lo(a) & !lo(b)))),
    (op::s_and_not1_b64, Run::Scalar(|w, [a, b, _]| flag64(w, a & !b))),
    (op::s_or_not1_b32, Run::Scalar(|w, [a, b, _]| flag(w, lo(a) | !lo(b)))),
    (op::s_or_not1_b64, Run::Scalar(|w, [a, b, _]| flag64(w, a | !b))),
    (op::s_bfe_u32, Run::Scalar(|w, [a, b, _]| flag(w, bfe_u32(a, b)))),
    (op::s_bfe_i32, Run::Scalar(|w, [a, b, _]| flag(w, bfe_i32(a, b)))),
    (op::s_bfe_u64, Run::Scalar(|w, [a, b, _]| flag64(w, bfe_u64(a, b)))),
    (op::s_bfe_i64, Run::Scalar(|w, [a, b, _]| flag64(w, bfe_i64(a, b)))),
    (op::s_bfm_b32, Run::Scalar(|_, [a, b, _]| (((1u32 << (a & 31)) - 1) << (b & 31)).into())),
    (op::s_bfm_b64, Run::Scalar(|_, [a, b, _]| bfm64(a, b))),
    (op::s_mul_i32, Run::Scalar(|_, [a, b, _]| lo(a).wrapping_mul(lo(b)).into())),
    (op::s_mul_hi_u32, Run::Scalar(|_, [a, b, _]| (u64::from(lo(a)) * u64::from(lo(b))) >> 32)),
    (
        op::s_mul_hi_i32,
        Run::Scalar(|_, [a, b, _]| ((i64::from(i(a)) * i64::from(i(b))) >> 32).cast_unsigned()),
    ),
    (op::s_cselect_b32, Run::Scalar(|w, [a, b, _]| if w.scc { a } else { b })),
    (op::s_cselect_b64, Run::Scalar(|w, [a, b, _]| if w.scc { a } else { b })),
    (op::s_pack_ll_b32_b16, Run::Scalar(|_, [a, b, _]| pack(a, b))),
    (op::s_pack_lh_b32_b16, Run::Scalar(|_, [a, b, _]| pack(a, b >> 16))),
    (op::s_pack_hh_b32_b16, Run::Scalar(|_, [a, b, _]| pack(a >> 16, b >> 16))),
    (op::s_pack_hl_b32_b16, Run::Scalar(|_, [a, b, _]| pack(a >> 16, b))),
    (op::s_add_f32, Run::Scalar(|w, [a, b, _]| bits(add32(f(a), f(b), w.mode.round32())))),
    (op::s_sub_f32, Run::Scalar(|w, [a, b, _]| bits(add32(f(a), -f(b), w.mode.round32())))),
    (op::s_mul_f32, Run::Scalar(|w, [a, b, _]| bits(mul32(f(a), f(b), w.mode.round32())))),
    (op::s_min_f32, Run::Scalar(|w, [a, b, _]| bits(legacy(f(a), f(b), false, w.mode)))),
    (op::s_max_f32, Run::Scalar(|w, [a, b, _]| bits(legacy(f(a), f(b), true, w.mode)))),
    (op::s_min_num_f32, Run::Scalar(|_, [a, b, _]| bits(number(f(a), f(b), false)))),
    (op::s_max_num_f32, Run::Scalar(|_, [a, b, _]| bits(number(f(a), f(b), true)))),
    (op::s_minimum_f32, Run::Scalar(|_, [a, b, _]| bits(propagating(f(a), f(b), false)))),
    (op::s_maximum_f32, Run::Scalar(|_, [a, b, _]| bits(propagating(f(a), f(b), true)))),
    (op::s_min_f16, Run::Scalar(|w, [a, b, _]| half(legacy(h(a), h(b), false, w.mode)))),
    (op::s_max_f16, Run::Scalar(|w, [a, b, _]| half(legacy(h(a), h(b), true, w.mode)))),
    (op::s_min_num_f16, Run::Scalar(|_, [a, b, _]| half(number(h(a), h(b), false)))),
    (op::s_max_num_f16, Run::Scalar(|_, [a, b, _]| half(number(h(a), h(b), true)))),
    (op::s_minimum_f16, Run::Scalar(|_, [a, b, _]| half(propagating(h(a), h(b), false)))),
    (op::s_maximum_f16, Run::Scalar(|_, [a, b, _]| half(propagating(h(a), h(b), true)))),
    (op::s_fmaak_f32, Run::Scalar(|w, [a, b, c]| bits(fma32(f(a), f(b), f(c), w.mode.round32())))),
    (op::s_fmamk_f32, Run::Scalar(|w, [a, b, c]| bits(fma32(f(a), f(b), f(c), w.mode.round32())))),
    (op::s_fmac_f32, Run::Scalar(|w, [a, b, old]| bits(fma32(f(a), f(b), f(old), w.mode.round32())))),
    (
        op::s_cvt_pk_rtz_f16_f32,
        Run::Scalar(|_, [a, b, _]| {
            u64::from(f32_to_f16(f(a), Round::Zero) | f32_to_f16(f(b), Round::Zero) << 16)
        }),
    ),
    (op::s_add_f16, Run::Scalar(|w, [a, b, _]| add16(lo(a), lo(b), w.mode.round64()).into())),
    (op::s_sub_f16, Run::Scalar(|w, [a, b, _]| add16(lo(a), lo(b) ^ 0x8000, w.mode.round64()).into())),
    (op::s_mul_f16, Run::Scalar(|w, [a, b, _]| mul16(lo(a), lo(b), w.mode.round64()).into())),
    (op::s_fmac_f16, Run::Scalar(|w, [a, b, old]| fma16(lo(a), lo(b), lo(old), w.mode.round64()).into())),
    (op::s_add_nc_u64, Run::Scalar(|_, [a, b, _]| a.wrapping_add(b))),
    (op::s_sub_nc_u64, Run::Scalar(|_, [a, b, _]| a.wrapping_sub(b))),
    (op::s_mul_u64, Run::Scalar(|_, [a, b, _]| a.wrapping_mul(b))),
    (op::s_movk_i32, Run::Scalar(|_, [a, ..]| k(a).cast_unsigned().into())),
    (op::s_cmovk_i32, Run::Scalar(|w, [a, _, old]| if w.scc { k(a).cast_unsigned().into() } else { old })),
    (op::s_addk_i32, Run::Scalar(|w, [a, _, old]| add_i32(w, old, k(a).cast_unsigned().into()))),
    (op::s_addk_co_i32, Run::Scalar(|w, [a, _, old]| add_i32(w, old, k(a).cast_unsigned().into()))),
    (op::s_mulk_i32, Run::Scalar(|_, [a, _, old]| i(old).wrapping_mul(k(a)).cast_unsigned().into())),
];
