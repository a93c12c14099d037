//! Every hazard of the three generations: where it exists, the checker catches the bare code and is content with what
//! the inserting pass makes of it; where it does not, nothing is inserted.

use doorbell_compiler::check::binary;
use doorbell_compiler::machine::{Arg, Bank, Instr, Item, Line, Machine, Part, Physical};
use doorbell_compiler::pass::{allocate, emit, hazards, waits};
use doorbell_isa::{Inst, Op, Operand, Target, op, s, s_range, v, v_range};

const GFX11: Target = Target::Gfx1100;
const GFX115: Target = Target::Gfx1151;
const GFX12: Target = Target::Gfx1200;
const ALL: [Target; 3] = [GFX11, GFX115, GFX12];

fn code(insts: &[Inst], target: Target) -> Physical {
    let end = Inst::new(op::s_endpgm, [Operand::Immediate(0)]);
    let lines = insts.iter().chain([&end]).map(|inst| Line::Inst(*inst, None)).collect();
    Physical { target, blocks: vec![lines] }
}

fn is_clean(code: &Physical) -> bool {
    binary::check(&emit::emit(code).expect("encodes"), code.target).is_ok()
}

/// Instructions that the passes add, as text.
fn added(insts: &[Inst], target: Target) -> Vec<String> {
    let mut code = code(insts, target);
    waits::insert(&mut code);
    hazards::insert(&mut code);
    assert!(is_clean(&code), "{target}: {:?}", texts(&code));
    let mut rest = insts.iter();
    let mut next = rest.next();
    let mut added = Vec::new();
    for line in code.blocks.iter().flatten() {
        let Line::Inst(inst, _) = line else { continue };
        if next == Some(inst) {
            next = rest.next();
        } else if inst.op != op::s_endpgm {
            added.push(inst.text(target).to_string());
        }
    }
    assert_eq!(next, None, "nothing is left out");
    added
}

fn texts(code: &Physical) -> Vec<String> {
    let lines = code.blocks.iter().flatten();
    lines
        .filter_map(|line| match line {
            Line::Inst(inst, _) => Some(inst.text(code.target).to_string()),
            Line::Release(_) => None,
        })
        .collect()
}

/// The bare code is caught and mended where the hazard exists, and left alone elsewhere.
fn hazard(insts: &[Inst], fixes: &[(Target, &str)]) {
    for target in ALL {
        let expected: Vec<&str> = fixes.iter().filter(|row| row.0 == target).map(|row| row.1).collect();
        assert_eq!(is_clean(&code(insts, target)), expected.is_empty(), "{target}: the bare code");
        assert_eq!(added(insts, target), expected, "{target}");
    }
}

fn free(insts: &[Inst]) {
    hazard(insts, &[]);
}

fn exp(to: u8, from: u8) -> Inst {
    Inst::new(op::v_exp_f32, [v(to), v(from)])
}

fn sum(to: u8, a: u8, b: u8) -> Inst {
    Inst::new(op::v_add_f32, [v(to), v(a), v(b)])
}

fn between(producer: Inst, middle: &[Inst], reader: Inst) -> Vec<Inst> {
    [&[producer][..], middle, &[reader]].concat()
}

#[test]
fn transcendental_results() {
    let fix = [(GFX11, "s_waitcnt_depctr 0xfff")];
    let (producer, reader) = (exp(0, 1), sum(2, 0, 0));
    let others = [sum(10, 11, 12); 6];
    hazard(&[producer, reader], &fix);
    // The reader may be transcendental itself.
    hazard(&[producer, exp(2, 0)], &fix);
    hazard(&between(producer, &others[..5], reader), &fix);
    free(&between(producer, &others[..6], reader));
    let mut mixed = others[..4].to_vec();
    mixed.push(exp(13, 14));
    hazard(&between(producer, &mixed, reader), &fix);
    free(&between(producer, &[exp(13, 14), exp(15, 16)], reader));
    // Scalar instructions are no distance; overwriting is no read; memory instructions wait by themselves.
    hazard(&between(producer, &[Inst::new(op::s_mov_b32, [s(0), s(1)]); 8], reader), &fix);
    free(&[producer, Inst::new(op::v_mov_b32, [v(0), v(3)]), reader]);
    let store = Inst::new(op::ds_store_b32, [v(20), v(21)]);
    free(&between(producer, &[store], reader));
}

