//! Every arithmetic instruction on fixed inputs, against an emulator of AMD's pseudo-code that is not ours.
//!
//! The results come from `tests/goldens/soft/table.py`; inputs are computed on both sides.

use doorbell_isa::kind::Type;
use doorbell_isa::{Inst, Op, Operand, Scalar, Target, Timing, decode, op, s, s_range, v};
use doorbell_soft::processor::{Level, Options};
use std::collections::BTreeSet;

use crate::program::{Machine, assemble};

const LANES: usize = 16;
const EDGES: [u32; 16] = [
    0,
    0x8000_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x3c00_3c00,
    0xbc00_4000,
    0x7fff_ffff,
    0xffff_ffff,
    0x0001_0001,
    0x8000_8000,
    0x4049_0fdb,
    0x0000_ffff,
    0x0000_0005,
    0x4b00_0001,
];

/// Rows where that emulator is known to be wrong or AMD's text leaves the value open.
static EXCEPTIONS: &[(&str, &str)] = &[
    ("s_bfe_i32", "a width of 32 and more is not defined"),
    ("s_bfe_i64", "a width of 32 and more is not defined"),
    ("v_cvt_i32_f64", "it does not saturate"),
    ("v_cvt_i32_f32", "it does not saturate"),
    ("v_cvt_nearest_i32_f32", "it does not saturate"),
    ("v_cvt_floor_i32_f32", "it does not saturate"),
    ("v_cvt_off_f32_i4", "it loses the sign of zero, or its value for zero, infinity or NaN is not AMD's"),
    ("v_cvt_f32_f64", "it flushes denormals whatever MODE says"),
    ("v_cvt_f64_f32", "it flushes denormals whatever MODE says"),
    ("v_rndne_f64", "it loses the sign of zero, or its value for zero, infinity or NaN is not AMD's"),
    ("v_fract_f32", "it flushes denormals whatever MODE says"),
    ("v_rndne_f32", "it loses the sign of zero, or its value for zero, infinity or NaN is not AMD's"),
    ("v_floor_f32", "it flushes denormals whatever MODE says"),
    ("v_sqrt_f32", "it flushes denormals whatever MODE says"),
    ("v_fract_f64", "it flushes denormals whatever MODE says"),
    ("v_frexp_exp_i32_f32", "it loses the sign of zero, or its value for zero, infinity or NaN is not AMD's"),
    ("v_frexp_mant_f32", "it loses the sign of zero, or its value for zero, infinity or NaN is not AMD's"),
    ("v_cvt_u16_f16", "it does not saturate"),
    ("v_cvt_i16_f16", "it does not saturate"),
    ("v_frexp_exp_i16_f16", "it loses the sign of zero, or its value for zero, infinity or NaN is not AMD's"),
    ("v_rndne_f16", "it loses the sign of zero, or its value for zero, infinity or NaN is not AMD's"),
    ("v_fract_f16", "it loses the sign of zero, or its value for zero, infinity or NaN is not AMD's"),
    ("v_cos_f16", "it loses the sign of zero, or its value for zero, infinity or NaN is not AMD's"),
    ("v_cvt_norm_i16_f16", "it does not saturate"),
    ("v_cvt_norm_u16_f16", "it does not saturate"),
    ("v_dot2acc_f32_f16", "it flushes denormals whatever MODE says"),
    ("v_fmac_dx9_zero_f32", "it flushes denormals whatever MODE says"),
    ("v_mul_dx9_zero_f32", "it flushes denormals whatever MODE says"),
    ("v_mul_f32", "it flushes denormals whatever MODE says"),
    ("v_mul_i32_i24", "it does not cut factors to 24 bits"),
    ("v_mul_hi_i32_i24", "it does not cut factors to 24 bits"),
    ("v_mul_u32_u24", "it does not cut factors to 24 bits"),
    ("v_mul_hi_u32_u24", "it does not cut factors to 24 bits"),
    ("v_fmac_f32", "it flushes denormals whatever MODE says"),
    ("v_cvt_pk_rtz_f16_f32", "it does not saturate"),
    ("v_ldexp_f16", "it loses the sign of zero, or its value for zero, infinity or NaN is not AMD's"),
    ("v_fma_dx9_zero_f32", "it flushes denormals whatever MODE says"),
    ("v_mad_i32_i24", "it does not cut factors to 24 bits"),
    ("v_mad_u32_u24", "it does not cut factors to 24 bits"),
    ("v_fma_f32", "it flushes denormals whatever MODE says"),
    ("v_mullit_f32", "it flushes denormals whatever MODE says"),
    ("v_min3_f32", "it flushes denormals whatever MODE says"),
    ("v_med3_f32", "it flushes denormals whatever MODE says"),
    ("v_div_fixup_f32", "it flushes denormals whatever MODE says"),
    ("v_div_fmas_f32", "it flushes denormals whatever MODE says"),
    ("v_mqsad_pk_u16_u8", "it loses the sign of zero, or its value for zero, infinity or NaN is not AMD's"),
    ("v_permlanex16_b32", "it ignores inactive source lanes"),
    ("v_maxmin_f32", "it flushes denormals whatever MODE says"),
    ("v_minmax_f32", "it flushes denormals whatever MODE says"),
    ("v_dot2_bf16_bf16", "it flushes denormals whatever MODE says"),
    ("v_cvt_pk_i16_f32", "it does not saturate"),
    ("v_cvt_pk_u16_f32", "it does not saturate"),
    ("v_cvt_pk_norm_i16_f16", "it does not saturate"),
    ("v_cvt_pk_norm_u16_f16", "it does not saturate"),
    ("v_ldexp_f32", "it flushes denormals whatever MODE says"),
    ("v_cvt_pk_norm_i16_f32", "it does not saturate"),
    ("v_cvt_pk_norm_u16_f32", "it does not saturate"),
    ("v_cvt_pk_u16_u32", "it does not saturate"),
    ("v_cvt_pk_i16_i32", "it does not saturate"),
    ("v_mul_f64", "it flushes denormals whatever MODE says"),
    ("v_trig_preop_f64", "it loses the sign of zero, or its value for zero, infinity or NaN is not AMD's"),
    ("v_div_scale_f32", "it flushes denormals whatever MODE says"),
    ("v_div_scale_f64", "it flushes denormals whatever MODE says"),
    ("v_mad_u64_u32", "it has no carry out"),
    ("v_mad_i64_i32", "it has no carry out"),
    ("v_pk_min_f16", "it loses the sign of zero, or its value for zero, infinity or NaN is not AMD's"),
    ("v_pk_max_f16", "it loses the sign of zero, or its value for zero, infinity or NaN is not AMD's"),
    ("v_dot2_f32_bf16", "it flushes denormals whatever MODE says"),
    ("v_fma_mix_f32", "it flushes denormals whatever MODE says"),
    ("v_wmma_f32_16x16x16_f16", "rounding inside is not documented, or it takes all elements as signed"),
    ("v_wmma_f32_16x16x16_bf16", "rounding inside is not documented, or it takes all elements as signed"),
    ("v_wmma_f16_16x16x16_f16", "rounding inside is not documented, or it takes all elements as signed"),
    ("v_wmma_bf16_16x16x16_bf16", "rounding inside is not documented, or it takes all elements as signed"),
    ("v_wmma_i32_16x16x16_iu8", "rounding inside is not documented, or it takes all elements as signed"),
    ("v_wmma_i32_16x16x16_iu4", "rounding inside is not documented, or it takes all elements as signed"),
    ("v_min3_num_f32", "it flushes denormals whatever MODE says"),
    ("v_minimum3_f32", "it flushes denormals whatever MODE says"),
    ("v_maximum3_f32", "it flushes denormals whatever MODE says"),
    ("v_minimum3_f16", "its value for NaN is not AMD's"),
    ("v_maximum3_f16", "its value for NaN is not AMD's"),
    ("v_med3_num_f32", "it flushes denormals whatever MODE says"),
    ("v_minmax_num_f32", "it flushes denormals whatever MODE says"),
    ("v_maxmin_num_f32", "it flushes denormals whatever MODE says"),
    ("v_minimummaximum_f32", "it flushes denormals whatever MODE says"),
    ("v_maximumminimum_f32", "it flushes denormals whatever MODE says"),
    ("v_minimummaximum_f16", "its value for NaN is not AMD's"),
    ("v_maximumminimum_f16", "its value for NaN is not AMD's"),
    ("v_permlanex16_var_b32", "it ignores inactive source lanes"),
    ("v_cvt_pk_fp8_f32", "it flushes denormals whatever MODE says"),
    ("v_mad_co_u64_u32", "it has no carry out"),
    ("v_mad_co_i64_i32", "it has no carry out"),
    ("v_pk_min_num_f16", "its value for NaN is not AMD's"),
    ("v_pk_max_num_f16", "its value for NaN is not AMD's"),
    ("v_pk_minimum_f16", "its value for NaN is not AMD's"),
    ("v_pk_maximum_f16", "its value for NaN is not AMD's"),
    ("v_dot4_f32_fp8_bf8", "it takes the elements as integers, or as signed ones"),
    ("v_dot4_f32_bf8_fp8", "it takes the elements as integers, or as signed ones"),
    ("v_dot4_f32_fp8_fp8", "it takes the elements as integers, or as signed ones"),
    ("v_dot4_f32_bf8_bf8", "it takes the elements as integers, or as signed ones"),
    ("v_wmma_f32_16x16x16_fp8_fp8", "it takes the elements as integers, or as signed ones"),
    ("v_wmma_f32_16x16x16_fp8_bf8", "it takes the elements as integers, or as signed ones"),
    ("v_wmma_f32_16x16x16_bf8_fp8", "it takes the elements as integers, or as signed ones"),
    ("v_wmma_f32_16x16x16_bf8_bf8", "it takes the elements as integers, or as signed ones"),
    ("v_wmma_i32_16x16x32_iu4", "it takes the elements as integers, or as signed ones"),
];

