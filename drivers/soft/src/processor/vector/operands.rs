//! Operands from registers to handlers, results back: halves, signs, lane moves, output modifiers, EXEC.
//!
//! Not here: any arithmetic beyond the modifiers.

use doorbell_isa::operand_kind::Type;
use doorbell_isa::{DppControl, Flags, Form, Format, Lanes as Move};

use super::super::env::Env;
use super::super::fault::Cause;
use super::super::float::{f16_to_f32, flush16, flush32, flush64};
use super::super::handler::{Compare32, Instruction, Op32, Run};
use super::super::mode::Mode;
use super::super::registers::{EXEC, Lanes, Wide};
use super::super::step::{Dest, Next, Source, Step};
use super::super::wave::Wave;
use super::output::{finished, finished64};

const ZERO: Lanes = [0; 32];

/// Bit `lane` of a mask as 0 or 1.
#[inline(always)]
fn spread(mask: u32) -> Lanes {
    let mut out = ZERO;
    let mut lane = 0;
    while lane < 32 {
        out[lane] = mask >> lane & 1;
        lane += 1;
    }
    out
}

/// The raw value of a source in every lane; what is not a register or constant is spread into `$buffer`, which is
/// uninitialized otherwise.
macro_rules! raw {
    ($wave:expr, $step:expr, $index:literal, $buffer:ident) => {
        match $step.src[$index] {
            Source::Vgpr(first) => &$wave.vgpr[usize::from(first)],
            Source::Const(_) => $step.splat[$index].as_deref().unwrap_or(&ZERO),
            Source::Scalar(number) => {
                $buffer = [$wave.scalar(usize::from(number)); 32];
                &$buffer
            }
            Source::Scc => {
                $buffer = [u32::from($wave.scc); 32];
                &$buffer
            }
            Source::Mask(number) => {
                $buffer = spread($wave.scalar(usize::from(number)));
                &$buffer
            }
        }
    };
}

/// A source in every lane.
#[inline(always)]
fn lanes(wave: &Wave, source: Source) -> Lanes {
    match source {
        Source::Vgpr(first) => wave.vgpr[usize::from(first)],
        Source::Scalar(number) => [wave.scalar(usize::from(number)); 32],
        Source::Const(value) => [value as u32; 32],
        Source::Scc => [u32::from(wave.scc); 32],
        Source::Mask(number) => spread(wave.scalar(usize::from(number))),
    }
}

/// A source as one value per lane, and lanes of the destination that a lane move does not write.
#[inline(always)]
pub(crate) fn moved(wave: &Wave, step: &Step, index: usize) -> (Lanes, u32) {
    let value = lanes(wave, step.src[index]);
    if index == 0 { move_lanes(&value, step.inst.lanes, wave.exec()) } else { (value, 0) }
}

/// Source lane of `lane`, or none if it lies outside the row.
fn dpp_source(control: DppControl, lane: usize) -> Option<usize> {
    let (row, at) = (lane & !15, lane & 15);
    let inside = match control {
        DppControl::QuadPerm(select) => (at & !3) + usize::from(select[at & 3]),
        DppControl::RowShl(by) => at + usize::from(by),
        DppControl::RowShr(by) => at.wrapping_sub(usize::from(by)),
        DppControl::RowRor(by) => (at + 16 - usize::from(by)) & 15,
        DppControl::RowMirror => 15 - at,
        DppControl::RowHalfMirror => (at & 8) + 7 - (at & 7),
        DppControl::RowShare(from) => usize::from(from),
        DppControl::RowXmask(mask) => at ^ usize::from(mask),
    };
    (inside < 16).then(|| row + inside)
}

