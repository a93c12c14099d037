//! Instructions that act on the wave as a whole: rounding and denormal modes, hardware registers, messages, barriers.
//!
//! Not here: branches, waits and hints (`behavior.rs`).

use doorbell_isa::{Generation, Inst, Op, Operand, Target, op, s, s_range, v};
use doorbell_soft::processor::{Engine, Level, Options, Report};

use crate::program::{Machine, assemble};
use crate::words::{end, imm, int};

const TARGETS: [Target; 3] = [Target::Gfx1100, Target::Gfx1151, Target::Gfx1200];

fn vmov(register: u8, value: u32) -> Inst {
    Inst::new(op::v_mov_b32, [v(register), Operand::Literal(value)])
}

fn is_gfx12(target: Target) -> bool {
    target.generation() == Generation::Gfx12
}

fn wait(target: Target) -> Vec<Inst> {
    if is_gfx12(target) {
        return vec![Inst::new(op::s_wait_dscnt, [imm(0)]), Inst::new(op::s_wait_kmcnt, [imm(0)])];
    }
    vec![Inst::new(op::s_waitcnt, [imm(0)])]
}

/// Runs one group; s[0:1] points at the buffer whose dwords are returned.
fn run(target: Target, level: Level, code: &[Inst], items: u32, seed: u64) -> (Vec<u32>, Report) {
    let mut machine = Machine::new(&assemble(code, target));
    let buffer = machine.space.allocate("buffer", 4096).unwrap();
    let mut dispatch = machine.dispatch(items, buffer.address());
    dispatch.lds = 1024;
    let options = Options { level, seed, patience: 200_000, ..Options::default() };
    let report = Engine::new(target, options).run(&[dispatch], &mut machine.space).unwrap();
    ((0..1024).map(|at| buffer.load32(at * 4)).collect(), report)
}

/// v10 = 4 * item; stores registers to rows of 512 bytes.
fn stores(registers: &[u8]) -> Vec<Inst> {
    let offset = Inst::new(op::v_lshlrev_b32, [v(10), int(2), v(0)]);
    let rows = (0..).zip(registers).map(|(row, register)| {
        Inst::new(op::global_store_b32, [v(10), v(*register), s_range(0, 2)]).offset(row * 512)
    });
    [offset].into_iter().chain(rows).collect()
}

/// Results of 1 + 2^-25, -1 - 2^-25, a denormal plus zero, and the f16 sum 1 + 2^-12 after `mode`.
fn sums(target: Target, mode: &[Inst]) -> [u32; 4] {
    let mut code =
        vec![vmov(1, 0x3f80_0000), vmov(2, 0x3300_0000), vmov(3, 0xbf80_0000), vmov(4, 0xb300_0000)];
    code.extend([vmov(5, 0x0000_1234), vmov(6, 0), vmov(7, 0x3c00), vmov(8, 0x0c00), vmov(24, 0)]);
    code.extend_from_slice(mode);
    code.extend([
        Inst::new(op::v_add_f32, [v(21), v(1), v(2)]),
        Inst::new(op::v_add_f32, [v(22), v(3), v(4)]),
        Inst::new(op::v_add_f32, [v(23), v(5), v(6)]),
        Inst::new(op::v_add_f16, [v(24), v(7), v(8)]),
    ]);
    code.extend(stores(&[21, 22, 23, 24]));
    code.push(end());
    let (out, _) = run(target, Level::Fast, &code, 32, 0);
    [out[0], out[128], out[256], out[384] & 0xffff]
}

const ONE: u32 = 0x3f80_0000;
const MINUS_ONE: u32 = 0xbf80_0000;
const HALF_ONE: u32 = 0x3c00;

/// Sums per rounding direction: nearest, up, down, toward zero (IEEE 754).
const ROUNDED: [[u32; 2]; 4] =
    [[ONE, MINUS_ONE], [ONE + 1, MINUS_ONE], [ONE, MINUS_ONE + 1], [ONE, MINUS_ONE]];

/// MODE's field: register 1, first bit, size.
fn mode_field(first: i32, size: i32) -> Operand {
    imm((size - 1) << 11 | first << 6 | 1)
}

#[test]
fn rounding_modes_round() {
    for target in TARGETS {
        for (direction, [up, down]) in (0..).zip(ROUNDED) {
            let half = HALF_ONE + u32::from(direction == 1);
            let expected = [up, down, 0x1234, half];
            let both = direction | direction << 2;
            let round = Inst::new(op::s_round_mode, [imm(both)]);
            let load = Inst::new(op::s_mov_b32, [s(20), int(both)]);
            let set = Inst::new(op::s_setreg_b32, [mode_field(0, 4), s(20)]);
            let set_now =
                Inst::new(op::s_setreg_imm32_b32, [mode_field(0, 4), Operand::Literal(both as u32)]);
            for mode in [&[round][..], &[load, set], &[set_now]] {
                assert_eq!(sums(target, mode), expected, "{target} {mode:?}");
            }
        }
    }
}

#[test]
fn denormal_modes_flush() {
    for target in TARGETS {
        for (value, kept) in [(0, 0), (0xf, 0x1234), (0xc, 0)] {
            let mode = [Inst::new(op::s_denorm_mode, [imm(value)])];
            assert_eq!(sums(target, &mode)[2], kept, "{target} {value}");
            let register =
                [Inst::new(op::s_setreg_imm32_b32, [mode_field(4, 4), Operand::Literal(value as u32)])];
            assert_eq!(sums(target, &register)[2], kept, "{target} {value}");
        }
    }
}

