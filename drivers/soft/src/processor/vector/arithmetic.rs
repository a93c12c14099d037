//! Single-precision sums, products, fused products and cube-map helpers.
//!
//! Not here: minima (`minmax.rs`), conversions, transcendentals, division steps.

use doorbell_isa::{Op, op};

use super::super::env::Env;
use super::super::float::{add32, fma32, mul32};
use super::super::handler::Run;
use super::super::mode::Round;
use super::super::registers::Lanes;
use super::lane_loops::per_lane;

/// The single with these bits.
#[inline]
pub(super) fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

/// Zero if either factor is zero, whatever the other is.
fn dx9_mul(a: u32, b: u32, round: Round) -> f32 {
    if f(a) == 0.0 || f(b) == 0.0 { 0.0 } else { mul32(f(a), f(b), round) }
}

fn dx9_fma(a: u32, b: u32, c: u32, round: Round) -> f32 {
    if f(a) == 0.0 || f(b) == 0.0 { f(c) } else { fma32(f(a), f(b), f(c), round) }
}

/// A handler with a plain loop for the usual rounding and another one for the rest.
macro_rules! rounded {
    (|$a:ident, $b:ident| $nearest:expr, |$round:ident| $other:expr) => {
        Run::Op32(|e, s, out| {
            let $round = e.round32;
            if $round == Round::Nearest {
                let [a, b, _] = *s;
                e.simd.run(
                    #[inline(always)]
                    move || {
                        let mut value = [0; 32];
                        let mut lane = 0;
                        while lane < 32 {
                            let ($a, $b) = (a[lane], b[lane]);
                            value[lane] = $nearest.to_bits();
                            lane += 1;
                        }
                        *out = value;
                    },
                );
            } else {
                for ((out, &$a), &$b) in out.iter_mut().zip(s[0]).zip(s[1]) {
                    *out = $other.to_bits();
                }
            }
        })
    };
}

const ADD: Run = rounded!(|a, b| f(a) + f(b), |round| add32(f(a), f(b), round));
const SUB: Run = rounded!(|a, b| f(a) - f(b), |round| add32(f(a), -f(b), round));
const SUBREV: Run = rounded!(|a, b| f(b) - f(a), |round| add32(f(b), -f(a), round));
const MUL: Run = rounded!(|a, b| f(a) * f(b), |round| mul32(f(a), f(b), round));
const FMA: Run = Run::Op32(|e, s, out| fused(e, s[0], s[1], s[2], out));
const FMAC: Run = Run::Op32(|e, s, out| {
    let accumulator = *out;
    fused(e, s[0], s[1], &accumulator, out);
});

/// Fused products of all lanes.
fn fused(env: &Env, a: &Lanes, b: &Lanes, c: &Lanes, out: &mut Lanes) {
    let round = env.round32;
    if round != Round::Nearest || !env.simd.fused(a, b, c, out) {
        fused_in_f64(round, a, b, c, out);
    }
}

/// The same without the host's instruction. The product is exact in f64, so rounding the sum there and then to f32 is
/// wrong only where the f64 is a tie of two singles, or denormal as a single; then every lane is done the long way.
fn fused_in_f64(round: Round, a: &Lanes, b: &Lanes, c: &Lanes, out: &mut Lanes) {
    const SMALL: f64 = 2.0 * f32::MIN_POSITIVE as f64;
    let mut doubtful = u32::from(round != Round::Nearest);
    let mut fast = [0; 32];
    for (((fast, &a), &b), &c) in fast.iter_mut().zip(a).zip(b).zip(c) {
        let sum = f64::from(f(a)) * f64::from(f(b)) + f64::from(f(c));
        let tie = sum.to_bits() & 0x1fff_ffff == 0x1000_0000;
        let small = sum.abs() < SMALL;
        doubtful |= u32::from(tie | (small & (sum != 0.0)));
        *fast = (sum as f32).to_bits();
    }
    if doubtful == 0 {
        *out = fast;
        return;
    }
    for (((out, &a), &b), &c) in out.iter_mut().zip(a).zip(b).zip(c) {
        *out = fma32(f(a), f(b), f(c), round).to_bits();
    }
}
/// Second source is the constant of `fmamk`: a * K + b, in text order a, K, b.
const FMAMK: Run = FMA;

