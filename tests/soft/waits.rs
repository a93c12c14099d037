//! Waits that only some addresses, messages and chips need: flat accesses, answers of messages, gfx12's scalar registers.
//!
//! Arguments: s[0:1] points at a buffer of 4 KiB.

use doorbell_isa::{Inst, Operand, Special, Target, op, s, s_range, v, v_range};
use doorbell_soft::processor::{FindingKind, Level, Options};

use crate::program::{Machine, assemble};
use crate::words::{end, imm, int};

fn mov(register: u8, from: Operand) -> Inst {
    Inst::new(op::v_mov_b32, [v(register), from])
}

fn kinds(target: Target, code: &[Inst], scalar_reads: bool) -> Vec<FindingKind> {
    let mut kinds = Vec::new();
    for seed in 0..16 {
        let mut machine = Machine::new(&assemble(code, target));
        let buffer = machine.space.allocate("buffer", 4096).unwrap();
        let mut dispatch = machine.dispatch(32, buffer.address());
        dispatch.lds = 1024;
        let options = Options { level: Level::Strict, seed, scalar_reads, ..Options::default() };
        let report = machine.run(target, options, dispatch).unwrap();
        kinds.extend(report.findings.iter().map(|finding| finding.kind));
    }
    kinds.sort_unstable_by_key(|kind| format!("{kind:?}"));
    kinds.dedup();
    kinds
}

/// A flat load from `high:0`, a wait, a use of what was loaded.
fn flat(first: Operand, high: Operand, wait: i32) -> Vec<Inst> {
    let zero = mov(12, int(0));
    vec![
        zero,
        Inst::new(op::ds_store_b32, [v(12), v(12)]),
        Inst::new(op::s_waitcnt, [imm(0)]),
        mov(2, first),
        mov(3, high),
        Inst::new(op::flat_load_b32, [v(4), v_range(2, 2)]),
        Inst::new(op::s_waitcnt, [imm(wait)]),
        Inst::new(op::v_add_nc_u32, [v(5), v(4), v(4)]),
        Inst::new(op::s_waitcnt, [imm(0)]),
        end(),
    ]
}

#[test]
fn a_flat_load_is_there_when_the_counter_of_its_memory_says_so() {
    let (vector, local, both) = (0x03f7, 0xfc07, 0x0007);
    let early = [FindingKind::ReadBeforeWait];
    let global = |wait: i32| kinds(Target::Gfx1100, &flat(s(0), s(1), wait), true);
    assert_eq!(global(vector), []);
    assert_eq!(global(local), early);
    assert_eq!(global(both), []);
    let shared = Operand::Special(Special::SharedBase);
    let group = |wait: i32| kinds(Target::Gfx1100, &flat(int(0), shared, wait), true);
    assert_eq!(group(vector), early);
    assert_eq!(group(local), []);
    assert_eq!(group(both), []);
}

#[test]
fn the_answer_of_a_message_has_to_be_waited_for() {
    let program = |between: &[Inst]| {
        let ask = Inst::new(op::s_sendmsg_rtn_b64, [s_range(4, 2), imm(0x83)]);
        let read = Inst::new(op::s_xor_b32, [s(6), s(5), s(4)]);
        [&[ask][..], between, &[read, end()]].concat()
    };
    for (target, wait) in [
        (Target::Gfx1100, Inst::new(op::s_waitcnt, [imm(0xfc07)])),
        (Target::Gfx1200, Inst::new(op::s_wait_kmcnt, [imm(0)])),
    ] {
        assert_eq!(kinds(target, &program(&[]), true), [FindingKind::ReadBeforeWait], "{target}");
        assert_eq!(kinds(target, &program(&[wait]), true), [], "{target}");
    }
}

/// s_wait_alu with these masks together.
fn wait_alu(bits: i32) -> Inst {
    Inst::new(op::s_wait_alu, [imm(bits)])
}

const SCALAR: i32 = 0xfffe;
const VCC: i32 = 0xfffd;
const VECTOR: i32 = 0xf1ff;

