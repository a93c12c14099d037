//! Instructions whose effect is not a value: each is executed on every chip that has it, with a stated observable.
//!
//! Hints and prefetches leave registers and memory as they were; branches go or fall through; waits let their own
//! class of operations be used and no other; barriers order LDS; modes change rounding; messages and faults arrive.
//! Not here: trap handlers (`traps.rs`), the need for cache maintenance (`ordering.rs`).

use doorbell_isa::{
    Cache, Flags, Generation, Inst, Op, Operand, Operands, Scalar, Scope, Target, op, s, s_range, v,
};
use doorbell_soft::processor::{Cause, Fault, FindingKind, Level, Options, Report};
use std::collections::BTreeSet;

use crate::program::{Machine, assemble};
use crate::words::{end, imm, int, mov};

const TARGETS: [(char, Target); 3] = [('a', Target::Gfx1100), ('b', Target::Gfx1151), ('c', Target::Gfx1200)];
const M0: Operand = Operand::Scalar(Scalar::M0);

fn smov(register: Operand, value: u32) -> Inst {
    Inst::new(op::s_mov_b32, [register, Operand::Literal(value)])
}

fn is_gfx12(target: Target) -> bool {
    target.generation() == Generation::Gfx12
}

/// Waits for everything.
fn wait(target: Target) -> Vec<Inst> {
    if is_gfx12(target) {
        let all = [op::s_wait_loadcnt, op::s_wait_storecnt, op::s_wait_dscnt, op::s_wait_kmcnt];
        return all.into_iter().map(|one| Inst::new(one, [imm(0)])).collect();
    }
    let stores = Inst::new(op::s_waitcnt_vscnt, [Operand::NULL, imm(0)]);
    vec![Inst::new(op::s_waitcnt, [imm(0)]), stores]
}

/// Result of a run.
struct Outcome {
    result: Result<(), Fault>,
    report: Report,
    out: Vec<u32>,
    entry: u64,
}

/// Runs `code` by groups of `items`; s[0:1] points at a buffer of 4 KiB that is returned, s2 is the group.
fn run(target: Target, level: Level, code: &[Inst], items: u32, groups: u32, seed: u64) -> Outcome {
    let mut machine = Machine::new(&assemble(code, target));
    let buffer = machine.space.allocate("buffer", 4096).unwrap();
    let mut dispatch = machine.dispatch(items, buffer.address());
    dispatch.lds = 1024;
    dispatch.scratch = 256;
    dispatch.grid[0] = items * groups;
    let options = Options {
        level,
        seed,
        budget: 2_000_000,
        patience: 200_000,
        scalar_reads: false,
        ..Options::default()
    };
    let mut report = Report::default();
    let mut engine = doorbell_soft::processor::Engine::new(target, options);
    let result = engine.run_into(&[dispatch], &mut machine.space, &mut report);
    let out = (0..1024).map(|at| buffer.load32(at * 4)).collect();
    Outcome { result, report, out, entry: machine.entry }
}

/// The outcome of a program that must not stop early.
fn finish(target: Target, code: &[Inst]) -> Outcome {
    let outcome = run(target, Level::Fast, code, 32, 1, 0);
    assert_eq!(outcome.result, Ok(()), "{target} {code:?}");
    outcome
}

/// Stores a scalar register to dword `at` of the buffer.
fn keep(register: Operand, at: i32) -> Vec<Inst> {
    let store = Inst::new(op::global_store_b32, [v(8), v(9), s_range(0, 2)]).offset(at * 4);
    vec![mov(8, 0), Inst::new(op::v_mov_b32, [v(9), register]), store]
}

