//! The content of findings: kernel, address and text of the instruction, wave, and the other party.
//!
//! One program for every kind. Arguments: s[0:1] points at a buffer of 4 KiB, s2 is the group's number on gfx1100.

use doorbell_isa::{Cache, Inst, Operand, Target, op, s, s_range, v, v_range};
use doorbell_soft::processor::{FindingKind, Level, Options};

use crate::program::{Machine, assemble};
use crate::words::{end, imm, int, load, mov, offset, wait};

fn store(address: u8, register: u8) -> Inst {
    Inst::new(op::global_store_b32, [v(address), v(register), s_range(0, 2)])
}

fn matrix(first: u8, a: u8) -> Inst {
    let operands = [v_range(first, 8), v_range(a, 8), v_range(24, 8), v_range(32, 8)];
    Inst::new(op::v_wmma_f32_16x16x16_f16, operands)
}

/// A program, which of its instructions is found and which are the other party.
struct Case {
    kind: FindingKind,
    target: Target,
    code: Vec<Inst>,
    items: u32,
    at: &'static [usize],
    others: &'static [usize],
}

fn case(
    kind: FindingKind,
    code: &[Inst],
    items: u32,
    at: &'static [usize],
    others: &'static [usize],
) -> Case {
    Case { kind, target: Target::Gfx1100, code: code.to_vec(), items, at, others }
}

fn registers() -> Vec<Case> {
    let add = Inst::new(op::v_add_nc_u32, [v(2), v(1), v(1)]);
    let compare = Inst::new(op::s_cmp_eq_u32, [s(20), int(7)]);
    let branch = Inst::new(op::s_cbranch_scc1, [imm(0)]);
    vec![
        case(FindingKind::ReadBeforeWait, &[offset(), load(1), add, end()], 32, &[2], &[1]),
        case(FindingKind::WriteBeforeWait, &[offset(), load(1), mov(1, 0), end()], 32, &[2], &[1]),
        case(FindingKind::UndefinedAddress, &[load(1), wait(), end()], 32, &[0], &[]),
        case(FindingKind::UndefinedControl, &[compare, branch, end()], 32, &[1], &[]),
        case(FindingKind::UndefinedStore, &[offset(), store(10, 7), end()], 32, &[1], &[]),
    ]
}

fn memory() -> Vec<Case> {
    let same = Inst::new(op::v_and_b32, [v(11), int(124), v(10)]);
    let lds = Inst::new(op::ds_store_b32, [v(11), v(10)]);
    let race = [mov(1, 0), mov(4, 7), store(1, 4), end()];
    let second = [
        Inst::new(op::v_readfirstlane_b32, [s(20), v(0)]),
        Inst::new(op::s_cmp_ge_u32, [s(20), int(32)]),
        Inst::new(op::s_cbranch_scc1, [imm(2)]),
    ];
    let barrier = Inst::new(op::s_barrier, []);
    let barriers = [&second[..], &[barrier, end(), barrier, end()]].concat();
    vec![
        case(FindingKind::LdsRace, &[offset(), same, lds, wait(), end()], 64, &[2], &[2]),
        case(FindingKind::GlobalRace, &race, 32, &[2], &[2]),
        case(FindingKind::DivergentBarrier, &barriers, 64, &[3, 5], &[3, 5]),
        stale(),
    ]
}

/// Group 0 stores data and a flag; group 1 has the line in the scalar cache already.
fn stale() -> Case {
    let scalar = |offset: i32| Inst::new(op::s_load_b32, [s(9), s_range(0, 2), Operand::Off]).offset(offset);
    let coherent = Cache::Gfx11 { glc: true, slc: false, dlc: false };
    let poll = Inst::new(op::global_load_b32, [v(2), v(1), s_range(0, 2)]).offset(1024).cache(coherent);
    let consumer = [
        scalar(64),
        wait(),
        poll,
        wait(),
        Inst::new(op::v_readfirstlane_b32, [s(8), v(2)]),
        Inst::new(op::s_cmp_eq_u32, [s(8), int(1)]),
        Inst::new(op::s_cbranch_scc0, [imm(-6)]),
        Inst::new(op::buffer_gl1_inv, []),
        Inst::new(op::buffer_gl0_inv, []),
        scalar(0),
        wait(),
        end(),
    ];
    let dwords = assemble(&consumer, Target::Gfx1100).len() as i32;
    let start = [
        mov(1, 0),
        Inst::new(op::s_cmp_eq_u32, [s(2), int(0)]),
        Inst::new(op::s_cbranch_scc1, [imm(dwords)]),
    ];
    let producer = [
        mov(4, 7),
        mov(5, 1),
        store(1, 4),
        Inst::new(op::s_waitcnt_vscnt, [Operand::NULL, imm(0)]),
        store(1, 5).offset(1024),
        end(),
    ];
    case(FindingKind::StaleRead, &[&start[..], &consumer, &producer].concat(), 32, &[12], &[17])
}

