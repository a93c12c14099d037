//! Traps and exceptions of waves: what a handler finds, what it can do, what becomes of the wave.
//!
//! The handler here sends what it sees in the low 24 bits of m0: doorbell, and the trap's number or an exception's bit.

use doorbell_isa::{Generation, Inst, Operand, Scalar, Target, op, s, s_range, v};
use doorbell_soft::processor::{Cause, Engine, Level, Message, Options, Report, Trap};

use crate::program::{Machine, assemble};
use crate::words::{end, imm, int};

fn ttmp(first: u8, count: u8) -> Operand {
    Operand::Scalar(Scalar::ttmp(first, count))
}

const TARGETS: [Target; 3] = [Target::Gfx1100, Target::Gfx1151, Target::Gfx1200];
const DOORBELL: u32 = 0x2a5;
/// Trap number that the handler returns from.
const RESUMED: i32 = 3;

/// Positions by generation: trap number, flags register with its bits, state register with its halt bit.
struct Layout {
    id: (i32, i32),
    flags: i32,
    memory: i32,
    illegal: i32,
    translation: i32,
    state: i32,
    halt: i32,
}

fn layout(target: Target) -> Layout {
    if target.generation() == Generation::Gfx12 {
        Layout { id: (28, 4), flags: 17, memory: 4, illegal: 6, translation: 12, state: 4, halt: 14 }
    } else {
        Layout { id: (16, 8), flags: 3, memory: 8, illegal: 11, translation: 28, state: 2, halt: 13 }
    }
}

/// All 32 bits of a hardware register.
fn whole(register: i32) -> Operand {
    imm(31 << 11 | register)
}

/// Skips `count` dwords if SCC is 0.
fn unless(count: usize) -> Inst {
    Inst::new(op::s_cbranch_scc0, [imm(count as i32)])
}

/// Message: doorbell | number << 16 for traps, doorbell | exception bits << 10 otherwise: bit 0 illegal, 1 memory,
/// 2 translation. Trap `RESUMED` returns behind itself; all else halts.
fn handler(target: Target) -> Vec<Inst> {
    let layout = layout(target);
    let wait = if target.generation() == Generation::Gfx12 {
        Inst::new(op::s_wait_kmcnt, [imm(0)])
    } else {
        Inst::new(op::s_waitcnt, [imm(0)])
    };
    let mut code = vec![
        Inst::new(op::s_sendmsg_rtn_b32, [ttmp(4, 1), imm(0x80)]),
        wait,
        Inst::new(op::s_getreg_b32, [ttmp(5, 1), whole(layout.flags)]),
    ];
    for (bit, to) in [(layout.illegal, 10), (layout.memory, 11), (layout.translation, 12)] {
        code.push(Inst::new(op::s_bitcmp1_b32, [ttmp(5, 1), int(bit)]));
        code.push(unless(1));
        code.push(Inst::new(op::s_bitset1_b32, [ttmp(4, 1), int(to)]));
    }
    code.push(Inst::new(op::s_mov_b32, [ttmp(10, 1), Operand::Scalar(Scalar::M0)]));
    let send = [
        Inst::new(op::s_mov_b32, [Operand::Scalar(Scalar::M0), ttmp(4, 1)]),
        Inst::new(op::s_sendmsg, [imm(1)]),
        Inst::new(op::s_mov_b32, [Operand::Scalar(Scalar::M0), ttmp(10, 1)]),
    ];
    let id = Operand::Literal((layout.id.0 | layout.id.1 << 16) as u32);
    code.extend([
        Inst::new(op::s_bfe_u32, [ttmp(3, 1), ttmp(1, 1), id]),
        Inst::new(op::s_lshl_b32, [ttmp(2, 1), ttmp(3, 1), int(16)]),
        Inst::new(op::s_or_b32, [ttmp(4, 1), ttmp(4, 1), ttmp(2, 1)]),
    ]);
    code.extend(send);
    let gfx12 = target.generation() == Generation::Gfx12;
    let (add, carry) =
        if gfx12 { (op::s_add_co_u32, op::s_add_co_ci_u32) } else { (op::s_add_u32, op::s_addc_u32) };
    let resume = [
        Inst::new(add, [ttmp(0, 1), ttmp(0, 1), int(4)]),
        Inst::new(carry, [ttmp(1, 1), ttmp(1, 1), int(0)]),
        Inst::new(op::s_setreg_b32, [whole(layout.state), ttmp(12, 1)]),
        Inst::new(op::s_rfe_b64, [ttmp(0, 2)]),
    ];
    code.push(Inst::new(op::s_cmp_eq_u32, [ttmp(3, 1), int(RESUMED)]));
    code.push(unless(assemble(&resume, target).len()));
    code.extend(resume);
    code.extend([
        Inst::new(op::s_bitset1_b32, [ttmp(12, 1), int(layout.halt)]),
        Inst::new(op::s_setreg_b32, [whole(layout.state), ttmp(12, 1)]),
        Inst::new(op::s_rfe_b64, [ttmp(0, 2)]),
    ]);
    code
}