fn move_lanes(value: &Lanes, lanes: Move, exec: u32) -> (Lanes, u32) {
    let active = |lane: usize| exec >> lane & 1 != 0;
    match lanes {
        Move::Own => (*value, 0),
        Move::Dpp8 { select, fetch_inactive } => {
            let pick = |lane: usize| {
                let from = (lane & !7) + usize::from(select[lane & 7]);
                if fetch_inactive || active(from) { value[from] } else { 0 }
            };
            (core::array::from_fn(pick), 0)
        }
        Move::Dpp16(dpp) => {
            let mut kept = 0;
            let mut out = ZERO;
            for (lane, out) in out.iter_mut().enumerate() {
                let source = dpp_source(dpp.control, lane).filter(|from| dpp.fetch_inactive || active(*from));
                match source {
                    Some(from) => *out = value[from],
                    None if dpp.bound_ctrl => {}
                    None => kept |= 1 << lane,
                }
                let masked = dpp.row_mask >> (lane / 16) & 1 == 0 || dpp.bank_mask >> (lane / 4 % 4) & 1 == 0;
                if masked {
                    kept |= 1 << lane;
                }
            }
            (out, kept)
        }
    }
}

/// Bits that abs keeps and neg turns, for a sign bit.
fn sign_masks(sign: u32, abs: bool, neg: bool) -> (u32, u32) {
    (if abs { !sign } else { u32::MAX }, if neg { sign } else { 0 })
}

/// The low or high half of a register.
fn half(bits: u32, high: bool) -> u32 {
    if high { bits >> 16 } else { bits & 0xffff }
}

/// Replaces every lane, without calls of the standard library.
macro_rules! each {
    ($value:ident, |$lane:ident| $body:expr) => {{
        let mut at = 0;
        while at < 32 {
            let $lane = $value[at];
            $value[at] = $body;
            at += 1;
        }
    }};
}

/// One source with all modifiers, low 32 bits.
#[inline(always)]
fn modified(wave: &Wave, step: &Step, index: usize) -> (Lanes, u32) {
    let (mut value, kept) = moved(wave, step, index);
    let Some(kind) = step.row().src.get(index) else { return (value, kept) };
    let (modifiers, mode) = (step.inst.modifiers, wave.mode);
    let bit = |mask: u8| mask >> index & 1 != 0;
    let packed = step.row().format == Format::Vop3p;
    let (neg, abs) = (bit(modifiers.neg), bit(modifiers.abs));
    let (low, high) = (bit(modifiers.op_sel), bit(modifiers.op_sel_hi));
    wave.simd.run(
        #[inline(always)]
        || match kind.ty {
            Type::Mix if high => {
                let (keep, flip) = sign_masks(0x8000_0000, abs, neg);
                each!(value, |lane| f16_to_f32(input16(half(lane, low), mode)).to_bits() & keep ^ flip);
            }
            // Dot products: neg_hi of the third source is its absolute value.
            Type::Mix | Type::F32 => {
                let (keep, flip) = sign_masks(0x8000_0000, abs, neg);
                each!(value, |lane| input32(lane & keep ^ flip, mode));
            }
            Type::PF16 if packed => {
                let (flip_low, flip_high) = (if neg { 0x8000 } else { 0 }, if abs { 0x8000 } else { 0 });
                each!(value, |lane| {
                    let (low, high) = (half(lane, low) ^ flip_low, half(lane, high) ^ flip_high);
                    input16(low, mode) | input16(high, mode) << 16
                });
            }
            Type::PBF16 | Type::PI16 | Type::PU16 if packed => {
                let flip = if neg { 0x8000 } else { 0 } | if abs { 0x8000_0000 } else { 0 };
                each!(value, |lane| (half(lane, low) | half(lane, high) << 16) ^ flip);
            }
            Type::PF16 | Type::PBF16 if neg => each!(value, |lane| lane ^ 0x8000_8000),
            ty if ty.is_half() => {
                let sign =
                    if matches!(ty, Type::F16 | Type::BF16 | Type::B16) { 0x8000 } else { 0x8000_0000 };
                let (keep, flip) = sign_masks(sign, abs, neg);
                let flushes = ty == Type::F16 && !mode.keeps_in64();
                each!(value, |lane| {
                    let bits = half(lane, low) & keep ^ flip;
                    if flushes { flush16(bits) } else { bits }
                });
            }
            _ => {}
        },
    );
    (value, kept)
}

#[inline]
fn input32(bits: u32, mode: Mode) -> u32 {
    if mode.keeps_in32() { bits } else { flush32(bits) }
}

#[inline]
fn input16(bits: u32, mode: Mode) -> u32 {
    if mode.keeps_in64() { bits } else { flush16(bits) }
}

