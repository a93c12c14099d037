//! Register state after short sequences, against values that were checked on gfx1100 hardware.
//!
//! The values come from `tests/goldens/soft/values.py`.

use doorbell_isa::{Inst, Operand, Scalar, Target, decode, op, s, s_range, v};
use doorbell_soft::processor::{Level, Options};

use crate::program::{Machine, assemble};

const REGISTERS: u8 = 16;

/// State before: kernel arguments in s[80:81], item number in v255, everything else zero.
fn prologue() -> Vec<Inst> {
    let mut code = vec![
        Inst::new(op::s_mov_b32, [s(80), s(0)]),
        Inst::new(op::s_mov_b32, [s(81), s(1)]),
        Inst::new(op::v_mov_b32, [v(255), v(0)]),
    ];
    for number in 0..REGISTERS {
        code.push(Inst::new(op::v_mov_b32, [v(number), Operand::Int(0)]));
    }
    for number in 0..REGISTERS {
        code.push(Inst::new(op::s_mov_b32, [s(number), Operand::Int(0)]));
    }
    code.push(Inst::new(op::s_mov_b32, [Operand::VCC_LO, Operand::Int(0)]));
    code
}

/// Writes v0 to v15 of every lane, then s0 to s15, VCC, SCC and EXEC of lane 0.
fn epilogue(lanes: u32) -> Vec<Inst> {
    let exec = if lanes >= 32 { u32::MAX } else { (1 << lanes) - 1 };
    let address = Operand::Scalar(Scalar { first: 92, count: 2 });
    let mut code = vec![
        Inst::new(op::s_mov_b32, [s(90), Operand::VCC_LO]),
        Inst::new(op::s_cselect_b32, [s(91), Operand::Int(1), Operand::Int(0)]),
        Inst::new(op::s_mov_b32, [s(95), Operand::EXEC_LO]),
        Inst::new(op::s_mov_b32, [Operand::EXEC_LO, Operand::Literal(exec)]),
        Inst::new(op::s_waitcnt, [Operand::Immediate(0)]),
        Inst::new(op::s_load_b64, [s_range(92, 2), s_range(80, 2), Operand::Off]),
        Inst::new(op::s_waitcnt, [Operand::Immediate(0)]),
        Inst::new(op::v_lshlrev_b32, [v(240), Operand::Int(2), v(255)]),
    ];
    for number in 0..REGISTERS {
        let offset = i32::from(number) * lanes as i32 * 4;
        code.push(Inst::new(op::global_store_b32, [v(240), v(number), address]).offset(offset));
    }
    code.push(Inst::new(op::v_mov_b32, [v(240), Operand::Literal(lanes * 64)]));
    let scalars = (0..REGISTERS).map(s).chain([s(90), s(91), s(95)]);
    for (index, register) in (0..).zip(scalars) {
        code.push(Inst::new(op::v_mov_b32, [v(243), register]));
        code.push(Inst::new(op::global_store_b32, [v(240), v(243), address]).offset(index * 4));
    }
    code.push(Inst::new(op::s_endpgm, [Operand::Immediate(0)]));
    code
}

struct Case<'a> {
    name: &'a str,
    lanes: u32,
    words: Vec<u32>,
    vector: Vec<Vec<u32>>,
    scalar: Vec<u32>,
}

fn hex(text: &str) -> u32 {
    u32::from_str_radix(text, 16).unwrap()
}

fn parse(line: &str) -> Case<'_> {
    let parts: Vec<&str> = line.split(" | ").map(str::trim).collect();
    let lanes: u32 = parts[1].parse().unwrap();
    let mut vector = vec![vec![0; lanes as usize]; REGISTERS.into()];
    for field in parts[3].split_whitespace() {
        let (register, values) = field[1..].split_once(':').unwrap();
        let slot = &mut vector[register.parse::<usize>().unwrap()];
        match values.strip_suffix('*') {
            Some(value) => slot.fill(hex(value)),
            None => *slot = values.split(',').map(hex).collect(),
        }
    }
    let mut scalar = vec![0; usize::from(REGISTERS)];
    for field in parts[4].split_whitespace() {
        let (register, value) = field[1..].split_once('=').unwrap();
        scalar[register.parse::<usize>().unwrap()] = hex(value);
    }
    scalar.extend(parts[5..8].iter().map(|text| hex(text)));
    let words = parts[2].split_whitespace().map(hex).collect();
    Case { name: parts[0], lanes, words, vector, scalar }
}

