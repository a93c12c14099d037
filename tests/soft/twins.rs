//! Every kind of finding and of bounds fault: at least two programs that must be caught, and a clean twin that must not.
//!
//! Programs run under all sanitizers, in several orders. s[0:1] points at a buffer of 4 KiB, s2 is the group on gfx1100,
//! v0 the item. Not here: what a finding says (`findings.rs`), more programs of single kinds (`sanitizers.rs`,
//! `ordering.rs`, `waits.rs`).

use doorbell_isa::{Cache, Inst, Operand, Scalar, Target, op, s, s_range, v, v_range};
use doorbell_soft::processor::{Cause, Engine, Fault, FindingKind, Level, Options, Report, Trap};
use std::collections::BTreeSet;

use crate::program::{Machine, assemble};
use crate::words::{barrier, end, imm, int, lds_load, lds_store, load, mov, offset, store, wait};

/// A program and how it is launched.
#[derive(Clone)]
struct Program {
    target: Target,
    code: Vec<Inst>,
    items: u32,
    groups: u32,
    resident: usize,
    handler: bool,
}

fn program(code: &[Inst]) -> Program {
    let code = code.to_vec();
    Program { target: Target::Gfx1100, code, items: 32, groups: 1, resident: 32, handler: false }
}

fn of_items(items: u32, code: &[Inst]) -> Program {
    Program { items, ..program(code) }
}

fn on(target: Target, code: &[Inst]) -> Program {
    Program { target, ..program(code) }
}

/// Group 0 runs the first program, group 1 the second.
fn groups(first: &[Inst], second: &[Inst]) -> Program {
    let skip = assemble(second, Target::Gfx1100).len() as i32;
    let start =
        [mov(1, 0), Inst::new(op::s_cmp_eq_u32, [s(2), int(0)]), Inst::new(op::s_cbranch_scc1, [imm(skip)])];
    Program { groups: 2, ..program(&[&start[..], second, first].concat()) }
}

/// Returns behind the trap.
fn handler(target: Target) -> Vec<u32> {
    let ttmp = |first: u8, count: u8| Operand::Scalar(Scalar::ttmp(first, count));
    let code = [
        Inst::new(op::s_add_u32, [ttmp(0, 1), ttmp(0, 1), int(4)]),
        Inst::new(op::s_addc_u32, [ttmp(1, 1), ttmp(1, 1), int(0)]),
        Inst::new(op::s_rfe_b64, [ttmp(0, 2)]),
    ];
    assemble(&code, target)
}

fn run(program: &Program, seed: u64) -> (Report, Result<(), Fault>) {
    let Program { target, code, items, groups, resident, .. } = program;
    let mut machine = Machine::new(&assemble(code, *target));
    let buffer = machine.space.allocate("buffer", 4096).unwrap();
    let memory = machine.space.allocate("handler", 4096).unwrap();
    if program.handler {
        let bytes: Vec<u8> = handler(*target).iter().flat_map(|word| word.to_le_bytes()).collect();
        memory.write(0, &bytes);
    }
    let mut dispatch = machine.dispatch(*items, buffer.address());
    (dispatch.lds, dispatch.scratch) = (1024, 64);
    dispatch.grid[0] = items * groups;
    let patience = if groups > &2 { 20_000 } else { 200_000 };
    let options = Options { level: Level::Strict, seed, patience, resident: *resident, ..Options::default() };
    let mut engine = Engine::new(*target, options);
    let trap = Trap { handler: memory.address(), data: 0, doorbell: 1 };
    engine.set_trap(program.handler.then_some(trap));
    let mut report = Report::default();
    let result = engine.run_into(&[dispatch], &mut machine.space, &mut report);
    (report, result)
}

const SEEDS: core::ops::Range<u64> = 0..12;

/// A kind of finding, programs that have it and no other, programs that have none.
struct Twins {
    kind: FindingKind,
    bad: Vec<Program>,
    clean: Vec<Program>,
}