/// Result of one program under the handler: report, end of the run, dword 0 of the buffer by item.
struct Outcome {
    report: Report,
    stopped: Option<(usize, Cause)>,
    out: Vec<u32>,
}

fn run(target: Target, level: Level, words: &[u32], groups: u32, with_handler: bool) -> Outcome {
    let mut machine = Machine::new(words);
    let buffer = machine.space.allocate("buffer", 4096).unwrap();
    let code: Vec<u8> =
        assemble(&handler(target), target).iter().flat_map(|word| word.to_le_bytes()).collect();
    let memory = machine.space.allocate("handler", 4096).unwrap();
    memory.write(0, &code);
    let mut dispatch = machine.dispatch(32, buffer.address());
    (dispatch.lds, dispatch.scratch) = (1024, 0);
    dispatch.grid[0] = 32 * groups;
    let options = Options { level, seed: 5, patience: 200_000, ..Options::default() };
    let mut engine = Engine::new(target, options);
    let trap = Trap { handler: memory.address(), data: 0x1234_5678_9abc, doorbell: DOORBELL };
    engine.set_trap(with_handler.then_some(trap));
    let mut report = Report::default();
    let stopped = engine.run_into(&[dispatch], &mut machine.space, &mut report);
    let stopped = stopped.err().map(|fault| (((fault.pc - machine.entry) / 4) as usize, fault.cause));
    Outcome { report, stopped, out: (0..32).map(|item| buffer.load32(4 * item)).collect() }
}

fn store(target: Target) -> Vec<Inst> {
    let wait = if target.generation() == Generation::Gfx12 { op::s_wait_idle } else { op::s_nop };
    let wait = if wait == op::s_nop { Inst::new(wait, [imm(0)]) } else { Inst::new(wait, []) };
    vec![
        Inst::new(op::v_lshlrev_b32, [v(10), int(2), v(0)]),
        Inst::new(op::v_mov_b32, [v(1), s(4)]),
        Inst::new(op::global_store_b32, [v(10), v(1), s_range(0, 2)]),
        wait,
        end(),
    ]
}

#[test]
fn a_wave_goes_on_behind_a_trap_with_its_state() {
    for target in TARGETS {
        for level in [Level::Fast, Level::Strict] {
            let mut code = vec![
                Inst::new(op::s_mov_b32, [Operand::Scalar(Scalar::M0), int(9)]),
                Inst::new(op::s_cmp_eq_u32, [int(1), int(1)]),
                Inst::new(op::s_trap, [imm(RESUMED)]),
                Inst::new(op::s_cselect_b32, [s(4), Operand::Scalar(Scalar::M0), int(0)]),
            ];
            code.extend(store(target));
            let Outcome { report, stopped, out } = run(target, level, &assemble(&code, target), 1, true);
            assert_eq!(stopped, None, "{target} {level:?}");
            assert_eq!(out, [9; 32]);
            let data = DOORBELL | (RESUMED as u32) << 16;
            assert_eq!(report.messages, [Message { data, privileged: true }], "{target} {level:?}");
            assert_eq!(report.findings, [], "{target}");
        }
    }
}