/// A program that fills registers, LDS and scratch, runs `middle`, and writes down all of them.
fn state_after(target: Target, middle: &[Inst]) -> Vec<Inst> {
    let mut code = vec![Inst::new(op::v_lshlrev_b32, [v(10), int(2), v(0)])];
    code.extend((11..16).map(|number| Inst::new(op::v_add_nc_u32, [v(number), int(number.into()), v(10)])));
    code.push(Inst::new(op::ds_store_b32, [v(10), v(12)]));
    code.push(Inst::new(op::scratch_store_b32, [v(11), v(13), Operand::Off]));
    code.extend(wait(target));
    code.extend((4..40).map(|number| smov(s(number), 0x1000 + u32::from(number))));
    code.extend([smov(Operand::VCC_LO, 0x1234_5678), smov(M0, 77)]);
    code.push(Inst::new(op::s_cmp_eq_u32, [int(1), int(1)]));
    code.push(smov(Operand::EXEC_LO, 0x7fff_ff0f));
    code.extend_from_slice(middle);
    let spare = [(60, Operand::EXEC_LO), (61, Operand::VCC_LO), (62, M0)];
    code.push(Inst::new(op::s_cselect_b32, [s(63), int(1), int(0)]));
    code.extend(spare.map(|(number, from)| Inst::new(op::s_mov_b32, [s(number), from])));
    code.push(smov(Operand::EXEC_LO, u32::MAX));
    code.push(Inst::new(op::ds_load_b32, [v(16), v(10)]));
    code.push(Inst::new(op::scratch_load_b32, [v(17), v(11), Operand::Off]));
    code.extend(wait(target));
    for (at, number) in (0..).zip(10..18) {
        let store = Inst::new(op::global_store_b32, [v(10), v(number), s_range(0, 2)]);
        code.push(store.offset(at * 128));
    }
    for (at, number) in (256..).zip((4..40).chain(60..64)) {
        code.extend(keep(s(number), at));
    }
    code.push(end());
    code
}

/// One more instruction is executed, cache maintenance counted, and nothing else differs.
fn nothing_changes(target: Target, inst: Inst) {
    let without = finish(target, &state_after(target, &[]));
    let with = finish(target, &state_after(target, &[inst]));
    assert_eq!(with.out, without.out, "{target} {}", inst.text(target));
    assert_eq!(with.report.instructions, without.report.instructions + 1, "{target} {}", inst.text(target));
    let row = inst.row();
    let maintains = row.has(Flags::INVALIDATES) || row.has(Flags::WRITEBACK);
    let extra = with.report.maintenance - without.report.maintenance;
    assert_eq!(extra, u64::from(maintains), "{target} {}", inst.text(target));
}

/// Operands of instructions that change nothing. Prefetches get an address where there is no memory.
fn inert(which: Op) -> Operands {
    use doorbell_isa::operand_kind::{Class, Immediate};
    let mut list = Operands::EMPTY;
    for kind in which.row().src {
        list.push(match kind.class {
            Class::Immediate(Immediate::Offset24) => imm(0x40_0000),
            Class::Immediate(Immediate::Length) => imm(7),
            Class::Immediate(_) => imm(1),
            Class::Register => match kind.ty.dwords() {
                1 => Operand::NULL,
                count => s_range(20, count),
            },
            Class::Null => Operand::NULL,
            _ => s(30),
        });
    }
    list
}

static INERT: &[Op] = &[
    op::s_nop,
    op::s_sleep,
    op::s_sleep_var,
    op::s_set_inst_prefetch_distance,
    op::s_clause,
    op::s_delay_alu,
    op::s_setprio,
    op::s_icache_inv,
    op::s_singleuse_vdst,
    op::s_waitcnt_depctr,
    op::s_wait_alu,
    op::s_waitcnt_expcnt,
    op::s_wait_expcnt,
    op::s_wait_samplecnt,
    op::s_wait_bvhcnt,
    op::v_nop,
    op::ds_nop,
    op::s_prefetch_inst,
    op::s_prefetch_inst_pc_rel,
    op::s_prefetch_data,
    op::s_prefetch_data_pc_rel,
    op::s_buffer_prefetch_data,
    op::s_gl1_inv,
    op::s_dcache_inv,
    op::buffer_gl0_inv,
    op::buffer_gl1_inv,
    op::global_inv,
    op::global_wb,
    op::global_wbinv,
];

/// Instructions of a list that a chip has.
fn present(list: &'static [Op], target: Target) -> impl Iterator<Item = Op> {
    list.iter().copied().filter(move |op| op.row().opcode(target).is_some())
}

#[test]
fn hints_prefetches_and_cache_maintenance_change_no_state() {
    for (_, target) in TARGETS {
        for which in present(INERT, target) {
            nothing_changes(target, Inst::with_operands(which, inert(which)));
        }
    }
}

/// Classes of operations whose results may be used after a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Covers {
    loads: bool,
    stores: bool,
    lds: bool,
    scalar: bool,
}