fn twins(kind: FindingKind, bad: Vec<Program>, clean: Vec<Program>) -> Twins {
    Twins { kind, bad, clean }
}

fn registers() -> Vec<Twins> {
    let add = Inst::new(op::v_add_nc_u32, [v(2), v(1), v(1)]);
    let scalar_load = Inst::new(op::s_load_b32, [s(4), s_range(0, 2), Operand::Off]);
    let scalar_read = Inst::new(op::s_add_u32, [s(5), s(4), s(4)]);
    let local = [mov(11, 0), mov(12, 1), lds_store(11, 12), wait(), lds_load(1, 11)];
    let branch = Inst::new(op::s_cbranch_scc1, [imm(0)]);
    let compare = Inst::new(op::s_cmp_eq_u32, [s(20), int(7)]);
    let masked = Inst::new(op::s_and_b32, [s(20), s(20), int(0)]);
    let nothing = Inst::new(op::v_and_b32, [v(8), int(0), v(7)]);
    vec![
        twins(
            FindingKind::ReadBeforeWait,
            vec![
                program(&[offset(), load(1), add, wait(), end()]),
                program(&[scalar_load, scalar_read, end()]),
            ],
            vec![program(&[offset(), load(1), scalar_load, wait(), add, scalar_read, end()])],
        ),
        twins(
            FindingKind::WriteBeforeWait,
            vec![
                program(&[offset(), load(1), mov(1, 0), wait(), end()]),
                program(&[&local[..], &[mov(1, 0), wait(), end()]].concat()),
            ],
            vec![program(&[&local[..], &[wait(), mov(1, 0), end()]].concat())],
        ),
        twins(
            FindingKind::UndefinedAddress,
            vec![
                program(&[load(1), wait(), end()]),
                program(&[mov(12, 1), lds_store(11, 12), wait(), end()]),
            ],
            vec![program(&[offset(), load(1), mov(11, 0), mov(12, 1), lds_store(11, 12), wait(), end()])],
        ),
        twins(
            FindingKind::UndefinedControl,
            vec![
                program(&[compare, branch, end()]),
                program(&[Inst::new(op::s_cbranch_vccnz, [imm(0)]), end()]),
                program(&[Inst::new(op::s_mov_b32, [Operand::EXEC_LO, s(21)]), end()]),
            ],
            vec![program(&[masked, compare, branch, end()])],
        ),
        twins(
            FindingKind::UndefinedStore,
            vec![
                program(&[offset(), store(7), end()]),
                program(&[offset(), lds_load(7, 10), wait(), store(7), end()]),
            ],
            vec![program(&[offset(), nothing, store(8), end()])],
        ),
    ]
}

/// Skips `distance` dwords in the second wave.
fn second_wave(distance: i32) -> Vec<Inst> {
    vec![
        Inst::new(op::v_readfirstlane_b32, [s(20), v(0)]),
        Inst::new(op::s_cmp_ge_u32, [s(20), int(32)]),
        Inst::new(op::s_cbranch_scc1, [imm(distance)]),
    ]
}