fn word(number: u64) -> u32 {
    let z = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let z = z ^ z >> 31;
    if z & 3 == 0 { EDGES[(z >> 8 & 15) as usize] } else { (z >> 32) as u32 }
}

fn pair(first: u8) -> Operand {
    Operand::Scalar(Scalar { first, count: 2 })
}

fn wait(target: Target) -> Vec<Inst> {
    let zero = [Operand::Immediate(0)];
    match target {
        Target::Gfx1200 => vec![Inst::new(op::s_wait_kmcnt, zero), Inst::new(op::s_wait_loadcnt, zero)],
        _ => vec![Inst::new(op::s_waitcnt, zero)],
    }
}

/// The registers as the script sets them.
fn before(target: Target) -> Vec<Inst> {
    let mut code = vec![
        Inst::new(op::s_load_b64, [s_range(92, 2), s_range(0, 2), Operand::Off]),
        Inst::new(op::s_load_b64, [s_range(94, 2), s_range(0, 2), Operand::Off]).offset(8),
    ];
    code.extend(wait(target));
    code.push(Inst::new(op::v_lshlrev_b32, [v(240), Operand::Int(2), v(0)]));
    for number in 2..26_u8 {
        let offset = (i32::from(number) - 2) * LANES as i32 * 4;
        code.push(Inst::new(op::global_load_b32, [v(number), v(240), pair(92)]).offset(offset));
    }
    for number in 2..10_u8 {
        let offset = 24 * LANES as i32 * 4 + (i32::from(number) - 2) * 4;
        code.push(Inst::new(op::s_load_b32, [s(number), pair(92), Operand::Off]).offset(offset));
    }
    code.extend(wait(target));
    code.push(Inst::new(op::s_mov_b32, [Operand::VCC_LO, Operand::Literal(0xa5c3)]));
    for number in [16, 17, 20] {
        code.push(Inst::new(op::s_mov_b32, [s(number), Operand::Int(0)]));
    }
    code.push(Inst::new(op::s_cmp_eq_u32, [s(0), s(0)]));
    code
}