/// Component of largest magnitude: 0 x, 1 y, 2 z.
fn major(x: f32, y: f32, z: f32) -> usize {
    let [x, y, z] = [x, y, z].map(f32::abs);
    if z >= x && z >= y {
        2
    } else if y >= x {
        1
    } else {
        0
    }
}

fn cube_id(x: f32, y: f32, z: f32) -> f32 {
    let axis = major(x, y, z);
    let face = axis * 2 + usize::from([x, y, z][axis] < 0.0);
    face as f32
}

fn cube_sc(x: f32, y: f32, z: f32) -> f32 {
    match major(x, y, z) {
        2 if z < 0.0 => -x,
        2 | 1 => x,
        _ if x < 0.0 => z,
        _ => -z,
    }
}

fn cube_tc(x: f32, y: f32, z: f32) -> f32 {
    match major(x, y, z) {
        1 if y < 0.0 => -z,
        1 => z,
        _ => -y,
    }
}

fn cube_ma(x: f32, y: f32, z: f32) -> f32 {
    [x, y, z][major(x, y, z)] * 2.0
}

fn mullit(a: f32, b: f32, c: f32, round: Round) -> f32 {
    let excluded = b == f32::MIN || b == f32::NEG_INFINITY || b.is_nan() || c <= 0.0 || c.is_nan();
    if excluded { f32::MIN } else { mul32(a, b, round) }
}

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::v_add_f32, ADD),
    (op::v_dual_add_f32, ADD),
    (op::v_sub_f32, SUB),
    (op::v_dual_sub_f32, SUB),
    (op::v_subrev_f32, SUBREV),
    (op::v_dual_subrev_f32, SUBREV),
    (op::v_mul_f32, MUL),
    (op::v_dual_mul_f32, MUL),
    (op::v_fma_f32, FMA),
    (op::v_fma_mix_f32, FMA),
    (op::v_fmac_f32, FMAC),
    (op::v_dual_fmac_f32, FMAC),
    (op::v_fmaak_f32, FMA),
    (op::v_dual_fmaak_f32, FMA),
    (op::v_fmamk_f32, FMAMK),
    (op::v_dual_fmamk_f32, FMAMK),
    (op::v_mul_dx9_zero_f32, DX9_MUL),
    (op::v_dual_mul_dx9_zero_f32, DX9_MUL),
    (op::v_fma_dx9_zero_f32, Run::Op32(per_lane!(|e, a, b, c| dx9_fma(a, b, c, e.round32).to_bits()))),
    (op::v_fmac_dx9_zero_f32, Run::Op32(per_lane!(|e, a, b; d| dx9_fma(a, b, *d, e.round32).to_bits()))),
    (op::v_cubeid_f32, Run::Op32(per_lane!(|_e, a, b, c| cube_id(f(a), f(b), f(c)).to_bits()))),
    (op::v_cubesc_f32, Run::Op32(per_lane!(|_e, a, b, c| cube_sc(f(a), f(b), f(c)).to_bits()))),
    (op::v_cubetc_f32, Run::Op32(per_lane!(|_e, a, b, c| cube_tc(f(a), f(b), f(c)).to_bits()))),
    (op::v_cubema_f32, Run::Op32(per_lane!(|_e, a, b, c| cube_ma(f(a), f(b), f(c)).to_bits()))),
    (op::v_mullit_f32, Run::Op32(per_lane!(|e, a, b, c| mullit(f(a), f(b), f(c), e.round32).to_bits()))),
];

const DX9_MUL: Run = Run::Op32(per_lane!(|e, a, b| dx9_mul(a, b, e.round32).to_bits()));