/// One source as 64-bit lanes; 32-bit sources are zero-extended after their own modifiers.
fn widened(wave: &Wave, step: &Step, index: usize) -> Wide {
    let Some(kind) = step.row().src.get(index) else { return [0; 32] };
    if kind.ty.dwords() < 2 {
        return modified(wave, step, index).0.map(u64::from);
    }
    let mut value: Wide = match step.src[index] {
        Source::Vgpr(first) => {
            let first = usize::from(first);
            let (low, high) = (&wave.vgpr[first], &wave.vgpr[first + 1]);
            core::array::from_fn(|lane| u64::from(low[lane]) | u64::from(high[lane]) << 32)
        }
        Source::Scalar(number) => [wave.scalar64(usize::from(number)); 32],
        Source::Mask(number) => spread(wave.scalar(usize::from(number))).map(u64::from),
        Source::Const(bits) => [bits; 32],
        Source::Scc => [u64::from(wave.scc); 32],
    };
    if kind.ty == Type::F64 {
        let modifiers = step.inst.modifiers;
        for lane in &mut value {
            let bits = if modifiers.abs >> index & 1 != 0 { *lane & !(1 << 63) } else { *lane };
            let bits = if modifiers.neg >> index & 1 != 0 { bits ^ 1 << 63 } else { bits };
            *lane = if wave.mode.keeps_in64() { bits } else { flush64(bits) };
        }
    }
    value
}

/// True if a result needs no output modifier.
fn is_finished(step: &Step, keeps: bool) -> bool {
    keeps && !step.inst.modifiers.clamp
}

/// Writes a 32-bit (or smaller) vector result with output modifiers.
#[inline(always)]
fn commit(wave: &mut Wave, step: &Step, value: &mut Lanes, mask: u32) {
    let Some(kind) = step.row().dst.first() else { return };
    let mode = wave.mode;
    match kind.ty {
        // Where denormal results are kept the multiplier is ignored.
        Type::F32 if is_finished(step, mode.keeps_out32()) => {}
        Type::F16 | Type::PF16 if is_finished(step, mode.keeps_out64()) => {}
        Type::F32 | Type::F16 => {
            value.iter_mut().for_each(|bits| *bits = finished(*bits, kind.ty, step, mode))
        }
        Type::PF16 => {
            for bits in value.iter_mut() {
                let halves = [*bits & 0xffff, *bits >> 16].map(|bits| finished(bits, Type::F16, step, mode));
                *bits = halves[0] | halves[1] << 16;
            }
        }
        _ => {}
    }
    let Dest::Vgpr(first) = step.dst[0] else {
        if let Dest::Scalar(number) = step.dst[0] {
            wave.set_scalar(usize::from(number), value[0]);
        }
        return;
    };
    let register = usize::from(first);
    if kind.ty.is_half() {
        let (written, shift) = (step.written, if step.written == 0xffff { 0 } else { 16 });
        let old = &wave.vgpr[register];
        wave.simd.run(
            #[inline(always)]
            || {
                let mut at = 0;
                while at < 32 {
                    value[at] = old[at] & !written | value[at] << shift & written;
                    at += 1;
                }
            },
        );
    }
    wave.store(register, value, mask);
}

fn commit64(wave: &mut Wave, step: &Step, value: &mut Wide, mask: u32) {
    let Some(kind) = step.row().dst.first() else { return };
    let mode = wave.mode;
    match kind.ty {
        Type::F64 => value.iter_mut().for_each(|bits| *bits = finished64(*bits, step, mode)),
        Type::F32 => {
            value.iter_mut().for_each(|bits| *bits = finished(*bits as u32, Type::F32, step, mode).into());
        }
        _ => {}
    }
    let Dest::Vgpr(first) = step.dst[0] else { return };
    wave.store(usize::from(first), &value.map(|bits| bits as u32), mask);
    if kind.ty.dwords() == 2 {
        wave.store(usize::from(first) + 1, &value.map(|bits| (bits >> 32) as u32), mask);
    }
}

/// True if values pass unchanged between registers and handlers under this MODE.
#[inline(always)]
fn passes(wave: &Wave, step: &Step) -> bool {
    step.plain && (!step.single || wave.mode.0 & 0x30 == 0x30)
}

