//! Instructions that move values between lanes, or between lanes and scalar registers.
//!
//! Not here: lane moves of ordinary instructions (`operands.rs`), moves through the LDS unit (`memory_ops`).

use doorbell_isa::{Op, op};

use super::super::context::Context;
use super::super::fault::Cause;
use super::super::handler::Run;
use super::super::registers::{Lanes, M0};
use super::super::step::{Dest, Next, Source, Step};
use super::super::wave::Wave;
use super::integer::windows;

/// A scalar source: register or constant.
fn scalar(wave: &Wave, source: Source) -> u32 {
    match source {
        Source::Scalar(number) | Source::Mask(number) => wave.scalar(usize::from(number)),
        Source::Const(value) => value as u32,
        Source::Scc => u32::from(wave.scc),
        Source::Vgpr(number) => wave.vgpr[usize::from(number)][0],
    }
}

/// A vector source, or a scalar one in every lane.
fn vector(wave: &Wave, source: Source) -> Lanes {
    match source {
        Source::Vgpr(number) => wave.vgpr[usize::from(number)],
        other => [scalar(wave, other); 32],
    }
}

fn set_scalar(wave: &mut Wave, step: &Step, value: u32) {
    if let Dest::Scalar(number) = step.dst[0] {
        wave.set_scalar(usize::from(number), value);
    }
}

fn readfirstlane(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    let value = vector(context.wave, step.src[0]);
    let first = context.wave.exec().trailing_zeros() & 31;
    set_scalar(context.wave, step, value[first as usize]);
    Ok(Next::Following)
}

fn readlane(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    let value = vector(context.wave, step.src[0]);
    let lane = scalar(context.wave, step.src[1]) & 31;
    set_scalar(context.wave, step, value[lane as usize]);
    Ok(Next::Following)
}

fn writelane(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    let value = scalar(context.wave, step.src[0]);
    let lane = scalar(context.wave, step.src[1]) & 31;
    context.wave.vgpr[step.vdst()][lane as usize] = value;
    Ok(Next::Following)
}

/// Both registers exchange their active lanes.
fn swap(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    let (Some(other), exec) = (step.vsrc(0), context.wave.exec()) else {
        return Err(Cause::Unsupported("v_swap_b32 of a constant"));
    };
    let (left, right) = (context.wave.vgpr[step.vdst()], context.wave.vgpr[other]);
    context.wave.store(step.vdst(), &right, exec);
    context.wave.store(other, &left, exec);
    Ok(Next::Following)
}

/// A no-operation in waves of 32 lanes.
fn permlane64(_: &mut Context<'_>, _: &Step) -> Result<Next, Cause> {
    Ok(Next::Following)
}

/// Any permutation within rows of 16, from the own row or the neighbor. op_sel bit 0 is fetch-inactive, bit 1
/// bound-control.
fn permute(context: &mut Context<'_>, step: &Step, other_row: bool, select: impl Fn(usize) -> usize) -> Next {
    let wave = &mut *context.wave;
    let (value, exec) = (vector(wave, step.src[0]), wave.exec());
    let (fetch, bound) = (step.inst.modifiers.op_sel & 1 != 0, step.inst.modifiers.op_sel & 2 != 0);
    let mut out = wave.vgpr[step.vdst()];
    for (lane, out) in out.iter_mut().enumerate() {
        let row = if other_row { (lane & 16) ^ 16 } else { lane & 16 };
        let from = row + (select(lane) & 15);
        if fetch || exec >> from & 1 != 0 {
            *out = value[from];
        } else if bound {
            *out = 0;
        }
    }
    wave.store(step.vdst(), &out, exec);
    Next::Following
}

fn permlane16(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    Ok(by_scalar(context, step, false))
}

fn permlanex16(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    Ok(by_scalar(context, step, true))
}

fn by_scalar(context: &mut Context<'_>, step: &Step, other_row: bool) -> Next {
    let low = u64::from(scalar(context.wave, step.src[1]));
    let select = low | u64::from(scalar(context.wave, step.src[2])) << 32;
    permute(context, step, other_row, |lane| (select >> ((lane & 15) * 4)) as usize)
}