/// Name, program, bits of the message above the doorbell, what the run must end with.
type Exception = (&'static str, Vec<u32>, u32, fn(&Cause) -> bool);

#[test]
fn exceptions_reach_the_handler_with_their_flags() {
    for target in TARGETS {
        let address = Inst::new(op::v_mov_b32, [v(1), Operand::Literal(0x0010_0000)]);
        let local = Inst::new(op::ds_load_b32, [v(2), v(1)]);
        let global = Inst::new(op::global_load_b32, [v(2), v(1), s_range(0, 2)]);
        let words = |code: &[Inst]| assemble(code, target);
        let illegal = [words(&[address]), vec![0xbeff_ff00], words(&[end()])].concat();
        let cases: [Exception; 4] = [
            ("illegal", illegal, 1, |cause| matches!(cause, Cause::Illegal(_))),
            ("memory", words(&[address, global, end()]), 6, |cause| matches!(cause, Cause::Memory(_))),
            ("aperture", words(&[address, local, end()]), 2, |cause| matches!(cause, Cause::Lds { .. })),
            ("trap", words(&[address, Inst::new(op::s_trap, [imm(2)]), end()]), 2 << 6, |cause| {
                matches!(cause, Cause::Trap { id: 2 })
            }),
        ];
        for (name, words, bits, is_cause) in cases {
            for level in [Level::Fast, Level::Strict] {
                let Outcome { report, stopped, .. } = run(target, level, &words, 1, true);
                let (at, cause) = stopped.unwrap_or_else(|| panic!("{target} {name} goes on"));
                assert!(is_cause(&cause), "{target} {name}: {cause}");
                assert_eq!(at, 2, "{target} {name}");
                let data = DOORBELL | bits << 10;
                assert_eq!(
                    report.messages,
                    [Message { data, privileged: true }],
                    "{target} {name} {level:?}"
                );
                // Without a handler the kernel halts the wave, or goes on behind a trap.
                let Outcome { report, stopped, .. } = run(target, level, &words, 1, false);
                assert_eq!(stopped.is_none(), name == "trap", "{target} {name}");
                assert_eq!(report.messages, []);
            }
        }
    }
}

#[test]
fn groups_beside_a_halted_wave_end() {
    for level in [Level::Fast, Level::Strict] {
        // Group 2 of 8 traps.
        let target = Target::Gfx1151;
        let code = [
            Inst::new(op::s_cmp_eq_u32, [s(2), int(2)]),
            Inst::new(op::s_cbranch_scc0, [imm(1)]),
            Inst::new(op::s_trap, [imm(7)]),
            end(),
        ];
        let Outcome { report, stopped, .. } = run(target, level, &assemble(&code, target), 8, true);
        assert_eq!(stopped, Some((2, Cause::Trap { id: 7 })));
        assert!(report.groups <= 7);
        assert_eq!(report.messages, [Message { data: DOORBELL | 7 << 16, privileged: true }]);
    }
}

#[test]
fn a_fault_of_the_handler_ends_the_run() {
    // The address of the handler is memory without code in it.
    let target = Target::Gfx1151;
    let mut machine = Machine::new(&assemble(&[Inst::new(op::s_trap, [imm(2)]), end()], target));
    let nothing = machine.space.allocate("nothing", 4096).unwrap();
    nothing.store32(0, 0xffff_ffff);
    let dispatch = machine.dispatch(32, 0);
    let mut engine = Engine::new(target, Options { level: Level::Fast, ..Options::default() });
    engine.set_trap(Some(Trap { handler: nothing.address(), data: 0, doorbell: 1 }));
    let fault = engine.run(&[dispatch], &mut machine.space).unwrap_err();
    assert_eq!(fault.pc, nothing.address());
    assert!(matches!(fault.cause, Cause::Illegal(_)), "{fault}");
}

#[test]
fn a_wave_may_halt_itself() {
    for target in TARGETS {
        let words = assemble(&[Inst::new(op::s_sethalt, [imm(1)]), end()], target);
        let Outcome { stopped, .. } = run(target, Level::Strict, &words, 1, false);
        assert_eq!(stopped, Some((0, Cause::Halted)));
        let outside = assemble(&[Inst::new(op::s_rfe_b64, [s_range(0, 2)]), end()], target);
        let Outcome { stopped, .. } = run(target, Level::Strict, &outside, 1, true);
        assert!(matches!(stopped, Some((0, Cause::Unsupported(_)))));
    }
}