/// Executes a vector arithmetic instruction.
#[inline(always)]
pub(crate) fn execute(wave: &mut Wave, instruction: &Instruction) -> Result<Next, Cause> {
    let step = &instruction.step;
    match instruction.run {
        Run::Op32(handler) if passes(wave, step) => {
            let env = Env::new(wave, step);
            let out = plain(wave, step, &env, handler);
            put(wave, step, &out);
            Ok(Next::Following)
        }
        _ => execute_other(wave, instruction),
    }
}

/// Everything that is not a plain operation on registers.
#[inline(never)]
fn execute_other(wave: &mut Wave, instruction: &Instruction) -> Result<Next, Cause> {
    let step = &instruction.step;
    let env = Env::new(wave, step);
    let simd = wave.simd;
    match instruction.run {
        Run::Op32(handler) => simd.run(
            #[inline(always)]
            || modified_op32(wave, step, &env, handler),
        ),
        Run::Packed(handler) => simd.run(
            #[inline(always)]
            || packed(wave, step, &env, handler),
        ),
        Run::Dual(..) => simd.run(
            #[inline(always)]
            || dual(wave, instruction, &env),
        ),
        Run::Compare32(handler) => simd.run(
            #[inline(always)]
            || {
                let (mask, kept) = compared(wave, step, &env, handler);
                write_mask(wave, step, mask & wave.exec() & !kept);
            },
        ),
        Run::Carry32(handler) => simd.run(
            #[inline(always)]
            || {
                let (sources, kept) = gather(wave, step);
                let mut out = ZERO;
                let carry = handler(&env, &[&sources[0], &sources[1], &sources[2]], &mut out);
                let mask = wave.exec() & !kept;
                commit(wave, step, &mut out, mask);
                write_second(wave, step, carry & mask);
            },
        ),
        Run::Op64(_) | Run::Compare64(_) | Run::Carry64(_) => execute_wide(wave, instruction, &env),
        Run::Scalar(_) | Run::Special(_) => return Err(Cause::Unsupported("not a vector instruction")),
    }
    Ok(Next::Following)
}

/// Instructions on register pairs.
fn execute_wide(wave: &mut Wave, instruction: &Instruction, env: &Env) {
    let step = &instruction.step;
    let sources = core::array::from_fn(|index| widened(wave, step, index));
    let mask = wave.exec();
    let mut out = [0; 32];
    match instruction.run {
        Run::Op64(handler) => {
            handler(env, &sources, &mut out);
            commit64(wave, step, &mut out, mask);
        }
        Run::Compare64(handler) => write_mask(wave, step, handler(env, &sources) & mask),
        Run::Carry64(handler) => {
            let carry = handler(env, &sources, &mut out);
            commit64(wave, step, &mut out, mask);
            write_second(wave, step, carry & mask);
        }
        _ => {}
    }
}

/// Mask of a comparison, and lanes that a lane move does not write.
#[inline(always)]
fn compared(wave: &Wave, step: &Step, env: &Env, handler: Compare32) -> (u32, u32) {
    if passes(wave, step) {
        let (a, b);
        return (handler(env, &[raw!(wave, step, 0, a), raw!(wave, step, 1, b), &ZERO]), 0);
    }
    let (sources, kept) = gather(wave, step);
    (handler(env, &[&sources[0], &sources[1], &sources[2]]), kept)
}

/// All sources with their modifiers.
#[inline(always)]
fn gather(wave: &Wave, step: &Step) -> ([Lanes; 3], u32) {
    let mut kept = 0;
    let sources = core::array::from_fn(|index| {
        if index >= usize::from(step.sources) {
            return ZERO;
        }
        let (value, left) = modified(wave, step, index);
        kept |= left;
        value
    });
    (sources, kept)
}

/// Result of a handler whose operands need no change.
#[inline(always)]
fn plain(wave: &Wave, step: &Step, env: &Env, handler: Op32) -> Lanes {
    let (a, b, c);
    let mut out = if step.reads_dst { wave.vgpr[step.vdst()] } else { ZERO };
    let first = raw!(wave, step, 0, a);
    let second = if step.sources > 1 { raw!(wave, step, 1, b) } else { &ZERO };
    let third = if step.sources > 2 { raw!(wave, step, 2, c) } else { &ZERO };
    handler(env, &[first, second, third], &mut out);
    out
}