fn after(target: Target) -> Vec<Inst> {
    let mut code = vec![
        Inst::new(op::s_cselect_b32, [s(90), Operand::Int(1), Operand::Int(0)]),
        Inst::new(op::s_mov_b32, [s(91), Operand::VCC_LO]),
        Inst::new(op::s_mov_b32, [Operand::EXEC_LO, Operand::Literal(0xffff)]),
    ];
    code.extend(wait(target));
    let row = |index: i32| index * LANES as i32 * 4;
    for number in 16..24_u8 {
        let store = Inst::new(op::global_store_b32, [v(240), v(number), pair(94)]);
        code.push(store.offset(row(i32::from(number) - 16)));
    }
    for (index, register) in (8..).zip([16, 17, 20, 91, 90]) {
        code.push(Inst::new(op::v_mov_b32, [v(243), s(register)]));
        code.push(Inst::new(op::global_store_b32, [v(240), v(243), pair(94)]).offset(row(index)));
    }
    code.push(Inst::new(op::s_endpgm, [Operand::Immediate(0)]));
    code
}

fn hex(text: &str) -> Vec<u32> {
    text.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap()).collect()
}

/// State after the instruction: v16 to v23 of 16 lanes, then s16, s17, s20, VCC, SCC.
fn run(words: &[u32], target: Target) -> Result<(Vec<u32>, Vec<u32>), String> {
    let mut code = assemble(&before(target), target);
    code.extend(words);
    code.extend(assemble(&after(target), target));
    let mut machine = Machine::new(&code);
    let memory = machine.space.allocate("memory", 16384).unwrap();
    for index in 0..24 * LANES + 8 {
        memory.store32(index * 4, word(index as u64));
    }
    memory.store64(8192, memory.address());
    memory.store64(8200, memory.address() + 12288);
    let options = Options { level: Level::Fast, budget: 10_000, ..Options::default() };
    let dispatch = machine.dispatch(LANES as u32, memory.address() + 8192);
    machine.run(target, options, dispatch).map_err(|fault| fault.to_string())?;
    let vector = (0..8 * LANES).map(|at| memory.load32(12288 + at * 4)).collect();
    let scalar = (0..5).map(|at| memory.load32(12288 + (8 + at) * LANES * 4)).collect();
    Ok((vector, scalar))
}

