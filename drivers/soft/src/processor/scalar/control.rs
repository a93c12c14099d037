//! Program control: branches, barriers, messages, hardware registers, waits.
//!
//! Not here: the effect of waits on outstanding operations (`tracker.rs`), opening barriers (`group.rs`).

use doorbell_isa::{Op, op};

use super::super::context::Context;
use super::super::fault::Cause;
use super::super::finding::FindingKind;
use super::super::handler::Run;
use super::super::mode::Mode;
use super::super::registers::{EXEC, M0, VCC};
use super::super::request::Destination;
use super::super::step::{Dest, Next, Step};
use super::super::trap::Message;
use super::super::wave::{Activity, Wave};
use super::operands::operand;

type Outcome = Result<Next, Cause>;

fn hint(_: &mut Context<'_>, _: &Step) -> Outcome {
    Ok(Next::Following)
}

/// Lets other waves run.
fn sleep(_: &mut Context<'_>, _: &Step) -> Outcome {
    Ok(Next::Yields)
}

/// The padding behind programs: AMD's document lets it raise an illegal-instruction interrupt.
fn past_end(_: &mut Context<'_>, _: &Step) -> Outcome {
    Err(Cause::Unsupported("s_code_end: execution ran past the program"))
}

fn end(context: &mut Context<'_>, _: &Step) -> Outcome {
    context.wave.activity = Activity::Ended;
    Ok(Next::Yields)
}

/// Target of a branch by a signed distance in dwords from the next instruction.
fn target(context: &Context<'_>, step: &Step) -> u64 {
    let distance = i64::from((operand(context.wave, step, 0) as u32).cast_signed());
    step.next().wrapping_add_signed(distance * 4)
}

fn jump(context: &mut Context<'_>, to: u64) -> Outcome {
    context.wave.pc = to;
    Ok(Next::Jumped)
}

fn branch_if(context: &mut Context<'_>, step: &Step, condition: bool) -> Outcome {
    if condition { jump(context, target(context, step)) } else { Ok(Next::Following) }
}

fn store_link(context: &mut Context<'_>, step: &Step) {
    if let Dest::Scalar(number) = step.dst[0] {
        context.wave.set_scalar64(usize::from(number), step.next());
    }
}

fn getpc(context: &mut Context<'_>, step: &Step) -> Outcome {
    store_link(context, step);
    Ok(Next::Following)
}

fn setpc(context: &mut Context<'_>, step: &Step) -> Outcome {
    jump(context, operand(context.wave, step, 0))
}

fn swappc(context: &mut Context<'_>, step: &Step) -> Outcome {
    let to = operand(context.wave, step, 0);
    store_link(context, step);
    jump(context, to)
}

fn call(context: &mut Context<'_>, step: &Step) -> Outcome {
    let to = target(context, step);
    store_link(context, step);
    jump(context, to)
}

/// Enters the trap handler. Within it, and without one, nothing happens: the kernel's own handler goes on behind the
/// instruction.
fn trap(context: &mut Context<'_>, step: &Step) -> Outcome {
    if context.trap.is_some() && !context.wave.exceptions.privileged {
        return Err(Cause::Trap { id: operand(context.wave, step, 0) as u8 });
    }
    if context.wave.tracker.is_some() {
        context.find(FindingKind::IgnoredTrap, step, None, "there is no handler to enter".into());
    }
    Ok(Next::Following)
}

fn stop(context: &mut Context<'_>) -> Outcome {
    context.wave.activity = Activity::Halted;
    Ok(Next::Yields)
}

fn rfe(context: &mut Context<'_>, step: &Step) -> Outcome {
    if !context.wave.exceptions.privileged {
        return Err(Cause::Unsupported("return from an exception outside a trap handler"));
    }
    let to = operand(context.wave, step, 0);
    if context.leave(to) { Ok(Next::Jumped) } else { stop(context) }
}

/// Stops the wave, or makes its handler stop it.
fn sethalt(context: &mut Context<'_>, step: &Step) -> Outcome {
    let halt = operand(context.wave, step, 0) & 1 != 0;
    context.wave.exceptions.halt = halt;
    if !halt || context.wave.exceptions.privileged {
        return Ok(Next::Following);
    }
    context.wave.exceptions.cause = Some((step.at, Cause::Halted));
    stop(context)
}