/// Writes the result of a handler that needs no change either.
#[inline(always)]
fn put(wave: &mut Wave, step: &Step, out: &Lanes) {
    let mask = wave.exec();
    match step.dst[0] {
        Dest::Vgpr(first) => wave.store(usize::from(first), out, mask),
        Dest::Scalar(number) => wave.set_scalar(usize::from(number), out[0]),
        Dest::None => {}
    }
}

#[inline(always)]
fn modified_op32(wave: &mut Wave, step: &Step, env: &Env, handler: Op32) {
    let (sources, kept) = gather(wave, step);
    let mut out = old(wave, step);
    handler(env, &[&sources[0], &sources[1], &sources[2]], &mut out);
    let mask = wave.exec() & !kept;
    commit(wave, step, &mut out, mask);
}

/// The destination's old value as the accumulator sees it.
#[inline(always)]
fn old(wave: &Wave, step: &Step) -> Lanes {
    let (true, Dest::Vgpr(first)) = (step.reads_dst, step.dst[0]) else { return ZERO };
    let mut value = wave.vgpr[usize::from(first)];
    match step.row().dst.first().map(|kind| kind.ty) {
        Some(Type::F32) if !wave.mode.keeps_in32() => {
            value.iter_mut().for_each(|bits| *bits = flush32(*bits))
        }
        Some(ty) if ty.is_half() => {
            let high = step.inst.form == Form::Long && step.inst.modifiers.op_sel & 8 != 0;
            value.iter_mut().for_each(|bits| *bits = half(*bits, high));
        }
        _ => {}
    }
    value
}

#[inline(always)]
fn packed(wave: &mut Wave, step: &Step, env: &Env, handler: Op32) {
    let (sources, kept) = gather(wave, step);
    let before = if step.row().has(Flags::READS_DST) { wave.vgpr[step.vdst()] } else { ZERO };
    let [mut low, mut high, mut out] = [before; 3];
    each!(low, |bits| bits & 0xffff);
    each!(high, |bits| bits >> 16);
    let [mut lows, mut highs] = [sources; 2];
    for (low, high) in lows.iter_mut().zip(&mut highs) {
        each!(low, |bits| bits & 0xffff);
        each!(high, |bits| bits >> 16);
    }
    handler(env, &[&lows[0], &lows[1], &lows[2]], &mut low);
    handler(env, &[&highs[0], &highs[1], &highs[2]], &mut high);
    let mut lane = 0;
    while lane < 32 {
        out[lane] = low[lane] & 0xffff | high[lane] << 16;
        lane += 1;
    }
    let mask = wave.exec() & !kept;
    commit(wave, step, &mut out, mask);
}

/// Both halves of a dual-issue instruction read before either writes.
#[inline(always)]
fn dual(wave: &mut Wave, instruction: &Instruction, env: &Env) {
    let (Run::Dual(first, second), Some(other)) = (instruction.run, instruction.other.as_deref()) else {
        return;
    };
    let (step, other) = (&instruction.step, &other.step);
    if passes(wave, step) && passes(wave, other) {
        let results = [plain(wave, step, env, first), plain(wave, other, env, second)];
        put(wave, step, &results[0]);
        put(wave, other, &results[1]);
        return;
    }
    let results = [(step, first), (other, second)].map(|(step, handler)| {
        let (sources, _) = gather(wave, step);
        let mut out = old(wave, step);
        handler(env, &[&sources[0], &sources[1], &sources[2]], &mut out);
        out
    });
    let mask = wave.exec();
    for (step, mut out) in [step, other].into_iter().zip(results) {
        commit(wave, step, &mut out, mask);
    }
}

fn write_mask(wave: &mut Wave, step: &Step, mask: u32) {
    match step.dst[0] {
        Dest::Scalar(number) => wave.set_scalar(usize::from(number), mask),
        _ if step.row().has(Flags::EXEC_OUT) => wave.sgpr[EXEC] = mask,
        _ => {}
    }
}

fn write_second(wave: &mut Wave, step: &Step, mask: u32) {
    if let Dest::Scalar(number) = step.dst[1] {
        wave.set_scalar(usize::from(number), mask);
    }
}