fn hazards() -> Vec<Case> {
    let exp = Inst::new(op::v_exp_f32, [v(2), v(1)]);
    let read = Inst::new(op::v_add_f32, [v(3), v(2), v(2)]);
    let compare = Inst::new(op::v_cmpx_le_u32, [int(0), v(0)]);
    let permute = Inst::new(op::v_permlane16_b32, [v(3), v(0), int(0), int(0)]);
    let fill: Vec<Inst> = (16..40).map(|register| mov(register, 0)).collect();
    let one_lane = Inst::new(op::s_mov_b32, [Operand::EXEC_LO, int(1)]);
    let unequal = Inst::new(op::v_mov_b32, [v(16), v(0)]);
    let release = Inst::new(op::s_sendmsg, [imm(3)]);
    let private = Inst::new(op::scratch_store_b32, [v(1), v(0), Operand::Off]);
    let scalar = Case {
        target: Target::Gfx1200,
        ..case(
            FindingKind::ScalarHazard,
            &[
                Inst::new(op::v_mov_b32, [v(1), s(0)]),
                Inst::new(op::s_mov_b32, [s(0), int(5)]),
                Inst::new(op::v_mov_b32, [v(2), s(0)]),
                end(),
            ],
            32,
            &[2],
            &[1],
        )
    };
    vec![
        case(FindingKind::TransHazard, &[mov(1, 0), exp, read, end()], 32, &[2], &[1]),
        case(
            FindingKind::MatrixHazard,
            &[&fill[..], &[matrix(40, 16), matrix(48, 40), end()]].concat(),
            32,
            &[25],
            &[24],
        ),
        case(FindingKind::PermlaneHazard, &[compare, permute, end()], 32, &[1], &[0]),
        case(
            FindingKind::MatrixExec,
            &[&fill[..], &[one_lane, matrix(40, 16), end()]].concat(),
            32,
            &[25],
            &[],
        ),
        case(
            FindingKind::MatrixCopies,
            &[&fill[..], &[unequal, matrix(40, 16), end()]].concat(),
            32,
            &[25],
            &[],
        ),
        case(FindingKind::AfterRelease, &[release, mov(1, 0), end()], 32, &[1], &[0]),
        case(FindingKind::AfterRelease, &[mov(1, 0), private, release, end()], 32, &[2], &[1]),
        case(FindingKind::IgnoredTrap, &[Inst::new(op::s_trap, [imm(2)]), end()], 32, &[0], &[]),
        scalar,
    ]
}

/// Addresses of the instructions of a program.
fn addresses(code: &[Inst], target: Target, entry: u64) -> Vec<u64> {
    (0..code.len()).map(|at| entry + 4 * assemble(&code[..at], target).len() as u64).collect()
}

fn check(case: &Case) {
    let Case { kind, target, code, items, .. } = case;
    let mut found = None;
    for seed in 0..32 {
        let mut machine = Machine::new(&assemble(code, *target));
        let buffer = machine.space.allocate("buffer", 4096).unwrap();
        let mut dispatch = machine.dispatch(*items, buffer.address());
        dispatch.name = "the_kernel".into();
        dispatch.lds = 1024;
        dispatch.scratch = 64;
        dispatch.grid[0] = 2 * items;
        let options = Options { level: Level::Strict, seed, patience: 200_000, ..Options::default() };
        let report = machine.run(*target, options, dispatch).unwrap();
        if let Some(finding) = report.findings.into_iter().find(|finding| finding.kind == *kind) {
            found = Some((finding, addresses(code, *target, machine.entry)));
            break;
        }
    }
    let (finding, addresses) = found.unwrap_or_else(|| panic!("{kind:?} was not found"));
    let text = |pc: u64| {
        let index = addresses.iter().position(|address| *address == pc).expect("an instruction's address");
        (index, code[index].text(*target).to_string())
    };
    assert_eq!(finding.kernel, "the_kernel");
    let (index, wanted) = text(finding.pc);
    assert!(case.at.contains(&index), "{finding}");
    assert_eq!(finding.text, wanted, "{finding}");
    assert!(finding.wave < items.div_ceil(32) && finding.group[0] < 2, "{finding}");
    assert!(!finding.detail.is_empty());
    match &finding.other {
        None => assert!(case.others.is_empty(), "{finding}"),
        Some(other) => {
            let (index, wanted) = text(other.pc);
            assert!(case.others.contains(&index), "{finding}");
            assert_eq!(other.text, wanted, "{finding}");
        }
    }
    let printed = finding.to_string();
    let parts =
        ["the_kernel".to_owned(), format!("{:#x}", finding.pc), wanted, format!("wave {}", finding.wave)];
    for part in parts.iter().chain(finding.other.as_ref().map(|other| &other.text)) {
        assert!(printed.contains(part.as_str()), "{printed:?} without {part:?}");
    }
}

#[test]
fn every_kind_names_kernel_instruction_wave_and_the_other_party() {
    let cases: Vec<Case> = [registers(), memory(), hazards()].into_iter().flatten().collect();
    cases.iter().for_each(check);
    let kinds: std::collections::BTreeSet<String> =
        cases.iter().map(|case| format!("{:?}", case.kind)).collect();
    assert_eq!(kinds.len(), FindingKind::COUNT);
}

#[test]
fn a_launch_without_a_name_is_called_by_its_first_instruction() {
    let mut machine = Machine::new(&assemble(&[load(1), wait(), end()], Target::Gfx1100));
    let buffer = machine.space.allocate("buffer", 4096).unwrap();
    let mut dispatch = machine.dispatch(32, buffer.address());
    dispatch.name = String::new();
    let report = machine.run(Target::Gfx1100, Options::default(), dispatch).unwrap();
    assert_eq!(report.findings[0].kernel, format!("kernel at {:#x}", machine.entry));
}
