//! Integer and bitwise instructions of 32 and 64 bits, moves and selections.
//!
//! Not here: 16-bit integers (`small.rs`), packed ones (`packed.rs`), dot products.

use doorbell_isa::{Op, op};

use super::super::handler::{Op32, Run};
use super::super::number::{cls, clz, ctz};
use super::lane_loops::{per_lane, wide};

/// Two's complement view.
#[inline]
pub(super) fn i(bits: u32) -> i32 {
    bits.cast_signed()
}

/// Sign-extends the low 24 bits.
#[inline]
fn i24(bits: u32) -> i32 {
    i(bits << 8) >> 8
}

/// The low 24 bits.
#[inline]
fn u24(bits: u32) -> u32 {
    bits & 0xff_ffff
}

/// Bits `[width-1:0]` set; `width` below 32.
#[inline]
fn ones(width: u32) -> u32 {
    (1 << (width & 31)) - 1
}

fn bfe_i32(value: u32, offset: u32, width: u32) -> u32 {
    let width = width & 31;
    if width == 0 {
        return 0;
    }
    let field = (i(value) >> (offset & 31)).cast_unsigned() & ones(width);
    (i(field << (32 - width)) >> (32 - width)).cast_unsigned()
}

/// Byte of `{S0, S1}` chosen by one selector byte.
fn perm_byte(data: u64, selector: u32) -> u32 {
    let sign = |byte: u32| if data >> (byte * 8 + 7) & 1 != 0 { 0xff } else { 0 };
    match selector {
        0..=7 => (data >> (selector * 8)) as u32 & 0xff,
        8..=11 => sign((selector - 8) * 2 + 1),
        12 => 0,
        _ => 0xff,
    }
}

fn perm(a: u32, b: u32, selector: u32) -> u32 {
    let data = u64::from(a) << 32 | u64::from(b);
    (0..4).map(|byte| perm_byte(data, selector >> (byte * 8) & 0xff) << (byte * 8)).fold(0, |x, y| x | y)
}

fn bytes(value: u32) -> [u32; 4] {
    value.to_le_bytes().map(u32::from)
}

/// A sum that saturates with the clamp bit and wraps without.
fn accumulate(sum: u32, c: u32, clamp: bool) -> u32 {
    if clamp { sum.saturating_add(c) } else { sum.wrapping_add(c) }
}

/// Sum of the distances of four bytes.
fn distances(a: u32, b: u32) -> u32 {
    bytes(a).into_iter().zip(bytes(b)).map(|(a, b)| a.abs_diff(b)).sum()
}

/// Like `distances`, leaving out bytes whose reference is zero.
fn masked_distances(a: u32, b: u32) -> u32 {
    let pairs = bytes(a).into_iter().zip(bytes(b));
    pairs.map(|(a, b)| if b == 0 { 0 } else { a.abs_diff(b) }).sum()
}

fn distances16(a: u32, b: u32) -> u32 {
    (a & 0xffff).abs_diff(b & 0xffff) + (a >> 16).abs_diff(b >> 16)
}

fn lerp_u8(a: u32, b: u32, c: u32) -> u32 {
    let parts = bytes(a).into_iter().zip(bytes(b)).zip(bytes(c));
    let out = parts.map(|((a, b), c)| ((a + b + (c & 1)) >> 1) as u8);
    let mut packed = [0; 4];
    packed.iter_mut().zip(out).for_each(|(slot, byte)| *slot = byte);
    u32::from_le_bytes(packed)
}

/// Four sums over the windows of `a` that start at bytes 0 to 3.
fn quad(a: u64, b: u64, c: u64, sum: fn(u32, u32) -> u32, clamp: bool) -> u64 {
    (0..4).fold(0, |out, window| {
        let bias = (c >> (window * 16)) as u32 & 0xffff;
        let value = sum((a >> (window * 8)) as u32, b as u32) + bias;
        let value = if clamp { value.min(0xffff) } else { value & 0xffff };
        out | u64::from(value) << (window * 16)
    })
}

/// A handler with one loop for wrapping and one for saturating.
macro_rules! clampable {
    (|$a:ident, $b:ident| $wrapping:expr, $saturating:expr) => {
        Run::Op32(|e, s, out| {
            let wrapping: Op32 = per_lane!(|e, $a, $b| $wrapping);
            let saturating: Op32 = per_lane!(|e, $a, $b| $saturating);
            if e.clamp { saturating(e, s, out) } else { wrapping(e, s, out) }
        })
    };
}

fn add_i32(a: u32, b: u32, clamp: bool) -> u32 {
    if clamp { i(a).saturating_add(i(b)).cast_unsigned() } else { a.wrapping_add(b) }
}

fn sub_i32(a: u32, b: u32, clamp: bool) -> u32 {
    if clamp { i(a).saturating_sub(i(b)).cast_unsigned() } else { a.wrapping_sub(b) }
}