const fn covers(classes: &[u8]) -> Covers {
    let (mut out, mut at) = (Covers { loads: false, stores: false, lds: false, scalar: false }, 0);
    while at < classes.len() {
        match classes[at] {
            b'l' => out.loads = true,
            b's' => out.stores = true,
            b'd' => out.lds = true,
            _ => out.scalar = true,
        }
        at += 1;
    }
    out
}

/// Wait, its constant, what it covers: reference of the wait counters, gfx11 then gfx12. RDNA4 takes the old wait as
/// one for everything.
static WAITS: &[(Op, i32, bool, Covers)] = &[
    (op::s_waitcnt, 0x03f7, false, covers(b"l")),
    (op::s_waitcnt, 0xfc07, false, covers(b"dk")),
    (op::s_waitcnt, 0, false, covers(b"ldk")),
    (op::s_waitcnt_vmcnt, 0, false, covers(b"l")),
    (op::s_waitcnt_lgkmcnt, 0, false, covers(b"dk")),
    (op::s_waitcnt_vscnt, 0, false, covers(b"s")),
    (op::s_waitcnt_expcnt, 0, false, covers(b"")),
    (op::s_wait_idle, 0, false, covers(b"lsdk")),
    (op::s_wait_loadcnt, 0, true, covers(b"l")),
    (op::s_wait_storecnt, 0, true, covers(b"s")),
    (op::s_wait_dscnt, 0, true, covers(b"d")),
    (op::s_wait_kmcnt, 0, true, covers(b"k")),
    (op::s_wait_loadcnt_dscnt, 0, true, covers(b"ld")),
    (op::s_wait_storecnt_dscnt, 0, true, covers(b"sd")),
    (op::s_wait_samplecnt, 0, true, covers(b"")),
    (op::s_wait_bvhcnt, 0, true, covers(b"")),
    (op::s_wait_expcnt, 0, true, covers(b"")),
    (op::s_wait_idle, 0, true, covers(b"lsdk")),
    (op::s_waitcnt, 0, true, covers(b"lsdk")),
];

fn wait_inst(which: Op, value: i32) -> Inst {
    match which.row().src.len() {
        0 => Inst::new(which, []),
        1 => Inst::new(which, [imm(value)]),
        _ => Inst::new(which, [Operand::NULL, imm(value)]),
    }
}

/// True if the sanitizers find nothing in any of a few orders.
fn is_clean(target: Target, code: &[Inst], groups: u32) -> bool {
    (0..12).all(|seed| {
        let outcome = run(target, Level::Strict, code, 32, groups, seed);
        assert_eq!(outcome.result, Ok(()), "{target} {code:?}");
        let kinds: Vec<FindingKind> = outcome.report.findings.iter().map(|finding| finding.kind).collect();
        let expected = [FindingKind::ReadBeforeWait, FindingKind::GlobalRace, FindingKind::StaleRead];
        assert!(kinds.iter().all(|kind| expected.contains(kind)), "{kinds:?}");
        kinds.is_empty()
    })
}

/// An access of scope "device" on the chip.
fn device(target: Target, inst: Inst) -> Inst {
    match (is_gfx12(target), inst.row().has(Flags::LOAD)) {
        (true, _) => inst.cache(Cache::Gfx12 { scope: Scope::Device, hint: 0 }),
        (false, true) => inst.cache(Cache::Gfx11 { glc: true, slc: false, dlc: false }),
        _ => inst,
    }
}

/// Group 0 stores data, runs `between`, stores a flag; group 1 waits for the flag, runs `acquire`, reads the data.
fn published(target: Target, between: &[Inst], acquire: &[Inst]) -> Vec<Inst> {
    let access = |inst: Inst, at: i32| device(target, inst.offset(at));
    let store =
        |value: u8, at: i32| access(Inst::new(op::global_store_b32, [v(1), v(value), s_range(0, 2)]), at);
    let load = |value: u8| Inst::new(op::global_load_b32, [v(value), v(1), s_range(0, 2)]);
    let group = if is_gfx12(target) { Operand::Scalar(Scalar::ttmp(9, 1)) } else { s(2) };
    let producer = [&[mov(4, 7), mov(5, 1), store(4, 0)], between, &[store(5, 1024), end()]].concat();
    let mut poll = vec![access(load(2), 1024)];
    poll.extend(wait(target));
    poll.push(Inst::new(op::v_readfirstlane_b32, [s(8), v(2)]));
    if is_gfx12(target) {
        poll.push(Inst::new(op::s_wait_alu, [imm(0)]));
    }
    poll.push(Inst::new(op::s_cmp_eq_u32, [s(8), int(1)]));
    let back = -(assemble(&poll, target).len() as i32) - 1;
    poll.push(Inst::new(op::s_cbranch_scc0, [imm(back)]));
    let mut consumer = [&poll[..], acquire, &[load(3)]].concat();
    consumer.extend(wait(target));
    consumer.push(end());
    let start = [
        mov(1, 0),
        Inst::new(op::s_cmp_eq_u32, [group, int(0)]),
        Inst::new(op::s_cbranch_scc1, [imm(assemble(&consumer, target).len() as i32)]),
    ];
    [&start[..], &consumer, &producer].concat()
}

