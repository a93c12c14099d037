//! Every arithmetic instruction on fixed inputs, against an emulator of AMD's pseudo-code that is not ours.
//!
//! The results come from `tests/goldens/soft/table.py`; inputs are computed on both sides.

use doorbell_isa::operand_kind::Type;
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

/// The reason why the emulator's value is not used, and its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    /// It flushes single denormals, as the MODE of its authors' runs on hardware does (their tests
    /// `test_denormal_f32_mul_ftz` and `test_div_scale_f32_denorm_denom`). Under that MODE both agree, which is tested.
    Flushing,
    /// It flushes where that MODE does not, or only some of the operands: doubles, results of fp8, bfloat16 factors,
    /// division steps.
    Denormals,
    /// AMD's text names a third source that the instruction does not have; the addend is the destination.
    Addend,
    /// Out-of-range conversions saturate or round toward zero: AMD's documents, conversions. It wraps or gives infinity.
    Saturation,
    /// The sum or fraction is cut to 24 bits: types i24 and u24 of AMD's text. It multiplies whole words.
    Cut,
    /// A zero result keeps the operand's sign: IEEE 754 roundToIntegral, to which LLVM maps these. AMD's text, taken
    /// literally as it does, adds one half first.
    SignOfZero,
    /// LLVM folds the least of x - floor(x) and the largest value below one into the instruction; it may give one.
    BelowOne,
    /// LLVM's frexp is the bare pair of instructions, so zero gives exponent zero and denormals are normalized.
    Frexp,
    /// LLVM's ldexp is the bare instruction, so zero stays zero; it multiplies by an infinite power.
    Ldexp,
    /// A NaN operand loses against a number, or wins where the name says minimum or maximum: AMD's text per instruction.
    Nan,
    /// Carry out, bit 64 of the sum: AMD's text. It writes none.
    Carry,
    /// Bytes whose reference is zero are left out: AMD's text of `v_msad_u8`, which this one calls.
    Masked,
    /// Source lanes that are off are not read without fetch-inactive: AMD's documents, lane permutes; LLVM's operands.
    InactiveSource,
    /// Elements are bfloat16, fp8 or bf8: AMD's text. It reads them as integers.
    Elements,
    /// The table of sixteen values is not in AMD's text; it gives zero. The name says i4, the offset is sixteenths.
    Table,
    /// It has too few digits of 2/pi for late segments.
    Digits,
    /// It multiplies by two pi in half precision; the argument is in turns.
    Turns,
    /// Widths of 32 and more are not defined by AMD's text.
    Width,
    /// It takes elements as signed, or rounds where AMD does not say how. Matrices with exact sums: `rows.rs`.
    Matrix,
}

use Reason::{
    Addend, BelowOne, Carry, Cut, Denormals, Digits, Elements, Flushing, Frexp, InactiveSource, Ldexp,
    Masked, Matrix, Nan, Saturation, SignOfZero, Table, Turns, Width,
};