#[test]
fn hardware_registers_read_what_was_set() {
    for target in TARGETS {
        let code = [
            vec![
                Inst::new(op::s_setreg_imm32_b32, [mode_field(0, 8), Operand::Literal(0xa6)]),
                Inst::new(op::s_getreg_b32, [s(20), mode_field(0, 8)]),
                Inst::new(op::s_getreg_b32, [s(21), mode_field(2, 4)]),
                Inst::new(op::s_setreg_imm32_b32, [mode_field(0, 8), Operand::Literal(0xf0)]),
                Inst::new(op::v_mov_b32, [v(21), s(20)]),
                Inst::new(op::v_mov_b32, [v(22), s(21)]),
            ],
            stores(&[21, 22]),
            vec![end()],
        ];
        let (out, _) = run(target, Level::Fast, &code.concat(), 32, 0);
        assert_eq!((out[0], out[128]), (0xa6, 0xa6 >> 2 & 15), "{target}");
    }
}

#[test]
fn messages_interrupt_and_tell_the_time() {
    for target in TARGETS {
        let send = [Inst::new(op::s_sendmsg, [imm(1)]), end()];
        assert_eq!(run(target, Level::Fast, &send, 96, 0).1.interrupts, 3, "{target}");
        let clock = imm(0x83);
        let mut code = vec![Inst::new(op::s_sendmsg_rtn_b32, [s(20), clock])];
        code.extend(wait(target));
        code.extend([Inst::new(op::s_nop, [imm(0)]), Inst::new(op::s_nop, [imm(0)])]);
        code.push(Inst::new(op::s_sendmsg_rtn_b64, [s_range(22, 2), clock]));
        code.extend(wait(target));
        code.extend([20, 22, 23].map(|number| Inst::new(op::v_mov_b32, [v(number), s(number)])));
        code.extend(stores(&[20, 22, 23]));
        code.push(end());
        let (out, _) = run(target, Level::Fast, &code, 32, 0);
        assert!(u64::from(out[128]) | u64::from(out[256]) << 32 > u64::from(out[0]), "{target} {out:?}");
    }
}

/// The instructions of a barrier, with what signals.
fn barrier(target: Target, signal: Op) -> Vec<Inst> {
    if is_gfx12(target) {
        return vec![Inst::new(signal, [int(-1)]), Inst::new(op::s_barrier_wait, [imm(0xffff)])];
    }
    vec![Inst::new(op::s_barrier, [])]
}

#[test]
fn barriers_let_waves_see_each_others_words() {
    for target in TARGETS {
        for seed in 0..8 {
            let mut code = vec![Inst::new(op::v_lshlrev_b32, [v(10), int(2), v(0)])];
            code.push(Inst::new(op::ds_store_b32, [v(10), v(0)]));
            code.extend(wait(target));
            code.extend(barrier(target, op::s_barrier_signal));
            // The word of the item 32 further on, in the other wave.
            code.push(Inst::new(op::v_xor_b32, [v(11), int(128), v(10)]));
            code.push(Inst::new(op::ds_load_b32, [v(1), v(11)]));
            code.extend(wait(target));
            code.extend(stores(&[1]));
            code.push(end());
            let (out, report) = run(target, Level::Strict, &code, 64, seed);
            assert!((0..64).all(|item| out[item as usize] == item ^ 32), "{target} {seed}");
            assert_eq!(report.findings, [], "{target} {seed}");
        }
    }
}

#[test]
fn one_wave_is_the_first_at_a_barrier() {
    let target = Target::Gfx1200;
    for seed in 0..8 {
        let mut code = barrier(target, op::s_barrier_signal_isfirst);
        code.insert(1, Inst::new(op::s_wait_kmcnt, [imm(0)]));
        code.insert(2, Inst::new(op::s_cselect_b32, [s(20), int(1), int(0)]));
        // Leaving a barrier that was not joined clears SCC.
        code.push(Inst::new(op::s_barrier_leave, []));
        code.push(Inst::new(op::s_wait_kmcnt, [imm(0)]));
        code.push(Inst::new(op::s_cselect_b32, [s(21), int(1), int(0)]));
        code.extend([20, 21].map(|number| Inst::new(op::v_mov_b32, [v(number), s(number)])));
        code.extend(stores(&[20, 21]));
        code.push(end());
        let (out, _) = run(target, Level::Strict, &code, 128, seed);
        let firsts: u32 = (0..4).map(|wave| out[wave * 32]).sum();
        assert_eq!((firsts, out[128]), (1, 0), "{seed}");
    }
}

/// Rows that the tests of this file execute on every chip that has them.
pub(crate) static ROWS: &[Op] = &[
    op::s_round_mode,
    op::s_denorm_mode,
    op::s_setreg_b32,
    op::s_setreg_imm32_b32,
    op::s_getreg_b32,
    op::s_sendmsg,
    op::s_sendmsg_rtn_b32,
    op::s_sendmsg_rtn_b64,
    op::s_barrier,
    op::s_barrier_signal,
    op::s_barrier_signal_isfirst,
    op::s_barrier_wait,
    op::s_barrier_leave,
];