fn close(expected: f64, found: f64) -> bool {
    (expected - found).abs() <= expected.abs().max(found.abs()) * 2e-3
        || (expected.abs() < 1e-35 && found.abs() < 1e-35)
}

fn half(bits: u32) -> f32 {
    ::half::f16::from_bits(bits as u16).to_f32()
}

/// Whether two results agree: NaNs as such, transcendental ones within the error of either side.
fn agree(op: Op, expected: u32, found: u32) -> bool {
    let row = op.row();
    let loose = matches!(row.timing, Timing::Trans | Timing::F64Trans);
    let single = |bits: u32| f32::from_bits(bits);
    let same16 = |a: u32, b: u32| {
        let (x, y) = (half(a), half(b));
        a & 0xffff == b & 0xffff || (x.is_nan() && y.is_nan()) || (loose && close(x.into(), y.into()))
    };
    if expected == found {
        return true;
    }
    match row.dst.first().map(|kind| kind.ty) {
        Some(Type::F32 | Type::B256) => {
            let (x, y) = (single(expected), single(found));
            (x.is_nan() && y.is_nan()) || (loose && close(x.into(), y.into()))
        }
        Some(Type::F16 | Type::PF16 | Type::BF16) => {
            same16(expected, found) && same16(expected >> 16, found >> 16)
        }
        // High words of NaN doubles; low words and rounding of double transcendental results.
        Some(Type::F64) => {
            let nan = |bits: u32| bits & 0x7ff0_0000 == 0x7ff0_0000;
            loose || (nan(expected) && nan(found))
        }
        _ => false,
    }
}

/// Instructions of the table of results.
pub(crate) fn judged() -> BTreeSet<Op> {
    let lines = include_str!("../goldens/soft/table.txt").lines();
    let ops = lines.filter_map(|line| {
        let mut parts = line.split(" | ");
        let target = Target::from_name(parts.next()?.split(' ').next()?)?;
        decode(&hex(parts.next()?), target).ok().map(|(inst, _)| inst.op)
    });
    ops.filter(|op| !EXCEPTIONS.iter().any(|exception| exception.0 == op.name())).collect()
}

#[test]
fn arithmetic_agrees_with_an_emulator_of_the_pseudo_code() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("../goldens/soft/table.txt").lines() {
        let parts: Vec<&str> = line.split(" | ").collect();
        let (chip, name) = parts[0].split_once(' ').unwrap();
        if EXCEPTIONS.iter().any(|exception| exception.0 == name) {
            continue;
        }
        let target = Target::from_name(chip).unwrap();
        let words = hex(parts[1]);
        let op = decode(&words, target).unwrap().0.op;
        let (vector, scalar) = (hex(parts[2]), hex(parts[3]));
        count += 1;
        match run(&words, target) {
            Err(why) => wrong.push(format!("{chip} {name}: {why}")),
            Ok((found, flags)) => {
                let pairs = vector.iter().zip(&found).enumerate();
                let bad = pairs.filter(|(_, (expected, found))| !agree(op, **expected, **found));
                for (at, (expected, found)) in bad.take(1) {
                    let (register, lane) = (16 + at / LANES, at % LANES);
                    let inputs: Vec<String> = [0, 1, 2, 3, 4, 5]
                        .iter()
                        .map(|r| format!("{:x}", word((r * LANES + lane) as u64)))
                        .collect();
                    wrong.push(format!(
                        "{chip} {name}: v{register} lane {lane}: {expected:x} expected, {found:x} found; v2.. {}",
                        inputs.join(" ")
                    ));
                }
                if scalar != flags {
                    wrong.push(format!(
                        "{chip} {name}: s16 s17 s20 vcc scc {scalar:x?} expected, {flags:x?} found"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 600, "{count}");
}