/// A vector instruction reads the pair of s0; `write`; what stands between; `read`.
fn hazard(write: Inst, between: &[Inst], read: Inst) -> Vec<Inst> {
    [&[mov(1, s(1)), write][..], between, &[read, end()]].concat()
}

#[test]
fn gfx12_scalar_registers_that_vector_instructions_read_are_waited_for() {
    let found = |code: &[Inst]| kinds(Target::Gfx1200, code, true);
    let early = [FindingKind::ScalarHazard];
    let by_scalar = Inst::new(op::s_mov_b32, [s(0), int(5)]);
    let by_vector = Inst::new(op::v_readfirstlane_b32, [s(0), v(0)]);
    let vector = mov(2, s(0));
    let scalar = Inst::new(op::s_xor_b32, [s(6), s(0), s(0)]);
    // Other scalar instructions, of which enough are as good as a wait.
    let fill = |count: usize| vec![Inst::new(op::s_mov_b32, [s(8), int(1)]); count];

    assert_eq!(found(&hazard(by_scalar, &[], vector)), early);
    assert_eq!(found(&hazard(by_scalar, &[], scalar)), early);
    assert_eq!(found(&hazard(by_scalar, &[wait_alu(VECTOR & VCC)], vector)), early);
    assert_eq!(found(&hazard(by_scalar, &[wait_alu(SCALAR)], vector)), []);
    assert_eq!(found(&hazard(by_scalar, &fill(9), scalar)), early);
    assert_eq!(found(&hazard(by_scalar, &fill(10), scalar)), []);
    assert_eq!(found(&hazard(by_scalar, &fill(10), vector)), early);
    assert_eq!(found(&hazard(by_scalar, &fill(11), vector)), []);

    assert_eq!(found(&hazard(by_vector, &[], vector)), early);
    assert_eq!(found(&hazard(by_vector, &[], scalar)), []);
    assert_eq!(found(&hazard(by_vector, &[scalar], vector)), []);
    assert_eq!(found(&hazard(by_vector, &[wait_alu(SCALAR & VCC)], vector)), early);
    assert_eq!(found(&hazard(by_vector, &[wait_alu(VECTOR)], vector)), []);
}

#[test]
fn gfx12_vcc_has_a_wait_of_its_own() {
    let compare = Inst::new(op::v_cmp_eq_u32, [Operand::VCC_LO, v(0), v(0)]);
    let select = Inst::new(op::v_cndmask_b32, [v(2), v(0), v(0), Operand::VCC_LO]);
    let program = |between: &[Inst]| {
        [&[compare, wait_alu(VCC), select, compare][..], between, &[select, end()]].concat()
    };
    let found = |code: &[Inst]| kinds(Target::Gfx1200, code, true);
    assert_eq!(found(&program(&[])), [FindingKind::ScalarHazard]);
    assert_eq!(found(&program(&[wait_alu(VECTOR)])), [FindingKind::ScalarHazard]);
    assert_eq!(found(&program(&[wait_alu(VCC)])), []);
}

#[test]
fn the_rule_is_that_of_gfx12_alone_and_of_registers_that_were_read() {
    let write = Inst::new(op::s_mov_b32, [s(0), int(5)]);
    let code = hazard(write, &[], mov(2, s(0)));
    assert_eq!(kinds(Target::Gfx1100, &code, true), []);
    assert_eq!(kinds(Target::Gfx1151, &code, true), []);
    assert_eq!(kinds(Target::Gfx1200, &code, false), []);
    let never_read = [Inst::new(op::s_mov_b32, [s(4), int(5)]), mov(2, s(4)), end()];
    assert_eq!(kinds(Target::Gfx1200, &never_read, true), []);
    let load = Inst::new(op::s_load_b32, [s(8), s_range(0, 2), Operand::Off]);
    let slow = Inst::new(op::s_mov_b32, [s(2), int(5)]);
    let behind_memory = [
        mov(1, int(0)),
        Inst::new(op::s_mov_b32, [s(2), int(4)]),
        mov(1, s(2)),
        slow,
        load,
        Inst::new(op::s_wait_kmcnt, [imm(0)]),
        mov(2, s(2)),
        end(),
    ];
    assert_eq!(kinds(Target::Gfx1200, &behind_memory, true), []);
}