fn mad_i24(a: u32, b: u32, c: u32, clamp: bool) -> u32 {
    let exact = i64::from(i24(a)) * i64::from(i24(b));
    let low = if clamp { exact + i64::from(i(c)) } else { i64::from((exact as i32).wrapping_add(i(c))) };
    (low.clamp(i32::MIN.into(), i32::MAX.into()) as i32).cast_unsigned()
}

fn mad_u24(a: u32, b: u32, c: u32, clamp: bool) -> u32 {
    let exact = u64::from(u24(a)) * u64::from(u24(b));
    if clamp { (exact + u64::from(c)).min(u32::MAX.into()) as u32 } else { (exact as u32).wrapping_add(c) }
}

fn med3<T: Ord>(a: T, b: T, c: T) -> T {
    let mut sorted = [a, b, c];
    sorted.sort_unstable();
    let [_, middle, _] = sorted;
    middle
}

/// Sum with carry-in in bit 0 of `c`; the carry is bit 32.
fn carry_add(a: u32, b: u32, c: u32) -> u64 {
    u64::from(a) + u64::from(b) + u64::from(c)
}

/// Difference with borrow-in; a borrow sets bit 63.
fn borrow_sub(a: u32, b: u32, c: u32) -> u64 {
    u64::from(a).wrapping_sub(u64::from(b)).wrapping_sub(u64::from(c))
}

macro_rules! carry {
    (|$a:ident, $b:ident, $c:ident| $body:expr, $saturated:expr) => {
        Run::Carry32(|e, s, out| {
            let mut mask = 0;
            for (lane, out) in out.iter_mut().enumerate() {
                let ($a, $b, $c) = (s[0][lane], s[1][lane], s[2][lane]);
                let value: u64 = $body;
                let carried = value >> 32 != 0;
                *out = if e.clamp && carried { $saturated } else { value as u32 };
                mask |= u32::from(carried) << lane;
            }
            mask
        })
    };
}
macro_rules! mad64 {
    ($narrow:ident, $wide:ident) => {
        Run::Carry64(|e, s, out| {
            let mut mask = 0;
            for (lane, out) in out.iter_mut().enumerate() {
                let product =
                    i128::from(s[0][lane] as u32 as $narrow) * i128::from(s[1][lane] as u32 as $narrow);
                let sum = product + i128::from(s[2][lane] as $wide);
                let most = i128::from($wide::MAX);
                *out = if e.clamp { sum.clamp(i128::from($wide::MIN), most) } else { sum } as u64;
                // Bit 64 of the 65-bit sum: of a signed one, its sign.
                mask |= ((sum >> 64) as u32 & 1) << lane;
            }
            mask
        })
    };
}

