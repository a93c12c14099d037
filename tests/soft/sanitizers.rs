//! Programs that each sanitizer must catch, and their clean twins.
//!
//! All programs run on gfx1100 unless they say otherwise, one group, arguments: s[0:1] points at a buffer of 4 KiB.

use doorbell_isa::{Inst, Operand, Target, op, s, s_range, v, v_range};
use doorbell_soft::processor::{Cause, Fault, FindingKind, Level, Options, Report};

use crate::program::{Machine, assemble};
use crate::words::{barrier, end, imm, int, lds_load, lds_store, load, mov, offset, store, wait};

fn options(seed: u64) -> Options {
    Options { level: Level::Strict, seed, budget: 1_000_000, patience: 20_000, ..Options::default() }
}

fn run_on(target: Target, code: &[Inst], items: u32, seed: u64) -> Result<Report, Fault> {
    let mut machine = Machine::new(&assemble(code, target));
    let buffer = machine.space.allocate("buffer", 4096).unwrap();
    let mut dispatch = machine.dispatch(items, buffer.address());
    dispatch.lds = 1024;
    machine.run(target, options(seed), dispatch)
}

fn kinds(target: Target, code: &[Inst], items: u32) -> Vec<FindingKind> {
    let mut kinds = Vec::new();
    for seed in 0..8 {
        let report = run_on(target, code, items, seed).unwrap();
        kinds.extend(report.findings.iter().map(|finding| finding.kind));
    }
    kinds.sort_unstable_by_key(|kind| format!("{kind:?}"));
    kinds.dedup();
    kinds
}

/// Every bad program gives this finding and nothing else, the clean one nothing.
fn expect(kind: FindingKind, items: u32, bad: &[&[Inst]], clean: &[Inst]) {
    for code in bad {
        assert_eq!(kinds(Target::Gfx1100, code, items), [kind], "{code:?}");
    }
    assert_eq!(kinds(Target::Gfx1100, clean, items), [], "{clean:?}");
}

#[test]
fn reading_a_register_that_is_being_loaded_is_caught() {
    let add = Inst::new(op::v_add_nc_u32, [v(2), v(1), v(1)]);
    let vector = [offset(), load(1), add, end()];
    let scalar = [
        Inst::new(op::s_load_b32, [s(4), s_range(0, 2), Operand::Off]),
        Inst::new(op::s_add_u32, [s(5), s(4), s(4)]),
        end(),
    ];
    // A count of one leaves the younger load outstanding.
    let count = Inst::new(op::s_waitcnt, [imm(1 << 10 | 0x3f7 & 0x3ff)]);
    let younger = [offset(), load(3), load(1), count, add, end()];
    let clean = [offset(), load(1), load(3), count, add, wait(), end()];
    expect(FindingKind::ReadBeforeWait, 32, &[&vector, &scalar, &younger], &clean);
}

#[test]
fn overwriting_a_register_that_is_being_loaded_is_caught() {
    let plain = [offset(), load(1), mov(1, 0), end()];
    let lds = [mov(11, 0), mov(12, 1), lds_store(11, 12), lds_load(1, 11), mov(1, 0), end()];
    let clean = [offset(), load(1), load(1), wait(), mov(1, 0), end()];
    expect(FindingKind::WriteBeforeWait, 32, &[&plain, &lds], &clean);
}

#[test]
fn an_undefined_address_is_caught() {
    let global = [Inst::new(op::global_load_b32, [v(1), v(10), s_range(0, 2)]), end()];
    let lds = [mov(12, 1), lds_store(11, 12), end()];
    let clean = [offset(), load(1), end()];
    for code in [&global[..], &lds[..]] {
        // Registers start at zero in this model, so the access itself stays inside.
        assert_eq!(kinds(Target::Gfx1100, code, 32), [FindingKind::UndefinedAddress]);
    }
    assert_eq!(kinds(Target::Gfx1100, &clean, 32), []);
}

#[test]
fn a_branch_on_an_undefined_value_is_caught() {
    let branch = Inst::new(op::s_cbranch_scc1, [imm(0)]);
    let by_register = [Inst::new(op::s_cmp_eq_u32, [s(20), int(7)]), branch, end()];
    let by_vcc = [Inst::new(op::s_cbranch_vccnz, [imm(0)]), end()];
    let by_exec = [Inst::new(op::s_mov_b32, [Operand::EXEC_LO, s(21)]), end()];
    let clean = [
        Inst::new(op::s_and_b32, [s(20), s(20), int(0)]),
        Inst::new(op::s_cmp_eq_u32, [s(20), int(7)]),
        branch,
        end(),
    ];
    expect(FindingKind::UndefinedControl, 32, &[&by_register, &by_vcc, &by_exec], &clean);
}

