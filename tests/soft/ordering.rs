//! Races between workgroups and reads of old lines: programs that must be caught and their clean twins.
//!
//! Group 0 produces: data at word 0, a flag at word 256. Group 1 consumes. s[0:1] points at them, s2 is the group.

use doorbell_isa::{Cache, Inst, Operand, Target, op, s, s_range, v};
use doorbell_soft::processor::{Engine, FindingKind, Level, Options};

use crate::program::{Machine, assemble};
use crate::words::{end, imm, int, mov, wait};

const FLAG: i32 = 1024;

fn load(register: u8, offset: i32) -> Inst {
    Inst::new(op::global_load_b32, [v(register), v(1), s_range(0, 2)]).offset(offset)
}

fn store(value: u8, offset: i32) -> Inst {
    Inst::new(op::global_store_b32, [v(1), v(value), s_range(0, 2)]).offset(offset)
}

fn dwords(code: &[Inst]) -> i32 {
    assemble(code, Target::Gfx1100).len() as i32
}

/// Waits until the flag is 1.
fn poll() -> Vec<Inst> {
    let coherent = Cache::Gfx11 { glc: true, slc: false, dlc: false };
    let mut code = vec![
        load(2, FLAG).cache(coherent),
        wait(),
        Inst::new(op::v_readfirstlane_b32, [s(8), v(2)]),
        Inst::new(op::s_cmp_eq_u32, [s(8), int(1)]),
    ];
    let back = -dwords(&code) - 1;
    code.push(Inst::new(op::s_cbranch_scc0, [imm(back)]));
    code
}

fn invalidate() -> Vec<Inst> {
    vec![Inst::new(op::buffer_gl1_inv, []), Inst::new(op::buffer_gl0_inv, [])]
}

fn acknowledged() -> Vec<Inst> {
    vec![Inst::new(op::s_waitcnt_vscnt, [Operand::NULL, imm(0)])]
}

/// Data, what stands between, the flag.
fn producer(between: Vec<Inst>) -> Vec<Inst> {
    [vec![mov(4, 7), mov(5, 1), store(4, 0)], between, vec![store(5, FLAG), end()]].concat()
}

/// Group 0 runs the first program, group 1 the second.
fn both(first: &[Inst], second: &[Inst]) -> Vec<Inst> {
    let start = [
        mov(1, 0),
        Inst::new(op::s_cmp_eq_u32, [s(2), int(0)]),
        Inst::new(op::s_cbranch_scc1, [imm(dwords(second))]),
    ];
    [&start, second, first].concat()
}

fn kinds(code: &[Inst]) -> Vec<FindingKind> {
    let mut kinds = Vec::new();
    for seed in 0..12 {
        let mut machine = Machine::new(&assemble(code, Target::Gfx1100));
        let buffer = machine.space.allocate("buffer", 4096).unwrap();
        let mut dispatch = machine.dispatch(32, buffer.address());
        dispatch.grid[0] = 64;
        let options = Options { level: Level::Strict, seed, patience: 200_000, ..Options::default() };
        let report = machine.run(Target::Gfx1100, options, dispatch).unwrap();
        kinds.extend(report.findings.iter().map(|finding| finding.kind));
    }
    kinds.sort_unstable_by_key(|kind| format!("{kind:?}"));
    kinds.dedup();
    kinds
}

fn read_data() -> Vec<Inst> {
    vec![load(3, 0), wait(), end()]
}

#[test]
fn groups_that_nothing_orders_are_a_race() {
    let race = [FindingKind::GlobalRace];
    let write = vec![mov(4, 7), store(4, 0), end()];
    assert_eq!(kinds(&both(&write, &write)), race);
    assert_eq!(kinds(&both(&write, &read_data())), race);
    // The flag may be seen before the data: the first store was not acknowledged.
    let acquired = [poll(), invalidate(), read_data()].concat();
    assert_eq!(kinds(&both(&producer(vec![]), &acquired)), race);
    // A poll alone does not order what follows.
    assert_eq!(kinds(&both(&producer(acknowledged()), &[poll(), read_data()].concat())), race);
    let clean = both(&producer(acknowledged()), &acquired);
    assert_eq!(kinds(&clean), []);
    // Words beside one another are no race.
    let beside = vec![mov(4, 7), store(4, 4), end()];
    assert_eq!(kinds(&both(&write, &beside)), []);
}