fn groups_and_waves() -> Vec<Twins> {
    let same = Inst::new(op::v_and_b32, [v(11), int(124), v(10)]);
    let other = Inst::new(op::v_xor_b32, [v(12), int(128), v(10)]);
    let shared = |between: &[Inst]| {
        let tail = [lds_load(2, 12), wait(), end()];
        of_items(64, &[&[offset(), other, lds_store(10, 10), wait()][..], between, &tail].concat())
    };
    let at = |inst: Inst, at: i32| inst.offset(at);
    let put = |address: i32| {
        let store = Inst::new(op::global_store_b32, [v(1), v(4), s_range(0, 2)]);
        [mov(4, 7), at(store, address), end()]
    };
    let get = [Inst::new(op::global_load_b32, [v(3), v(1), s_range(0, 2)]), wait(), end()];
    let mut two = second_wave(2);
    two.extend([barrier(), end(), barrier(), end()]);
    let mut one = second_wave(0);
    one.extend([barrier(), end()]);
    let unsignalled = [Inst::new(op::s_barrier_wait, [imm(0xffff)]), end()];
    let signal = Inst::new(op::s_barrier_signal, [int(-1)]);
    vec![
        twins(
            FindingKind::LdsRace,
            vec![of_items(64, &[offset(), same, lds_store(11, 10), wait(), end()]), shared(&[])],
            vec![shared(&[barrier()])],
        ),
        twins(
            FindingKind::GlobalRace,
            vec![groups(&put(0), &put(0)), groups(&put(0), &get)],
            vec![groups(&put(0), &put(4)), groups(&get, &get)],
        ),
        twins(
            FindingKind::DivergentBarrier,
            vec![of_items(64, &two), Program { items: 64, ..on(Target::Gfx1200, &unsignalled) }],
            vec![
                of_items(64, &one),
                Program { items: 64, ..on(Target::Gfx1200, &[signal, unsignalled[0], end()]) },
            ],
        ),
        stale(),
    ]
}

/// Group 1 has a line in the scalar cache before group 0, which it then waits for, stores to it.
fn stale() -> Twins {
    let scalar = |words: u8, at: i32| {
        let which = if words == 1 { op::s_load_b32 } else { op::s_load_b64 };
        Inst::new(which, [s_range(10, words), s_range(0, 2), Operand::Off]).offset(at)
    };
    let coherent = Cache::Gfx11 { glc: true, slc: false, dlc: false };
    let poll = [
        Inst::new(op::global_load_b32, [v(2), v(1), s_range(0, 2)]).offset(1024).cache(coherent),
        wait(),
        Inst::new(op::v_readfirstlane_b32, [s(8), v(2)]),
        Inst::new(op::s_cmp_eq_u32, [s(8), int(1)]),
        Inst::new(op::s_cbranch_scc0, [imm(-6)]),
        Inst::new(op::buffer_gl1_inv, []),
        Inst::new(op::buffer_gl0_inv, []),
    ];
    let producer = [
        mov(4, 7),
        mov(5, 1),
        Inst::new(op::global_store_b32, [v(1), v(4), s_range(0, 2)]),
        Inst::new(op::s_waitcnt_vscnt, [Operand::NULL, imm(0)]),
        Inst::new(op::global_store_b32, [v(1), v(5), s_range(0, 2)]).offset(1024),
        end(),
    ];
    let consumer = |early: Inst, between: &[Inst], late: Inst| {
        let code = [&[early, wait()][..], &poll, between, &[late, wait(), end()]].concat();
        groups(&producer, &code)
    };
    let emptied = [Inst::new(op::s_dcache_inv, []), wait()];
    twins(
        FindingKind::StaleRead,
        vec![consumer(scalar(1, 64), &[], scalar(1, 0)), consumer(scalar(2, 8), &[], scalar(2, 0))],
        // A line that was not there before, and an emptied cache.
        vec![consumer(scalar(1, 64), &emptied, scalar(1, 0)), consumer(scalar(1, 2048), &[], scalar(1, 0))],
    )
}

fn fill() -> Vec<Inst> {
    (16..40).map(|register| mov(register, 0)).collect()
}

fn matrix(first: u8, a: u8, b: u8) -> Inst {
    Inst::new(op::v_wmma_f32_16x16x16_f16, [v_range(first, 8), v_range(a, 8), v_range(b, 8), v_range(32, 8)])
}