#[test]
fn storing_an_undefined_value_is_caught() {
    let register = [offset(), store(7), end()];
    let from_lds = [offset(), lds_load(7, 10), wait(), store(7), end()];
    let half = [
        offset(),
        Inst::new(op::v_and_b32, [v(8), int(0xffff), v(7)]),
        Inst::new(op::v_or_b32, [v(8), int(1 << 20), v(8)]),
        store(8),
        end(),
    ];
    let clean = [
        offset(),
        Inst::new(op::v_and_b32, [v(8), int(0), v(7)]),
        Inst::new(op::v_lshrrev_b64, [v_range(8, 2), int(32), v_range(8, 2)]),
        mov(9, 1),
        store(9),
        lds_store(10, 9),
        wait(),
        lds_load(7, 10),
        wait(),
        store(7),
        end(),
    ];
    expect(FindingKind::UndefinedStore, 32, &[&register, &from_lds, &half], &clean);
}

#[test]
fn waves_that_touch_the_same_lds_bytes_unordered_are_caught() {
    // v11 = 4 * (item mod 32): both waves use the same words.
    let same = Inst::new(op::v_and_b32, [v(11), int(124), v(10)]);
    let write_write = [offset(), same, lds_store(11, 10), wait(), end()];
    // The neighbor wave's words, before a barrier.
    let other = Inst::new(op::v_xor_b32, [v(12), int(128), v(10)]);
    let write_read = [offset(), other, lds_store(10, 10), wait(), lds_load(2, 12), wait(), end()];
    let clean = [offset(), other, lds_store(10, 10), wait(), barrier(), lds_load(2, 12), wait(), end()];
    // A store that is still on its way at the barrier is not ordered by it.
    let late = [offset(), other, lds_store(10, 10), barrier(), lds_load(2, 12), wait(), end()];
    expect(FindingKind::LdsRace, 64, &[&write_write, &write_read, &late], &clean);
}

/// Branch of the second wave: SCC = item 0's number is 32 or more.
fn second_wave(distance: i32) -> [Inst; 3] {
    [
        Inst::new(op::v_readfirstlane_b32, [s(20), v(0)]),
        Inst::new(op::s_cmp_ge_u32, [s(20), int(32)]),
        Inst::new(op::s_cbranch_scc1, [imm(distance)]),
    ]
}

#[test]
fn waves_at_different_barriers_are_caught() {
    let mut two = second_wave(2).to_vec();
    two.extend([barrier(), end(), barrier(), end()]);
    let gfx12 = [Inst::new(op::s_barrier_wait, [imm(0xffff)]), end()];
    let mut clean = second_wave(0).to_vec();
    clean.extend([barrier(), end()]);
    expect(FindingKind::DivergentBarrier, 64, &[&two], &clean);
    assert_eq!(kinds(Target::Gfx1200, &gfx12, 64), [FindingKind::DivergentBarrier]);
}

fn matrix() -> Vec<Inst> {
    let mut code: Vec<Inst> = (16..40).map(|register| mov(register, 0)).collect();
    code.push(Inst::new(
        op::v_wmma_f32_16x16x16_f16,
        [v_range(40, 8), v_range(16, 8), v_range(24, 8), v_range(32, 8)],
    ));
    code.push(end());
    code
}

#[test]
fn matrix_instructions_with_inactive_lanes_are_caught() {
    let clean = matrix();
    let mut masked = clean.clone();
    masked.insert(24, Inst::new(op::s_mov_b32, [Operand::EXEC_LO, int(1)]));
    assert_eq!(kinds(Target::Gfx1100, &masked, 32), [FindingKind::MatrixExec]);
    assert_eq!(
        kinds(Target::Gfx1100, &clean, 16),
        [FindingKind::MatrixExec, FindingKind::UndefinedStore][..1]
    );
    assert_eq!(kinds(Target::Gfx1100, &clean, 32), []);
}

#[test]
fn matrix_inputs_with_unequal_halves_are_caught() {
    let clean = matrix();
    for register in [16, 31] {
        let mut unequal = clean.clone();
        unequal.insert(24, Inst::new(op::v_mov_b32, [v(register), v(0)]));
        assert_eq!(kinds(Target::Gfx1100, &unequal, 32), [FindingKind::MatrixCopies]);
    }
    assert_eq!(kinds(Target::Gfx1100, &clean, 32), []);
}