/// NaNs are compared as such: their payload is not specified.
fn same(expected: u32, found: u32) -> bool {
    expected == found || (f32::from_bits(expected).is_nan() && f32::from_bits(found).is_nan())
}

fn text(case: &Case<'_>) -> String {
    let mut at = 0;
    let mut out = String::new();
    while at < case.words.len() {
        match decode(&case.words[at..], Target::Gfx1100) {
            Ok((inst, length)) => {
                out += &format!("  {}\n", inst.text(Target::Gfx1100));
                at += length;
            }
            Err(error) => return out + &format!("  {error}\n"),
        }
    }
    out
}

fn run(case: &Case<'_>, mode: u32) -> Result<(), String> {
    let mut words = assemble(&prologue(), Target::Gfx1100);
    words.extend(&case.words);
    words.extend(assemble(&epilogue(case.lanes), Target::Gfx1100));
    let mut machine = Machine::new(&words);
    let size = case.lanes.max(32) as usize * 64 + 19 * 4;
    let out = machine.space.allocate("out", size.max(4096)).unwrap();
    let arguments = machine.space.allocate("arguments", 4096).unwrap();
    arguments.store64(0, out.address());
    let mut dispatch = machine.dispatch(case.lanes, arguments.address());
    dispatch.mode = mode;
    let options = Options { level: Level::Fast, budget: 1_000_000, ..Options::default() };
    machine.run(Target::Gfx1100, options, dispatch).map_err(|fault| fault.to_string())?;
    let mut wrong = Vec::new();
    for (register, lanes) in case.vector.iter().enumerate() {
        for (lane, expected) in lanes.iter().enumerate() {
            let found = out.load32((register * case.lanes as usize + lane) * 4);
            if !same(*expected, found) {
                wrong.push(format!("v{register} lane {lane}: {expected:#x} expected, {found:#x} found"));
            }
        }
    }
    for (index, expected) in case.scalar.iter().enumerate() {
        let found = out.load32(case.lanes as usize * 64 + index * 4);
        if !same(*expected, found) {
            let name = ["vcc", "scc", "exec"].get(index.wrapping_sub(16)).copied().unwrap_or("s");
            wrong.push(format!("{name}{index}: {expected:#x} expected, {found:#x} found"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.into_iter().take(4).collect::<Vec<_>>().join("; ")) }
}

/// The cases were recorded in a MODE that the harness of their authors leaves to the assembler's default; where
/// denormal singles matter, that is flushing.
const FLUSHING: u32 = 0x3c0;
const KEEPING: u32 = 0x3f0;

/// Cases whose machine code sets fields that no assembler sets (unused register fields, half registers in 32-bit
/// encodings) or belongs to instructions outside the table.
const FOREIGN_ENCODINGS: usize = 75;

fn is_decodable(case: &Case<'_>) -> bool {
    let mut at = 0;
    while at < case.words.len() {
        let Ok((_, length)) = decode(&case.words[at..], Target::Gfx1100) else { return false };
        at += length;
    }
    true
}

#[test]
fn registers_hold_the_values_that_hardware_gives() {
    let file = include_str!("../goldens/soft/values.txt");
    let cases: Vec<Case<'_>> = file.lines().map(parse).collect();
    let (decodable, foreign): (Vec<&Case<'_>>, Vec<&Case<'_>>) =
        cases.iter().partition(|case| is_decodable(case));
    let mut wrong = Vec::new();
    for case in &decodable {
        if let Err(why) = run(case, KEEPING)
            && run(case, FLUSHING).is_err()
        {
            wrong.push(format!("{}: {why}\n{}", case.name, text(case)));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(foreign.len() <= FOREIGN_ENCODINGS, "{} cases are not decoded", foreign.len());
    assert!(decodable.len() > 650);
}