const MOV: Run = Run::Op32(per_lane!(|_e, a| a));
const CNDMASK: Run = Run::Op32(per_lane!(|_e, a, b, c| if c != 0 { b } else { a }));
const LSHLREV: Run = Run::Op32(per_lane!(|_e, a, b| b << (a & 31)));
const AND: Run = Run::Op32(per_lane!(|_e, a, b| a & b));
const ADD: Run = clampable!(|a, b| a.wrapping_add(b), a.saturating_add(b));
const MAD_U64: Run = mad64!(u32, u64);
const MAD_I64: Run = mad64!(i32, i64);
const LSHLREV64: Run = Run::Op64(wide!(|_e, s| s[1] << (s[0] & 63)));

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::v_mov_b32, MOV),
    (op::v_dual_mov_b32, MOV),
    (op::v_cndmask_b32, CNDMASK),
    (op::v_dual_cndmask_b32, CNDMASK),
    (op::v_cndmask_b16, CNDMASK),
    (op::v_not_b32, Run::Op32(per_lane!(|_e, a| !a))),
    (op::v_bfrev_b32, Run::Op32(per_lane!(|_e, a| a.reverse_bits()))),
    (op::v_clz_i32_u32, Run::Op32(per_lane!(|_e, a| clz(a)))),
    (op::v_ctz_i32_b32, Run::Op32(per_lane!(|_e, a| ctz(a)))),
    (op::v_cls_i32, Run::Op32(per_lane!(|_e, a| cls(a)))),
    (op::v_mul_i32_i24, Run::Op32(per_lane!(|_e, a, b| i24(a).wrapping_mul(i24(b)).cast_unsigned()))),
    (
        op::v_mul_hi_i32_i24,
        Run::Op32(per_lane!(|_e, a, b| ((i64::from(i24(a)) * i64::from(i24(b))) >> 32) as u32)),
    ),
    (op::v_mul_u32_u24, Run::Op32(per_lane!(|_e, a, b| u24(a).wrapping_mul(u24(b))))),
    (
        op::v_mul_hi_u32_u24,
        Run::Op32(per_lane!(|_e, a, b| ((u64::from(u24(a)) * u64::from(u24(b))) >> 32) as u32)),
    ),
    (op::v_min_i32, Run::Op32(per_lane!(|_e, a, b| i(a).min(i(b)).cast_unsigned()))),
    (op::v_max_i32, Run::Op32(per_lane!(|_e, a, b| i(a).max(i(b)).cast_unsigned()))),
    (op::v_min_u32, Run::Op32(per_lane!(|_e, a, b| a.min(b)))),
    (op::v_max_u32, Run::Op32(per_lane!(|_e, a, b| a.max(b)))),
    (op::v_lshlrev_b32, LSHLREV),
    (op::v_dual_lshlrev_b32, LSHLREV),
    (op::v_lshrrev_b32, Run::Op32(per_lane!(|_e, a, b| b >> (a & 31)))),
    (op::v_ashrrev_i32, Run::Op32(per_lane!(|_e, a, b| (i(b) >> (a & 31)).cast_unsigned()))),
    (op::v_and_b32, AND),
    (op::v_dual_and_b32, AND),
    (op::v_or_b32, Run::Op32(per_lane!(|_e, a, b| a | b))),
    (op::v_xor_b32, Run::Op32(per_lane!(|_e, a, b| a ^ b))),
    (op::v_xnor_b32, Run::Op32(per_lane!(|_e, a, b| !(a ^ b)))),
    (op::v_add_nc_u32, ADD),
    (op::v_dual_add_nc_u32, ADD),
    (op::v_sub_nc_u32, clampable!(|a, b| a.wrapping_sub(b), a.saturating_sub(b))),
    (op::v_subrev_nc_u32, clampable!(|a, b| b.wrapping_sub(a), b.saturating_sub(a))),
    (op::v_add_nc_i32, Run::Op32(per_lane!(|e, a, b| add_i32(a, b, e.clamp)))),
    (op::v_sub_nc_i32, Run::Op32(per_lane!(|e, a, b| sub_i32(a, b, e.clamp)))),
    (op::v_mad_i32_i24, Run::Op32(per_lane!(|e, a, b, c| mad_i24(a, b, c, e.clamp)))),
    (op::v_mad_u32_u24, Run::Op32(per_lane!(|e, a, b, c| mad_u24(a, b, c, e.clamp)))),
    (op::v_bfe_u32, Run::Op32(per_lane!(|_e, a, b, c| a >> (b & 31) & ones(c)))),
    (op::v_bfe_i32, Run::Op32(per_lane!(|_e, a, b, c| bfe_i32(a, b, c)))),
    (op::v_bfi_b32, Run::Op32(per_lane!(|_e, a, b, c| a & b | !a & c))),
    (op::v_lerp_u8, Run::Op32(per_lane!(|_e, a, b, c| lerp_u8(a, b, c)))),
    (
        op::v_alignbit_b32,
        Run::Op32(per_lane!(|_e, a, b, c| ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32)),
    ),
    (
        op::v_alignbyte_b32,
        Run::Op32(per_lane!(|_e, a, b, c| ((u64::from(a) << 32 | u64::from(b)) >> ((c & 3) * 8)) as u32)),
    ),
    (op::v_min3_i32, Run::Op32(per_lane!(|_e, a, b, c| i(a).min(i(b)).min(i(c)).cast_unsigned()))),
    (op::v_min3_u32, Run::Op32(per_lane!(|_e, a, b, c| a.min(b).min(c)))),
    (op::v_max3_i32, Run::Op32(per_lane!(|_e, a, b, c| i(a).max(i(b)).max(i(c)).cast_unsigned()))),
    (op::v_max3_u32, Run::Op32(per_lane!(|_e, a, b, c| a.max(b).max(c)))),
    (op::v_med3_i32, Run::Op32(per_lane!(|_e, a, b, c| med3(i(a), i(b), i(c)).cast_unsigned()))),
    (op::v_med3_u32, Run::Op32(per_lane!(|_e, a, b, c| med3(a, b, c)))),
    (op::v_maxmin_u32, Run::Op32(per_lane!(|_e, a, b, c| a.max(b).min(c)))),
    (op::v_minmax_u32, Run::Op32(per_lane!(|_e, a, b, c| a.min(b).max(c)))),
    (op::v_maxmin_i32, Run::Op32(per_lane!(|_e, a, b, c| i(a).max(i(b)).min(i(c)).cast_unsigned()))),
    (op::v_minmax_i32, Run::Op32(per_lane!(|_e, a, b, c| i(a).min(i(b)).max(i(c)).cast_unsigned()))),
    (op::v_sad_u8, Run::Op32(per_lane!(|e, a, b, c| accumulate(distances(a, b), c, e.clamp)))),
    (op::v_sad_hi_u8, Run::Op32(per_lane!(|e, a, b, c| accumulate(distances(a, b) << 16, c, e.clamp)))),
    (op::v_sad_u16, Run::Op32(per_lane!(|e, a, b, c| accumulate(distances16(a, b), c, e.clamp)))),
    (op::v_sad_u32, Run::Op32(per_lane!(|e, a, b, c| accumulate(a.abs_diff(b), c, e.clamp)))),
    (op::v_msad_u8, Run::Op32(per_lane!(|e, a, b, c| accumulate(masked_distances(a, b), c, e.clamp)))),
    (op::v_qsad_pk_u16_u8, Run::Op64(wide!(|e, s| quad(s[0], s[1], s[2], distances, e.clamp)))),
    (op::v_mqsad_pk_u16_u8, Run::Op64(wide!(|e, s| quad(s[0], s[1], s[2], masked_distances, e.clamp)))),
    (op::v_xor3_b32, Run::Op32(per_lane!(|_e, a, b, c| a ^ b ^ c))),
    (op::v_perm_b32, Run::Op32(per_lane!(|_e, a, b, c| perm(a, b, c)))),
    (op::v_xad_u32, Run::Op32(per_lane!(|_e, a, b, c| (a ^ b).wrapping_add(c)))),
    (op::v_lshl_add_u32, Run::Op32(per_lane!(|_e, a, b, c| (a << (b & 31)).wrapping_add(c)))),
    (op::v_add_lshl_u32, Run::Op32(per_lane!(|_e, a, b, c| a.wrapping_add(b) << (c & 31)))),
    (op::v_add3_u32, Run::Op32(per_lane!(|_e, a, b, c| a.wrapping_add(b).wrapping_add(c)))),
    (op::v_lshl_or_b32, Run::Op32(per_lane!(|_e, a, b, c| a << (b & 31) | c))),
    (op::v_and_or_b32, Run::Op32(per_lane!(|_e, a, b, c| a & b | c))),
    (op::v_or3_b32, Run::Op32(per_lane!(|_e, a, b, c| a | b | c))),
    (op::v_bfm_b32, Run::Op32(per_lane!(|_e, a, b| ones(a) << (b & 31)))),
    (op::v_bcnt_u32_b32, Run::Op32(per_lane!(|_e, a, b| a.count_ones().wrapping_add(b)))),
    (
        op::v_mbcnt_lo_u32_b32,
        Run::Op32(|_, s, out| {
            for (lane, out) in out.iter_mut().enumerate() {
                *out = (s[0][lane] & ((1 << lane) - 1)).count_ones().wrapping_add(s[1][lane]);
            }
        }),
    ),
    (op::v_mbcnt_hi_u32_b32, Run::Op32(per_lane!(|_e, _a, b| b))),
    (op::v_mul_lo_u32, Run::Op32(per_lane!(|_e, a, b| a.wrapping_mul(b)))),
    (op::v_mul_hi_u32, Run::Op32(per_lane!(|_e, a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32))),
    (op::v_mul_hi_i32, Run::Op32(per_lane!(|_e, a, b| ((i64::from(i(a)) * i64::from(i(b))) >> 32) as u32))),
    (op::v_lshlrev_b64, LSHLREV64),
    (op::v_lshlrev_b64_gfx12, LSHLREV64),
    (op::v_lshrrev_b64, Run::Op64(wide!(|_e, s| s[1] >> (s[0] & 63)))),
    (op::v_ashrrev_i64, Run::Op64(wide!(|_e, s| (s[1].cast_signed() >> (s[0] & 63)).cast_unsigned()))),
    (op::v_add_co_ci_u32, carry!(|a, b, c| carry_add(a, b, c), u32::MAX)),
    (op::v_sub_co_ci_u32, carry!(|a, b, c| borrow_sub(a, b, c), 0)),
    (op::v_subrev_co_ci_u32, carry!(|a, b, c| borrow_sub(b, a, c), 0)),
    (op::v_add_co_u32, carry!(|a, b, _c| carry_add(a, b, 0), u32::MAX)),
    (op::v_sub_co_u32, carry!(|a, b, _c| borrow_sub(a, b, 0), 0)),
    (op::v_subrev_co_u32, carry!(|a, b, _c| borrow_sub(b, a, 0), 0)),
    (op::v_mad_u64_u32, MAD_U64),
    (op::v_mad_co_u64_u32, MAD_U64),
    (op::v_mad_i64_i32, MAD_I64),
    (op::v_mad_co_i64_i32, MAD_I64),
];

/// Sums of absolute differences over four windows, for `v_mqsad_u32_u8`.
pub(super) fn windows(a: u64, b: u32, bias: [u32; 4], clamp: bool) -> [u32; 4] {
    core::array::from_fn(|window| {
        accumulate(masked_distances((a >> (window * 8)) as u32, b), bias[window], clamp)
    })
}