fn matrices() -> Vec<Twins> {
    let with = |items: u32, middle: &[Inst]| of_items(items, &[&fill()[..], middle, &[end()]].concat());
    let product = matrix(40, 16, 24);
    let unequal = |register: u8| Inst::new(op::v_mov_b32, [v(register), v(0)]);
    let half = Inst::new(op::v_and_b32, [v(16), int(15), v(0)]);
    vec![
        twins(
            FindingKind::MatrixExec,
            vec![
                with(32, &[Inst::new(op::s_mov_b32, [Operand::EXEC_LO, int(1)]), product]),
                with(16, &[product]),
            ],
            vec![with(32, &[product])],
        ),
        twins(
            FindingKind::MatrixCopies,
            vec![with(32, &[unequal(16), product]), with(32, &[unequal(31), product])],
            // The same values in both halves of the wave.
            vec![with(32, &[half, product])],
        ),
        twins(
            FindingKind::MatrixHazard,
            vec![with(32, &[product, matrix(48, 40, 24)]), with(32, &[product, matrix(48, 24, 40)])],
            vec![with(32, &[product, Inst::new(op::v_nop, []), matrix(48, 40, 24)])],
        ),
    ]
}

fn hazards() -> Vec<Twins> {
    let exp = Inst::new(op::v_exp_f32, [v(2), v(1)]);
    let read = Inst::new(op::v_add_f32, [v(3), v(2), v(2)]);
    let spaced =
        |gap: usize| program(&[vec![mov(1, 0), exp], vec![mov(4, 0); gap], vec![read, end()]].concat());
    let compare = Inst::new(op::v_cmpx_le_u32, [int(0), v(0)]);
    let permute = Inst::new(op::v_permlane16_b32, [v(3), v(0), int(0), int(0)]);
    let across = Inst::new(op::v_permlanex16_b32, [v(3), v(0), int(0), int(0)]);
    let pair = [Inst::new(op::v_mov_b32, [v(1), s(1)])];
    let by_scalar = Inst::new(op::s_mov_b32, [s(0), int(5)]);
    let by_vector = Inst::new(op::v_readfirstlane_b32, [s(0), v(0)]);
    let use_it = Inst::new(op::v_mov_b32, [v(2), s(0)]);
    let rule = |middle: &[Inst]| on(Target::Gfx1200, &[&pair[..], middle, &[use_it, end()]].concat());
    let release = Inst::new(op::s_sendmsg, [imm(3)]);
    let private = Inst::new(op::scratch_store_b32, [v(1), v(0), Operand::Off]);
    let trap = |id: i32| Inst::new(op::s_trap, [imm(id)]);
    vec![
        twins(FindingKind::TransHazard, vec![spaced(0), spaced(5)], vec![spaced(6)]),
        twins(
            FindingKind::PermlaneHazard,
            vec![program(&[compare, permute, end()]), program(&[compare, across, end()])],
            vec![program(&[compare, mov(4, 0), permute, end()])],
        ),
        twins(
            FindingKind::ScalarHazard,
            vec![rule(&[by_scalar]), rule(&[by_vector])],
            vec![
                rule(&[by_scalar, Inst::new(op::s_wait_alu, [imm(0xfffe)])]),
                rule(&[by_vector, Inst::new(op::s_wait_alu, [imm(0xf1ff)])]),
            ],
        ),
        twins(
            FindingKind::AfterRelease,
            vec![program(&[release, mov(1, 0), end()]), program(&[mov(1, 0), private, release, end()])],
            // A store to the buffer may be outstanding; scratch was waited for.
            vec![program(&[
                mov(1, 0),
                offset(),
                private,
                Inst::new(op::s_waitcnt_vscnt, [Operand::NULL, imm(0)]),
                store(1),
                release,
                end(),
            ])],
        ),
        twins(
            FindingKind::IgnoredTrap,
            vec![program(&[trap(2), end()]), program(&[mov(1, 0), trap(3), end()])],
            vec![Program { handler: true, ..program(&[trap(2), end()]) }],
        ),
    ]
}

fn kinds(program: &Program) -> BTreeSet<String> {
    SEEDS
        .flat_map(|seed| {
            let (report, result) = run(program, seed);
            assert_eq!(result, Ok(()), "{:?}", program.code);
            report.findings.into_iter().map(|finding| format!("{:?}", finding.kind))
        })
        .collect()
}