#[test]
fn multiply_adds_that_write_what_they_read() {
    let bad = Inst::new(op::v_mad_u64_u32, [v_range(0, 2), Operand::NULL, v(1), v(4), v_range(6, 2)]);
    let good = Inst::new(op::v_mad_u64_u32, [v_range(0, 2), Operand::NULL, v(3), v(4), v_range(6, 2)]);
    for (target, clean) in [(GFX11, false), (GFX115, true)] {
        assert_eq!(is_clean(&code(&[bad], target)), clean, "{target}");
        assert!(is_clean(&code(&[good], target)));
        // Allocation keeps them apart where it must.
        let mut machine = Machine::new(target);
        let [a, b] = [0, 1].map(|_| machine.reg(Bank::Vector, 1));
        let [c, d] = [0, 1].map(|_| machine.reg(Bank::Vector, 2));
        let whole = |reg, count| Arg::Reg(Part { reg, first: 0, count });
        let mov =
            |reg| Item::Instr(Instr::new(op::v_mov_b32, vec![whole(reg, 1), Arg::Fixed(Operand::Int(1))]));
        let zero = Arg::Fixed(Operand::Int(0));
        let lshl = Instr::new(op::v_lshlrev_b64, vec![whole(c, 2), zero, Arg::Fixed(Operand::Int(3))]);
        let null = Arg::Fixed(Operand::NULL);
        let mad =
            Instr::new(op::v_mad_u64_u32, vec![whole(d, 2), null, whole(a, 1), whole(b, 1), whole(c, 2)]);
        machine.blocks[0].items = vec![mov(a), mov(b), Item::Instr(lshl), Item::Instr(mad)];
        let allocation = allocate::allocate(&machine, 256).expect("few registers");
        let mut code = allocate::rewrite(&machine, &allocation);
        code.blocks[0].push(Line::Inst(Inst::new(op::s_endpgm, [Operand::Immediate(0)]), None));
        assert!(is_clean(&code), "{target}: {:?}", texts(&code));
    }
}

#[test]
fn lane_permutes_after_comparisons_that_write_exec() {
    let compare = Inst::new(op::v_cmpx_lt_u32, [v(1), v(2)]);
    let permute = Inst::new(op::v_permlane16_b32, [v(3), v(4), s(5), s(6)]);
    let fix = ALL.map(|target| (target, "v_mov_b32_e32 v4, v4"));
    hazard(&[compare, permute], &fix);
    hazard(&[compare, Inst::new(op::s_mov_b32, [s(20), s(21)]), permute], &fix);
    free(&[compare, sum(10, 11, 12), permute]);
}

#[test]
fn matrix_results_as_inputs() {
    let matrix = |d: u8, a: u8, c: u8, target| {
        let (row, width) = match target {
            GFX12 => (op::v_wmma_f32_16x16x16_f16_gfx12, 4),
            _ => (op::v_wmma_f32_16x16x16_f16, 8),
        };
        Inst::new(row, [v_range(d, 8), v_range(a, width), v_range(100, width), v_range(c, 8)])
    };
    for target in ALL {
        let first = matrix(0, 60, 80, target);
        let feeds = [first, matrix(20, 4, 40, target)];
        assert!(!is_clean(&code(&feeds, target)));
        assert_eq!(added(&feeds, target), ["v_nop"]);
        // An accumulator is passed on by the hardware; other vector instructions are distance enough.
        let accumulates = [first, matrix(20, 60, 0, target)];
        assert!(is_clean(&code(&accumulates, target)) && added(&accumulates, target).is_empty());
        let apart = [first, sum(120, 121, 122), matrix(20, 4, 40, target)];
        assert!(is_clean(&code(&apart, target)) && added(&apart, target).is_empty());
        let scalar = [first, Inst::new(op::s_mov_b32, [s(0), s(1)]), matrix(20, 4, 40, target)];
        assert_eq!(added(&scalar, target), ["v_nop"]);
    }
}