/// Instructions that make group 1 see everything that is ordered before the flag.
fn acquire(target: Target) -> Vec<Inst> {
    if is_gfx12(target) {
        let device = Cache::Gfx12 { scope: Scope::Device, hint: 0 };
        return vec![Inst::new(op::global_inv, []).cache(device)];
    }
    vec![Inst::new(op::buffer_gl1_inv, []), Inst::new(op::buffer_gl0_inv, [])]
}

#[test]
fn every_wait_covers_its_own_operations_and_no_others() {
    for (_, target) in TARGETS {
        let chip_waits = WAITS.iter().filter(|(which, _, gfx12, _)| {
            *gfx12 == is_gfx12(target) && which.row().opcode(target).is_some()
        });
        for (which, value, _, expected) in chip_waits {
            let wait_one = wait_inst(*which, *value);
            let use_of = |start: &[Inst], read: Inst| {
                let mut code = start.to_vec();
                code.extend([wait_one, read]);
                code.extend(wait(target));
                code.push(end());
                is_clean(target, &code, 1)
            };
            let offset = Inst::new(op::v_lshlrev_b32, [v(10), int(2), v(0)]);
            let read = Inst::new(op::v_add_nc_u32, [v(2), v(1), v(1)]);
            let load = Inst::new(op::global_load_b32, [v(1), v(10), s_range(0, 2)]);
            let mut local = vec![offset, Inst::new(op::ds_store_b32, [v(10), v(10)])];
            local.extend(wait(target));
            local.push(Inst::new(op::ds_load_b32, [v(1), v(10)]));
            let scalar = Inst::new(op::s_load_b32, [s(4), s_range(0, 2), Operand::Off]);
            let scalar_read = Inst::new(op::s_or_b32, [s(5), s(4), s(4)]);
            let found = Covers {
                loads: use_of(&[offset, load], read),
                lds: use_of(&local, read),
                scalar: use_of(&[scalar], scalar_read),
                stores: is_clean(target, &published(target, &[wait_one], &acquire(target)), 2),
            };
            assert_eq!(found, *expected, "{target} {}", wait_one.text(target));
        }
    }
}

#[test]
fn data_of_another_group_needs_every_invalidation() {
    for (_, target) in TARGETS {
        let all = acquire(target);
        assert!(is_clean(target, &published(target, &wait(target), &all), 2), "{target}");
        for left_out in 0..all.len() {
            let mut some = all.clone();
            some.remove(left_out);
            assert!(!is_clean(target, &published(target, &wait(target), &some), 2), "{target} {left_out}");
        }
    }
}

/// Dwords 0 and 1 of the buffer after a program: whether a branch fell through, and a spare value.
fn branches(target: Target, set: &[Inst], branch: Op) -> bool {
    let mut code = vec![smov(s(20), 0)];
    code.extend_from_slice(set);
    code.extend([
        Inst::new(branch, [imm(1)]),
        Inst::new(op::s_mov_b32, [s(20), int(1)]),
        Inst::new(op::s_mov_b32, [Operand::EXEC_LO, int(-1)]),
    ]);
    code.extend(keep(s(20), 0));
    code.push(end());
    finish(target, &code).out[0] == 0
}

static BRANCHES: &[Op] = &[
    op::s_branch,
    op::s_cbranch_scc0,
    op::s_cbranch_scc1,
    op::s_cbranch_vccz,
    op::s_cbranch_vccnz,
    op::s_cbranch_execz,
    op::s_cbranch_execnz,
];