/// Bits of the two-bit rounding fields and the four denormal bits.
fn set_mode(wave: &mut Wave, shift: u32, value: u64) {
    let bits = (value as u32 & 15) << shift;
    wave.mode = Mode(wave.mode.0 & !(15 << shift) | bits);
}

fn round_mode(context: &mut Context<'_>, step: &Step) -> Outcome {
    let value = operand(context.wave, step, 0);
    set_mode(context.wave, 0, value);
    Ok(Next::Following)
}

fn denorm_mode(context: &mut Context<'_>, step: &Step) -> Outcome {
    let value = operand(context.wave, step, 0);
    set_mode(context.wave, 4, value);
    Ok(Next::Following)
}

/// A field of a hardware register: number, lowest bit, mask in place.
fn field(immediate: u64) -> (u64, u32, u32) {
    let size = (immediate >> 11 & 31) as u32 + 1;
    let low = (immediate >> 6 & 31) as u32;
    let mask = if size == 32 { u32::MAX } else { (1 << size) - 1 };
    (immediate & 63, low, mask)
}

const HW_MODE: u64 = 1;
const HW_ID: u64 = 23;
const HW_CYCLES: u64 = 29;

fn getreg(context: &mut Context<'_>, step: &Step) -> Outcome {
    let (number, low, mask) = field(operand(context.wave, step, 0));
    let value = match number {
        HW_MODE => context.wave.mode.0,
        HW_ID => context.wave.number,
        HW_CYCLES => context.wave.count as u32,
        _ => context.wave.exception_register(number).unwrap_or(0),
    };
    if let Dest::Scalar(register) = step.dst[0] {
        context.wave.set_scalar(usize::from(register), value >> low & mask);
    }
    Ok(Next::Following)
}

fn setreg(context: &mut Context<'_>, step: &Step) -> Outcome {
    let (number, low, mask) = field(operand(context.wave, step, 0));
    let value = operand(context.wave, step, 1) as u32;
    if number == HW_MODE {
        let old = context.wave.mode.0;
        context.wave.mode = Mode(old & !(mask << low) | (value & mask) << low);
    } else {
        context.wave.set_exception_register(number, value << low, mask << low);
    }
    Ok(Next::Following)
}

const MSG_INTERRUPT: u64 = 1;
const MSG_DEALLOC_VGPRS: u64 = 3;
const MSG_GET_DOORBELL: u64 = 0x80;
const MSG_GET_REALTIME: u64 = 0x83;
/// Bits of m0 that an interrupt carries.
const MESSAGE_BITS: u32 = 0xff_ffff;

fn sendmsg(context: &mut Context<'_>, step: &Step) -> Outcome {
    match operand(context.wave, step, 0) & 0xff {
        MSG_INTERRUPT => {
            let data = context.wave.scalar(M0) & MESSAGE_BITS;
            context.report.send(Message { data, privileged: context.wave.exceptions.privileged });
        }
        MSG_DEALLOC_VGPRS => context.release(step),
        _ => {}
    }
    Ok(Next::Following)
}

fn sendmsg_rtn(context: &mut Context<'_>, step: &Step) -> Outcome {
    let value = match operand(context.wave, step, 0) & 0xff {
        MSG_GET_DOORBELL => context.trap.map_or(0, |trap| trap.doorbell.into()),
        MSG_GET_REALTIME => context.report.instructions,
        _ => 0,
    };
    if let Dest::Scalar(number) = step.dst[0] {
        let count = usize::from(step.row().dst[0].ty.dwords());
        if count == 2 {
            context.wave.set_scalar64(usize::from(number), value);
        } else {
            context.wave.set_scalar(usize::from(number), value as u32);
        }
        context.push_result(step, Destination::Scalar(usize::from(number), count));
    }
    Ok(Next::Following)
}

/// Arrives at the workgroup barrier and waits.
fn barrier(context: &mut Context<'_>, step: &Step) -> Outcome {
    context.arrive(step);
    context.await_barrier(step)
}

/// Only the workgroup barrier, number -1, exists here.
fn is_workgroup(context: &Context<'_>, step: &Step) -> Result<bool, Cause> {
    match operand(context.wave, step, 0) as u16 {
        0xffff => Ok(true),
        0 => Ok(false),
        _ => Err(Cause::Unsupported("only the workgroup barrier is modelled")),
    }
}

fn barrier_signal(context: &mut Context<'_>, step: &Step) -> Outcome {
    if is_workgroup(context, step)? {
        context.arrive(step);
    }
    Ok(Next::Following)
}