fn permlane16_var(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    let select = vector(context.wave, step.src[1]);
    Ok(permute(context, step, false, |lane| select[lane] as usize))
}

fn permlanex16_var(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    let select = vector(context.wave, step.src[1]);
    Ok(permute(context, step, true, |lane| select[lane] as usize))
}

/// Four sums of masked absolute differences, four registers wide.
fn mqsad_u32(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    let wave = &mut *context.wave;
    let pair = |wave: &Wave, source: Source| match source {
        Source::Vgpr(number) => (wave.vgpr[usize::from(number)], wave.vgpr[usize::from(number) + 1]),
        Source::Scalar(number) => {
            ([wave.scalar(usize::from(number)); 32], [wave.scalar(usize::from(number) + 1); 32])
        }
        other => ([scalar(wave, other); 32], [0; 32]),
    };
    let (low, high) = pair(wave, step.src[0]);
    let reference = vector(wave, step.src[1]);
    let bias = step.vsrc(2).ok_or(Cause::Unsupported("v_mqsad_u32_u8 without registers"))?;
    let clamp = step.inst.modifiers.clamp;
    let mut out = [[0; 32]; 4];
    for lane in 0..32 {
        let data = u64::from(low[lane]) | u64::from(high[lane]) << 32;
        let start = core::array::from_fn(|window| wave.vgpr[bias + window][lane]);
        for (window, sum) in windows(data, reference[lane], start, clamp).into_iter().enumerate() {
            out[window][lane] = sum;
        }
    }
    let exec = wave.exec();
    for (window, value) in out.iter().enumerate() {
        wave.store(step.vdst() + window, value, exec);
    }
    Ok(Next::Following)
}

/// A move whose registers m0 displaces: the source, the destination, or each by a field of its own.
fn move_relative(
    context: &mut Context<'_>,
    step: &Step,
    source: usize,
    destination: usize,
) -> Result<Next, Cause> {
    let wave = &mut *context.wave;
    let allocated = wave.vgpr.len();
    let inside = |number: usize| {
        if number < allocated { Ok(number) } else { Err(Cause::Register { number, allocated }) }
    };
    let value = match step.src[0] {
        Source::Vgpr(first) => wave.vgpr[inside(usize::from(first) + source)?],
        other => [scalar(wave, other); 32],
    };
    let (to, exec) = (inside(step.vdst() + destination)?, wave.exec());
    wave.store(to, &value, exec);
    Ok(Next::Following)
}

fn m0(context: &Context<'_>) -> usize {
    context.wave.sgpr[M0] as usize
}

fn movreld(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    let by = m0(context);
    move_relative(context, step, 0, by)
}

fn movrels(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    let by = m0(context);
    move_relative(context, step, by, 0)
}

fn movrelsd(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    let by = m0(context);
    move_relative(context, step, by, by)
}

fn movrelsd_2(context: &mut Context<'_>, step: &Step) -> Result<Next, Cause> {
    let by = m0(context);
    move_relative(context, step, by & 0xff, by >> 16 & 0x3ff)
}

fn nop(_: &mut Context<'_>, _: &Step) -> Result<Next, Cause> {
    Ok(Next::Following)
}

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::v_nop, Run::Special(nop)),
    (op::v_movreld_b32, Run::Special(movreld)),
    (op::v_movrels_b32, Run::Special(movrels)),
    (op::v_movrelsd_b32, Run::Special(movrelsd)),
    (op::v_movrelsd_2_b32, Run::Special(movrelsd_2)),
    (op::v_readfirstlane_b32, Run::Special(readfirstlane)),
    (op::v_readlane_b32, Run::Special(readlane)),
    (op::v_writelane_b32, Run::Special(writelane)),
    (op::v_swap_b32, Run::Special(swap)),
    (op::v_permlane64_b32, Run::Special(permlane64)),
    (op::v_permlane16_b32, Run::Special(permlane16)),
    (op::v_permlanex16_b32, Run::Special(permlanex16)),
    (op::v_permlane16_var_b32, Run::Special(permlane16_var)),
    (op::v_permlanex16_var_b32, Run::Special(permlanex16_var)),
    (op::v_mqsad_u32_u8, Run::Special(mqsad_u32)),
];