#[test]
fn every_kind_has_two_programs_that_are_caught_and_a_clean_twin() {
    let all: Vec<Twins> =
        [registers(), groups_and_waves(), matrices(), hazards()].into_iter().flatten().collect();
    let mut names = BTreeSet::new();
    for Twins { kind, bad, clean } in &all {
        let name = format!("{kind:?}");
        assert!(bad.len() >= 2 && !clean.is_empty(), "{name}: {} bad, {} clean", bad.len(), clean.len());
        for program in bad {
            assert_eq!(kinds(program), BTreeSet::from([name.clone()]), "{:?}", program.code);
        }
        for program in clean {
            assert_eq!(kinds(program), BTreeSet::new(), "{name}: {:?}", program.code);
        }
        println!("{name}: {} caught, {} clean", bad.len(), clean.len());
        names.insert(name);
    }
    assert_eq!(names.len(), FindingKind::COUNT, "kinds without programs");
}

/// Group 0 waits until the buffer's first word is 1; the last of `groups` groups stores it.
fn flag(groups: u32, resident: usize) -> Program {
    let last = groups as i32 - 1;
    let coherent = Cache::Gfx11 { glc: true, slc: false, dlc: false };
    let code = [
        mov(1, 0),
        Inst::new(op::s_cmp_eq_u32, [s(2), int(last)]),
        Inst::new(op::s_cbranch_scc1, [imm(7)]),
        Inst::new(op::global_load_b32, [v(2), v(1), s_range(0, 2)]).cache(coherent),
        wait(),
        Inst::new(op::v_readfirstlane_b32, [s(8), v(2)]),
        Inst::new(op::s_cmp_eq_u32, [s(8), int(1)]),
        Inst::new(op::s_cbranch_scc0, [imm(-7)]),
        end(),
        mov(3, 1),
        Inst::new(op::global_store_b32, [v(1), v(3), s_range(0, 2)]),
        end(),
    ];
    Program { groups, resident, ..program(&code) }
}

/// A kind of fault: what it must look like, programs that end in it, programs that end well.
type Bounds = (fn(&Cause) -> bool, Vec<Program>, Vec<Program>);

fn bounds() -> Vec<Bounds> {
    let far = |inst: Inst, at: i32| program(&[offset(), mov(1, 0), inst.offset(at), wait(), end()]);
    let local = |address: i32| program(&[mov(11, address), mov(12, 0), lds_store(11, 12), wait(), end()]);
    let private = |at: i32| {
        program(&[mov(1, 0), Inst::new(op::scratch_store_b32, [v(1), v(0), Operand::Off]).offset(at), end()])
    };
    let near = |cause: &Cause| match cause {
        Cause::Memory(fault) => {
            fault.nearest.as_ref().is_some_and(|(name, at)| name == "buffer" && *at >= 4096)
        }
        _ => false,
    };
    vec![
        (near, vec![far(load(1), 4000), far(store(1), 4092)], vec![far(load(1), 3968), far(store(1), 3968)]),
        (
            |cause| matches!(cause, Cause::Lds { size: 1024, .. }),
            vec![local(1024), local(1022)],
            vec![local(1020)],
        ),
        (
            |cause| matches!(cause, Cause::Scratch { size: 64, .. }),
            vec![private(64), private(62)],
            vec![private(60)],
        ),
        (|cause| *cause == Cause::Deadlock, vec![flag(3, 2), flag(9, 8)], vec![flag(3, 3), flag(9, 9)]),
    ]
}

#[test]
fn every_bound_has_two_programs_that_are_stopped_and_a_twin_that_is_not() {
    for (is_it, bad, clean) in bounds() {
        assert!(bad.len() >= 2 && !clean.is_empty());
        for program in &bad {
            let (_, result) = run(program, 1);
            let fault = result.expect_err("a program beyond its bounds");
            assert!(is_it(&fault.cause), "{fault} {:?}", program.code);
        }
        for program in &clean {
            let (report, result) = run(program, 1);
            assert_eq!(result, Ok(()), "{:?}", program.code);
            assert_eq!(report.findings, [], "{:?}", program.code);
        }
    }
}