fn barrier_signal_isfirst(context: &mut Context<'_>, step: &Step) -> Outcome {
    let workgroup = is_workgroup(context, step)?;
    context.wave.scc = workgroup && context.group.arrived == 0;
    if workgroup {
        context.arrive(step);
    }
    Ok(Next::Following)
}

fn barrier_wait(context: &mut Context<'_>, step: &Step) -> Outcome {
    if is_workgroup(context, step)? { context.await_barrier(step) } else { Ok(Next::Following) }
}

fn barrier_leave(context: &mut Context<'_>, _: &Step) -> Outcome {
    context.wave.scc = false;
    Ok(Next::Following)
}

macro_rules! branch {
    (|$wave:ident| $condition:expr) => {
        Run::Special(|context, step| {
            let $wave = &*context.wave;
            let taken = $condition;
            branch_if(context, step, taken)
        })
    };
}

const HINT: Run = Run::Special(hint);
/// Waits act on the queue of outstanding operations before the handler runs.
const WAIT: Run = Run::Special(hint);

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::s_getpc_b64, Run::Special(getpc)),
    (op::s_setpc_b64, Run::Special(setpc)),
    (op::s_swappc_b64, Run::Special(swappc)),
    (op::s_call_b64, Run::Special(call)),
    (op::s_rfe_b64, Run::Special(rfe)),
    (op::s_sendmsg_rtn_b32, Run::Special(sendmsg_rtn)),
    (op::s_sendmsg_rtn_b64, Run::Special(sendmsg_rtn)),
    (op::s_barrier_signal, Run::Special(barrier_signal)),
    (op::s_barrier_signal_isfirst, Run::Special(barrier_signal_isfirst)),
    (op::s_barrier_wait, Run::Special(barrier_wait)),
    (op::s_barrier_leave, Run::Special(barrier_leave)),
    (op::s_barrier, Run::Special(barrier)),
    (op::s_sleep_var, Run::Special(sleep)),
    (op::s_sleep, Run::Special(sleep)),
    (op::s_getreg_b32, Run::Special(getreg)),
    (op::s_setreg_b32, Run::Special(setreg)),
    (op::s_setreg_imm32_b32, Run::Special(setreg)),
    (op::s_round_mode, Run::Special(round_mode)),
    (op::s_denorm_mode, Run::Special(denorm_mode)),
    (op::s_sendmsg, Run::Special(sendmsg)),
    (op::s_sethalt, Run::Special(sethalt)),
    (op::s_trap, Run::Special(trap)),
    (op::s_endpgm, Run::Special(end)),
    (op::s_branch, branch!(|_wave| true)),
    (op::s_cbranch_scc0, branch!(|wave| !wave.scc)),
    (op::s_cbranch_scc1, branch!(|wave| wave.scc)),
    (op::s_cbranch_vccz, branch!(|wave| wave.sgpr[VCC] == 0)),
    (op::s_cbranch_vccnz, branch!(|wave| wave.sgpr[VCC] != 0)),
    (op::s_cbranch_execz, branch!(|wave| wave.sgpr[EXEC] == 0)),
    (op::s_cbranch_execnz, branch!(|wave| wave.sgpr[EXEC] != 0)),
    (op::s_nop, HINT),
    (op::s_set_inst_prefetch_distance, HINT),
    (op::s_clause, HINT),
    (op::s_delay_alu, HINT),
    (op::s_code_end, Run::Special(past_end)),
    (op::s_setprio, HINT),
    (op::s_icache_inv, HINT),
    (op::s_singleuse_vdst, HINT),
    (op::s_waitcnt_depctr, HINT),
    (op::s_wait_alu, HINT),
    (op::s_waitcnt, WAIT),
    (op::s_wait_idle, WAIT),
    (op::s_waitcnt_vscnt, WAIT),
    (op::s_waitcnt_vmcnt, WAIT),
    (op::s_waitcnt_expcnt, WAIT),
    (op::s_waitcnt_lgkmcnt, WAIT),
    (op::s_wait_loadcnt, WAIT),
    (op::s_wait_storecnt, WAIT),
    (op::s_wait_samplecnt, WAIT),
    (op::s_wait_bvhcnt, WAIT),
    (op::s_wait_expcnt, WAIT),
    (op::s_wait_dscnt, WAIT),
    (op::s_wait_kmcnt, WAIT),
    (op::s_wait_loadcnt_dscnt, WAIT),
    (op::s_wait_storecnt_dscnt, WAIT),
];