#[test]
fn hazards_that_the_chip_does_not_resolve_are_caught() {
    let exp = Inst::new(op::v_exp_f32, [v(2), v(1)]);
    let read = Inst::new(op::v_add_f32, [v(3), v(2), v(2)]);
    let fill = |count: usize| vec![mov(4, 0); count];
    let program = |gap: usize| [vec![mov(1, 0), exp], fill(gap), vec![read, end()]].concat();
    for gap in [0, 5] {
        assert_eq!(kinds(Target::Gfx1100, &program(gap), 32), [FindingKind::TransHazard]);
        assert_eq!(kinds(Target::Gfx1151, &program(gap), 32), []);
    }
    assert_eq!(kinds(Target::Gfx1100, &program(6), 32), []);

    let mut chained = matrix();
    let next = Inst::new(
        op::v_wmma_f32_16x16x16_f16,
        [v_range(48, 8), v_range(40, 8), v_range(24, 8), v_range(32, 8)],
    );
    chained.insert(25, next);
    assert_eq!(kinds(Target::Gfx1100, &chained, 32), [FindingKind::MatrixHazard]);
    chained.insert(25, Inst::new(op::v_nop, []));
    assert_eq!(kinds(Target::Gfx1100, &chained, 32), []);

    let compare = Inst::new(op::v_cmpx_le_u32, [int(0), v(0)]);
    let permute = Inst::new(op::v_permlane16_b32, [v(3), v(0), int(0), int(0)]);
    assert_eq!(kinds(Target::Gfx1100, &[compare, permute, end()], 32), [FindingKind::PermlaneHazard]);
    assert_eq!(kinds(Target::Gfx1100, &[compare, mov(4, 0), permute, end()], 32), []);
}

#[test]
fn accesses_out_of_bounds_name_the_nearest_allocation() {
    let far = load(1).offset(4000);
    let fault = run_on(Target::Gfx1100, &[offset(), far, wait(), end()], 32, 0).unwrap_err();
    let Cause::Memory(memory) = &fault.cause else { panic!("{fault}") };
    let (name, at) = memory.nearest.clone().unwrap();
    assert_eq!((name.as_str(), at), ("buffer", 4096));
    let lds = [mov(11, 4096), lds_load(1, 11), wait(), end()];
    let fault = run_on(Target::Gfx1100, &lds, 32, 0).unwrap_err();
    assert!(matches!(fault.cause, Cause::Lds { address: 4096, size: 1024 }), "{fault}");
    let clean = [offset(), load(1).offset(3968), wait(), end()];
    assert!(run_on(Target::Gfx1100, &clean, 32, 0).is_ok());
}

/// Group 0 waits until the buffer's first word is 1; the last of `groups` groups stores it.
fn flag(groups: u32, resident: usize, seed: u64) -> Result<Report, Fault> {
    let last = groups as i32 - 1;
    let glc = doorbell_isa::Cache::Gfx11 { glc: true, slc: false, dlc: false };
    let poll = Inst::new(op::global_load_b32, [v(2), v(1), s_range(0, 2)]).cache(glc);
    let code = [
        mov(1, 0),
        Inst::new(op::s_cmp_eq_u32, [s(2), int(last)]),
        Inst::new(op::s_cbranch_scc1, [imm(7)]),
        poll,
        wait(),
        Inst::new(op::v_readfirstlane_b32, [s(8), v(2)]),
        Inst::new(op::s_cmp_eq_u32, [s(8), int(1)]),
        Inst::new(op::s_cbranch_scc0, [imm(-7)]),
        end(),
        mov(3, 1),
        Inst::new(op::global_store_b32, [v(1), v(3), s_range(0, 2)]),
        end(),
    ];
    let mut machine = Machine::new(&assemble(&code, Target::Gfx1100));
    let buffer = machine.space.allocate("buffer", 4096).unwrap();
    let mut dispatch = machine.dispatch(32, buffer.address());
    dispatch.grid[0] = groups * 32;
    let options = Options { resident, ..options(seed) };
    machine.run(Target::Gfx1100, options, dispatch)
}

#[test]
fn groups_that_wait_for_one_that_does_not_fit_are_a_deadlock() {
    for (groups, resident) in [(3, 2), (9, 8)] {
        for seed in 0..4 {
            assert!(flag(groups, groups as usize, seed).is_ok());
        }
        let fault = flag(groups, resident, 1).unwrap_err();
        assert_eq!(fault.cause, Cause::Deadlock, "{fault}");
    }
}