#[test]
fn scalar_registers_that_vector_instructions_read() {
    let read = |from| Inst::new(op::v_mov_b32, [v(0), s(from)]);
    let scalar = |to| Inst::new(op::s_mov_b32, [s(to), Operand::Int(1)]);
    let written = Inst::new(op::v_readfirstlane_b32, [s(4), v(1)]);
    let scalar_fix = [(GFX12, "s_wait_alu 0xfffe")];
    hazard(&[read(4), scalar(4), read(4)], &scalar_fix);
    // For what was ever read, the other half of the pair counts as well; a scalar reader is no better. What is read
    // must be what was written.
    hazard(&[read(5), scalar(4), read(4)], &scalar_fix);
    free(&[read(4), scalar(4), read(5)]);
    hazard(&[read(4), scalar(4), Inst::new(op::s_mov_b32, [s(9), s(4)])], &scalar_fix);
    hazard(&[read(4), written, read(4)], &[(GFX12, "s_wait_alu 0xf1ff")]);
    let [compare, select] = [
        Inst::new(op::v_cmp_lt_u32, [Operand::VCC_LO, v(1), v(2)]),
        Inst::new(op::v_cndmask_b32, [v(3), v(4), v(5), Operand::VCC_LO]),
    ];
    hazard(&[select, compare, select], &[(GFX12, "s_wait_alu 0xfffd")]);
    // Never read by a vector instruction before; scalar readers of vector results; enough scalar instructions.
    free(&[scalar(4), read(4)]);
    free(&[read(4), written, Inst::new(op::s_mov_b32, [s(9), s(4)])]);
    // Scalar loads wait by themselves, and so do scalar readers for what they read.
    let load = Inst::new(op::s_load_b32, [s(20), s_range(30, 2), Operand::Off]);
    for target in ALL {
        assert!(is_clean(&code(&[read(4), scalar(4), load, read(4)], target)));
        assert!(is_clean(&code(
            &[read(4), written, Inst::new(op::s_mov_b32, [s(9), s(4)]), read(4)],
            target
        )));
    }
    let far: Vec<Inst> = (0..11).map(|index| scalar(20 + 2 * index)).collect();
    free(&[&[read(4), scalar(4)][..], &far, &[read(4)]].concat());
    // Pairs do not expire: a read long ago counts.
    hazard(&[&[read(4)][..], &far, &far, &[scalar(4), read(4)]].concat(), &scalar_fix);
}

#[test]
fn lanes_that_an_outstanding_load_does_not_write() {
    // Of a register that a load has yet to write, all lanes are off limits, whatever EXEC says.
    let load = Inst::new(op::global_load_b32, [v(0), v(1), s_range(2, 2)]);
    let mask = Inst::new(op::s_mov_b32, [Operand::EXEC_LO, Operand::Int(1)]);
    let write = Inst::new(op::v_mov_b32, [v(0), v(5)]);
    let fixes =
        [(GFX11, "s_waitcnt vmcnt(0)"), (GFX115, "s_waitcnt vmcnt(0)"), (GFX12, "s_wait_loadcnt 0x0")];
    hazard(&[load, mask, write], &fixes);
}

#[test]
fn loads_that_overwrite_each_other() {
    let load = |from| Inst::new(op::global_load_b32, [v(0), v(from), s_range(2, 2)]);
    hazard(&[load(1), load(4)], &[(GFX12, "s_wait_loadcnt 0x0")]);
}

#[test]
fn registers_given_back() {
    let message = Inst::new(op::s_sendmsg, [Operand::Immediate(3)]);
    hazard(&[sum(0, 1, 2), message], &ALL.map(|target| (target, "s_nop 0")));
    let nop = Inst::new(op::s_nop, [Operand::Immediate(0)]);
    for target in ALL {
        assert!(is_clean(&code(&[sum(0, 1, 2), nop, message], target)));
    }
}

#[test]
fn what_is_left_to_waves_of_64_and_graphics_cannot_be_written() {
    // Reads of LDS by vector instructions, exports and parameter loads have hazards of their own: they are no rows.
    for name in ["lds_direct", "lds_param", "export", "s_setprio_inc", "v_permlane64"] {
        let found: Vec<&str> = Op::all().map(Op::name).filter(|row| row.contains(name)).collect();
        assert!(found.iter().all(|row| *row == "v_permlane64_b32"), "{found:?}");
    }
}