/// Parts of a dword that meet in no byte, as blocks of 34 bytes have them where they touch.
#[test]
fn bytes_beside_one_another_are_no_race() {
    let byte = |offset: i32| {
        let store = Inst::new(op::global_store_b8, [v(1), v(4), s_range(0, 2)]).offset(offset);
        vec![mov(4, 7), store, end()]
    };
    let half = |offset: i32| {
        let store = Inst::new(op::global_store_b16, [v(1), v(4), s_range(0, 2)]).offset(offset);
        vec![mov(4, 7), store, end()]
    };
    let read = |offset: i32| {
        let load = Inst::new(op::global_load_u16, [v(3), v(1), s_range(0, 2)]).offset(offset);
        vec![load, wait(), end()]
    };
    for (first, second, meet) in [
        (half(0), half(2), false),
        (byte(1), half(2), false),
        (half(6), byte(5), false),
        (half(0), read(2), false),
        (half(2), byte(3), true),
        (byte(2), half(2), true),
        (half(2), read(2), true),
    ] {
        let found = kinds(&both(&first, &second));
        assert_eq!(found, if meet { vec![FindingKind::GlobalRace] } else { vec![] });
    }
}

#[test]
fn atomics_of_several_groups_are_no_race() {
    let add = Inst::new(op::global_atomic_add_u32, [v(1), v(4), s_range(0, 2)]);
    let code = vec![mov(4, 1), add, end()];
    assert_eq!(kinds(&both(&code, &code)), []);
    let write = vec![mov(4, 7), store(4, 0), end()];
    assert_eq!(kinds(&both(&code, &write)), [FindingKind::GlobalRace]);
}

#[test]
fn a_scalar_cache_that_was_not_emptied_is_old() {
    let scalar = |offset: i32| Inst::new(op::s_load_b32, [s(9), s_range(0, 2), Operand::Off]).offset(offset);
    // A word of the same line, long before; nobody writes that one.
    let early = vec![scalar(64), wait()];
    let late = vec![scalar(0), wait(), end()];
    let emptied = vec![Inst::new(op::s_dcache_inv, []), wait()];
    let consumer = |between: Vec<Inst>| [early.clone(), poll(), invalidate(), between, late.clone()].concat();
    assert_eq!(kinds(&both(&producer(acknowledged()), &consumer(vec![]))), [FindingKind::StaleRead]);
    assert_eq!(kinds(&both(&producer(acknowledged()), &consumer(emptied))), []);
}

/// Three dispatches: group 0 reads beside the data, group 1 writes the data, group 0 reads it.
fn in_turn(acquires: bool, seed: u64) -> Vec<FindingKind> {
    let nothing = vec![end()];
    let beside = vec![load(3, 64), wait(), end()];
    let write = vec![mov(4, 7), store(4, 0), end()];
    let programs = [both(&beside, &nothing), both(&nothing, &write), both(&read_data(), &nothing)];
    let words: Vec<Vec<u32>> = programs.iter().map(|code| assemble(code, Target::Gfx1100)).collect();
    let mut machine = Machine::new(&words.concat());
    let buffer = machine.space.allocate("buffer", 4096).unwrap();
    let options = Options { level: Level::Strict, seed, ..Options::default() };
    let mut engine = Engine::new(Target::Gfx1100, options);
    let mut found = Vec::new();
    let mut entry = machine.entry;
    for words in &words {
        let mut dispatch = machine.dispatch(32, buffer.address());
        (dispatch.entry, dispatch.grid[0]) = (entry, 64);
        entry += 4 * words.len() as u64;
        let report = engine.run(&[dispatch], &mut machine.space).unwrap();
        found.extend(report.findings.iter().map(|finding| finding.kind));
        if !acquires {
            engine.keep_caches();
        }
    }
    found
}

#[test]
fn a_dispatch_without_an_acquire_reads_old_lines() {
    // Which compute unit a group has depends on the order in which they become resident.
    let without = (0..16).filter(|seed| in_turn(false, *seed) == [FindingKind::StaleRead]).count();
    assert!(without > 0);
    assert!((0..16).all(|seed| in_turn(true, seed).is_empty()));
}