#[test]
fn branches_go_when_their_condition_holds() {
    for (_, target) in TARGETS {
        for zero in [true, false] {
            let value = u32::from(!zero) << 7;
            let set = [
                smov(Operand::VCC_LO, value),
                Inst::new(op::s_cmp_eq_u32, [int(1), int(i32::from(!zero))]),
                smov(Operand::EXEC_LO, value),
            ];
            for which in BRANCHES {
                let goes = match which.name() {
                    "s_branch" => true,
                    "s_cbranch_scc0" | "s_cbranch_vccz" | "s_cbranch_execz" => zero,
                    _ => !zero,
                };
                assert_eq!(branches(target, &set, *which), goes, "{target} {which:?} {zero}");
            }
        }
    }
}

static JUMPS: &[Op] = &[op::s_getpc_b64, op::s_setpc_b64, op::s_swappc_b64, op::s_call_b64, op::s_endpgm];

/// Address of the instruction after `code`'s first `count`.
fn behind(outcome: &Outcome, code: &[Inst], count: usize, target: Target) -> u64 {
    outcome.entry + 4 * assemble(&code[..count], target).len() as u64
}

#[test]
fn jumps_go_where_they_say_and_link_what_follows() {
    for (_, target) in TARGETS {
        let pair = |out: &[u32], at: usize| u64::from(out[at]) | u64::from(out[at + 1]) << 32;
        let add = if is_gfx12(target) { op::s_add_co_u32 } else { op::s_add_u32 };
        let mark = Inst::new(op::s_mov_b32, [s(24), int(9)]);
        let kept =
            [keep(s(20), 0), keep(s(21), 1), keep(s(22), 2), keep(s(23), 3), keep(s(24), 4), vec![end()]];
        let tail = kept.concat();
        // Link of a call over the marking instruction; the program counter itself.
        let mut code = vec![smov(s(24), 3), Inst::new(op::s_call_b64, [s_range(20, 2), imm(1)]), mark];
        code.push(Inst::new(op::s_getpc_b64, [s_range(22, 2)]));
        code.extend(tail.clone());
        let outcome = finish(target, &code);
        assert_eq!(pair(&outcome.out, 0), behind(&outcome, &code, 2, target), "{target}");
        assert_eq!(pair(&outcome.out, 2), behind(&outcome, &code, 4, target), "{target}");
        assert_eq!(outcome.out[4], 3);
        // From the counter to behind the jump and the mark: two single dwords, the addition and the jump before.
        for swaps in [false, true] {
            let jump = if swaps {
                Inst::new(op::s_swappc_b64, [s_range(20, 2), s_range(22, 2)])
            } else {
                Inst::new(op::s_setpc_b64, [s_range(22, 2)])
            };
            let mut code = vec![smov(s(24), 3), smov(s(20), 0), smov(s(21), 0)];
            code.push(Inst::new(op::s_getpc_b64, [s_range(22, 2)]));
            code.push(Inst::new(add, [s(22), s(22), int(12)]));
            code.extend([jump, mark]);
            code.extend(tail.clone());
            let outcome = finish(target, &code);
            let link = if swaps { behind(&outcome, &code, 6, target) } else { 0 };
            assert_eq!((pair(&outcome.out, 0), outcome.out[4]), (link, 3), "{target} {swaps}");
        }
        // Nothing behind the end is executed.
        let ended = [keep(int(5), 0), vec![end()], keep(int(6), 0), vec![end()]].concat();
        assert_eq!(finish(target, &ended).out[0], 5);
    }
}

#[test]
fn execution_past_the_program_is_a_fault() {
    for (_, target) in TARGETS {
        let outcome = run(target, Level::Fast, &[Inst::new(op::s_code_end, []), end()], 32, 1, 0);
        let fault = outcome.result.unwrap_err();
        assert!(matches!(fault.cause, Cause::Unsupported(_)) && fault.pc == outcome.entry, "{fault}");
    }
}

/// Rows that the tests of this file execute, with their chips.
pub(crate) fn covered() -> BTreeSet<(Op, char)> {
    let mut out = BTreeSet::new();
    for (chip, target) in TARGETS {
        let waits = WAITS.iter().filter(|one| one.2 == is_gfx12(target)).map(|one| one.0);
        let waits = waits.filter(|op| op.row().opcode(target).is_some());
        let lists = [INERT, BRANCHES, JUMPS, &[op::s_code_end]];
        let listed = lists.into_iter().flat_map(|list| present(list, target));
        out.extend(listed.chain(waits).map(|op| (op, chip)));
    }
    out
}