/// Rows where that emulator is wrong, or AMD's text leaves the value open: none of them is left unjudged. The values of all
/// but matrices and `Flushing` come from `tests/goldens/soft/rows/exceptions.py`.
static EXCEPTIONS: &[(&str, Reason)] = &[
    ("s_bfe_i32", Width),
    ("s_bfe_i64", Width),
    ("v_cvt_i32_f64", Saturation),
    ("v_cvt_i32_f32", Saturation),
    ("v_cvt_nearest_i32_f32", Saturation),
    ("v_cvt_floor_i32_f32", Saturation),
    ("v_cvt_off_f32_i4", Table),
    ("v_cvt_f32_f64", Flushing),
    ("v_cvt_f64_f32", Flushing),
    ("v_rndne_f64", SignOfZero),
    ("v_fract_f32", BelowOne),
    ("v_rndne_f32", SignOfZero),
    ("v_floor_f32", Flushing),
    ("v_sqrt_f32", Flushing),
    ("v_fract_f64", BelowOne),
    ("v_frexp_exp_i32_f32", Frexp),
    ("v_frexp_mant_f32", Frexp),
    ("v_cvt_u16_f16", Saturation),
    ("v_cvt_i16_f16", Saturation),
    ("v_frexp_exp_i16_f16", Frexp),
    ("v_rndne_f16", SignOfZero),
    ("v_fract_f16", BelowOne),
    ("v_cos_f16", Turns),
    ("v_cvt_norm_i16_f16", Saturation),
    ("v_cvt_norm_u16_f16", Saturation),
    ("v_dot2acc_f32_f16", Flushing),
    ("v_fmac_dx9_zero_f32", Addend),
    ("v_mul_dx9_zero_f32", Flushing),
    ("v_mul_f32", Flushing),
    ("v_mul_i32_i24", Cut),
    ("v_mul_hi_i32_i24", Cut),
    ("v_mul_u32_u24", Cut),
    ("v_mul_hi_u32_u24", Cut),
    ("v_fmac_f32", Flushing),
    ("v_cvt_pk_rtz_f16_f32", Saturation),
    ("v_ldexp_f16", Ldexp),
    ("v_fma_dx9_zero_f32", Flushing),
    ("v_mad_i32_i24", Cut),
    ("v_mad_u32_u24", Cut),
    ("v_fma_f32", Flushing),
    ("v_mullit_f32", Flushing),
    ("v_min3_f32", Flushing),
    ("v_med3_f32", Flushing),
    ("v_div_fixup_f32", Denormals),
    ("v_div_fmas_f32", Flushing),
    ("v_mqsad_pk_u16_u8", Masked),
    ("v_permlanex16_b32", InactiveSource),
    ("v_maxmin_f32", Flushing),
    ("v_minmax_f32", Flushing),
    ("v_dot2_bf16_bf16", Elements),
    ("v_cvt_pk_i16_f32", Saturation),
    ("v_cvt_pk_u16_f32", Saturation),
    ("v_cvt_pk_norm_i16_f16", Saturation),
    ("v_cvt_pk_norm_u16_f16", Saturation),
    ("v_ldexp_f32", Ldexp),
    ("v_cvt_pk_norm_i16_f32", Saturation),
    ("v_cvt_pk_norm_u16_f32", Saturation),
    ("v_cvt_pk_u16_u32", Saturation),
    ("v_cvt_pk_i16_i32", Saturation),
    ("v_mul_f64", Denormals),
    ("v_trig_preop_f64", Digits),
    ("v_div_scale_f32", Denormals),
    ("v_div_scale_f64", Denormals),
    ("v_mad_u64_u32", Carry),
    ("v_mad_i64_i32", Carry),
    ("v_pk_min_f16", Nan),
    ("v_pk_max_f16", Nan),
    ("v_dot2_f32_bf16", Denormals),
    ("v_fma_mix_f32", Flushing),
    ("v_wmma_f32_16x16x16_f16", Matrix),
    ("v_wmma_f32_16x16x16_bf16", Matrix),
    ("v_wmma_f16_16x16x16_f16", Matrix),
    ("v_wmma_bf16_16x16x16_bf16", Matrix),
    ("v_wmma_i32_16x16x16_iu8", Matrix),
    ("v_wmma_i32_16x16x16_iu4", Matrix),
    ("v_min3_num_f32", Flushing),
    ("v_minimum3_f32", Nan),
    ("v_maximum3_f32", Nan),
    ("v_minimum3_f16", Nan),
    ("v_maximum3_f16", Nan),
    ("v_med3_num_f32", Flushing),
    ("v_minmax_num_f32", Flushing),
    ("v_maxmin_num_f32", Flushing),
    ("v_minimummaximum_f32", Nan),
    ("v_maximumminimum_f32", Nan),
    ("v_minimummaximum_f16", Nan),
    ("v_maximumminimum_f16", Nan),
    ("v_permlanex16_var_b32", InactiveSource),
    ("v_cvt_pk_fp8_f32", Denormals),
    ("v_mad_co_u64_u32", Carry),
    ("v_mad_co_i64_i32", Carry),
    ("v_pk_min_num_f16", Nan),
    ("v_pk_max_num_f16", Nan),
    ("v_pk_minimum_f16", Nan),
    ("v_pk_maximum_f16", Nan),
    ("v_dot4_f32_fp8_bf8", Elements),
    ("v_dot4_f32_bf8_fp8", Elements),
    ("v_dot4_f32_fp8_fp8", Elements),
    ("v_dot4_f32_bf8_bf8", Elements),
    ("v_wmma_f32_16x16x16_fp8_fp8", Matrix),
    ("v_wmma_f32_16x16x16_fp8_bf8", Matrix),
    ("v_wmma_f32_16x16x16_bf8_fp8", Matrix),
    ("v_wmma_f32_16x16x16_bf8_bf8", Matrix),
    ("v_wmma_i32_16x16x32_iu4", Matrix),
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
fn run(words: &[u32], target: Target, mode: u32) -> Result<(Vec<u32>, Vec<u32>), String> {
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
    let mut dispatch = machine.dispatch(LANES as u32, memory.address() + 8192);
    dispatch.mode = mode;
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

/// True if two results agree: NaNs as such, transcendental ones within the error of either side.
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

/// MODE with single denormals, and without.
const KEEPING: u32 = 0x3f0;
const FLUSHING: u32 = 0x3c0;

/// A line of results: chip, mnemonic, dwords, vector registers, scalars.
struct Line<'a> {
    chip: &'a str,
    name: &'a str,
    words: Vec<u32>,
    vector: Vec<u32>,
    scalar: Vec<u32>,
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().map(|line| {
        let parts: Vec<&str> = line.split(" | ").collect();
        let (chip, name) = parts[0].split_once(' ').unwrap();
        Line { chip, name, words: hex(parts[1]), vector: hex(parts[2]), scalar: hex(parts[3]) }
    })
}

/// The difference between the processor and a line, if there is one.
fn difference(line: &Line<'_>, mode: u32) -> Option<String> {
    let Line { chip, name, words, vector, scalar } = line;
    let target = Target::from_name(chip).unwrap();
    let op = decode(words, target).unwrap().0.op;
    let (found, flags) = match run(words, target, mode) {
        Err(why) => return Some(format!("{chip} {name}: {why}")),
        Ok(state) => state,
    };
    let mut pairs = vector.iter().zip(&found).enumerate();
    if let Some((at, (expected, found))) =
        pairs.find(|(_, (expected, found))| !agree(op, **expected, **found))
    {
        let (register, lane) = (16 + at / LANES, at % LANES);
        let input = |r: usize| format!("{:x}", word((r * LANES + lane) as u64));
        let inputs: Vec<String> = (0..6).map(input).collect();
        return Some(format!(
            "{chip} {name}: v{register} lane {lane}: {expected:x} expected, {found:x} found; v2.. {}",
            inputs.join(" ")
        ));
    }
    (*scalar != flags)
        .then(|| format!("{chip} {name}: s16 s17 s20 vcc scc {scalar:x?} expected, {flags:x?} found"))
}

fn reason(name: &str) -> Option<Reason> {
    EXCEPTIONS.iter().find(|exception| exception.0 == name).map(|exception| exception.1)
}

const EMULATOR: &str = include_str!("../goldens/soft/table.txt");
const OURS: &str = include_str!("../goldens/soft/exceptions.txt");

/// Instructions of the emulator's table that agree with it.
pub(crate) fn judged() -> BTreeSet<Op> {
    let agrees = |line: &Line<'_>| matches!(reason(line.name), None | Some(Flushing));
    let ops = lines(EMULATOR).filter(agrees).filter_map(|line| {
        let target = Target::from_name(line.chip)?;
        decode(&line.words, target).ok().map(|(inst, _)| inst.op)
    });
    ops.collect()
}

#[test]
fn arithmetic_agrees_with_an_emulator_of_the_pseudo_code() {
    let plain: Vec<Line<'_>> = lines(EMULATOR).filter(|line| reason(line.name).is_none()).collect();
    let wrong: Vec<String> = plain.iter().filter_map(|line| difference(line, KEEPING)).collect();
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), plain.len(), wrong.join("\n"));
    assert!(plain.len() > 600, "{}", plain.len());
}

#[test]
fn rows_that_flush_agree_with_it_in_the_mode_of_its_authors() {
    let rows: Vec<Line<'_>> = lines(EMULATOR).filter(|line| reason(line.name) == Some(Flushing)).collect();
    let wrong: Vec<String> = rows.iter().filter_map(|line| difference(line, FLUSHING)).collect();
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn every_exception_is_one_and_has_the_value_of_the_documents() {
    let needless: Vec<&str> = lines(EMULATOR)
        .filter(|line| reason(line.name).is_some() && difference(line, KEEPING).is_none())
        .map(|line| line.name)
        .collect();
    assert!(needless.is_empty(), "the emulator agrees: {needless:?}");
    let wrong: Vec<String> = lines(OURS).filter_map(|line| difference(&line, KEEPING)).collect();
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
    let judged: BTreeSet<&str> = lines(OURS).map(|line| line.name).collect();
    let left: Vec<&str> = EXCEPTIONS
        .iter()
        .filter(|(name, reason)| !judged.contains(name) && *reason != Matrix)
        .map(|(name, _)| *name)
        .collect();
    assert!(left.is_empty(), "without a value: {left:?}");
    assert!(EXCEPTIONS.len() <= 104);
}
