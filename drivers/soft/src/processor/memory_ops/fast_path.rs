//! The fast way of memory instructions that nothing watches: whole waves, words straight to the registers.
//!
//! Each function does what it can and returns false for the rest, which becomes a request with the same results. Not
//! here: atomics, buffers, flat addresses, faults.

use core::sync::atomic::Ordering;

use doorbell_isa::{Flags, Format};

use super::super::context::Context;
use super::super::registers::Lanes;
use super::super::step::{Dest, Source, Step};
use super::super::transfer::Transfer;
use super::super::wave::Wave;
use super::super::whole_words::{REACH, load, range, store};
use super::scalar;
use crate::memory::Access;

/// A load of a byte or halfword that is extended; false if it has to go the long way.
fn load_small(context: &mut Context<'_>, first: usize, bytes: u8, signed: bool, address: &[u64; 32]) -> bool {
    let exec = context.wave.exec();
    let (low, high) = range(address, exec);
    if exec == 0 || high - low >= REACH {
        return false;
    }
    let start = low & !3;
    let Ok(reach) = usize::try_from(high - start) else { return false };
    let count = (reach + usize::from(bytes)).div_ceil(4);
    let Some(memory) = context.space.words(start, count, Access::Read) else { return false };
    let Some(register) = context.wave.vgpr.get_mut(first) else { return false };
    let shift = 32 - 8 * u32::from(bytes);
    for lane in (0..32).filter(|lane| exec >> lane & 1 != 0) {
        let distance = (address[lane] - start) as usize;
        let get = |at: usize| memory.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
        let inside = 8 * (distance as u32 & 3);
        let mut value = get(distance / 4) >> inside;
        if inside > shift {
            value |= get(distance / 4 + 1) << (32 - inside);
        }
        let raised = value << shift;
        register[lane] =
            if signed { (raised.cast_signed() >> shift).cast_unsigned() } else { raised >> shift };
    }
    true
}

/// First register of a store's data.
fn data(step: &Step) -> Option<usize> {
    step.vsrc(1)
}

/// Performs a vector memory instruction; false if it has to go the long way.
#[inline]
pub(super) fn vector(context: &mut Context<'_>, step: &Step) -> bool {
    let Some(transfer) = step.transfer else { return false };
    match step.format {
        Format::Global => {
            let simd = context.wave.simd;
            simd.run(
                #[inline(always)]
                || global(context, step, transfer),
            )
        }
        Format::Ds => {
            let simd = context.wave.simd;
            simd.run(
                #[inline(always)]
                || lds(context, step, transfer),
            )
        }
        _ => false,
    }
}

#[inline(always)]
fn global(context: &mut Context<'_>, step: &Step, transfer: Transfer) -> bool {
    let Some(address) = addresses(context.wave, step) else { return false };
    let exec = context.wave.exec();
    match (transfer, step.dst[0]) {
        (Transfer::Load(words), Dest::Vgpr(first)) => {
            let (first, words) = (usize::from(first), usize::from(words));
            let registers = context.wave.vgpr.get_mut(first..first + words);
            registers.is_some_and(|registers| load(context.space, registers, &address, exec))
        }
        (Transfer::LoadSmall { bytes, signed }, Dest::Vgpr(first)) => {
            load_small(context, first.into(), bytes, signed, &address)
        }
        (Transfer::Store(words), _) => {
            let registers =
                data(step).and_then(|first| context.wave.vgpr.get(first..first + usize::from(words)));
            registers.is_some_and(|registers| store(context.space, registers, &address, exec))
        }
        _ => false,
    }
}

/// Global addresses by lane.
#[inline(always)]
fn addresses(wave: &Wave, step: &Step) -> Option<[u64; 32]> {
    let vector = step.vsrc(0)?;
    let offset = i64::from(step.inst.memory.offset).cast_unsigned();
    let mut out = [0; 32];
    let mut lane = 0;
    if let Some(Source::Scalar(number)) = step.base {
        let base = wave.scalar64(usize::from(number)).wrapping_add(offset);
        let low = &wave.vgpr[vector];
        while lane < 32 {
            out[lane] = base.wrapping_add(low[lane] as u64);
            lane += 1;
        }
    } else {
        let (low, high) = (&wave.vgpr[vector], &wave.vgpr[vector + 1]);
        while lane < 32 {
            out[lane] = (low[lane] as u64 | (high[lane] as u64) << 32).wrapping_add(offset);
            lane += 1;
        }
    }
    Some(out)
}

/// One dword of LDS.
#[inline(always)]
fn word(lds: &[u8], at: usize) -> Option<u32> {
    lds.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes))
}

/// LDS loads and stores of whole words.
#[inline(always)]
fn lds(context: &mut Context<'_>, step: &Step, transfer: Transfer) -> bool {
    let wave = &mut *context.wave;
    let (Source::Vgpr(vector), exec) = (step.src[0], wave.exec()) else { return false };
    let offset = step.inst.memory.offset.cast_unsigned();
    let pair = step.row().has(Flags::TWO_OFFSETS);
    let (first, second) = if pair {
        let unit = transfer.bytes() as u32 * step.stride;
        ((offset & 0xff) * unit, (offset >> 8 & 0xff) * unit)
    } else {
        (offset, 0)
    };
    let mut address: Lanes = wave.vgpr[usize::from(vector)];
    let bytes = transfer.bytes();
    let last = usize::try_from(first.max(second)).unwrap_or(usize::MAX);
    let mut most = 0;
    let mut lane = 0;
    while lane < 32 {
        // Lanes that do not take part read and write nowhere.
        address[lane] = if exec >> lane & 1 != 0 { address[lane] } else { 0 };
        most = if address[lane] > most { address[lane] } else { most };
        lane += 1;
    }
    if (most as usize).saturating_add(last).saturating_add(bytes) > context.group.lds.len()
        || most > u32::MAX / 2
    {
        return false;
    }
    let lds = &mut context.group.lds;
    let lanes = (0..32).filter(|lane| exec >> lane & 1 != 0);
    let (words, register) = match (transfer, step.dst[0]) {
        (Transfer::Load(words) | Transfer::LoadPair(words), Dest::Vgpr(register)) => {
            (usize::from(words), usize::from(register))
        }
        (Transfer::Store(words) | Transfer::StorePair(words), _) => {
            return store_lds(context, step, words.into(), &address, [first, second]);
        }
        _ => return false,
    };
    for lane in lanes {
        for (half, offset) in [first, second].into_iter().enumerate().take(if pair { 2 } else { 1 }) {
            let start = address[lane] as usize + offset as usize;
            for index in 0..words {
                wave.vgpr[register + half * words + index][lane] = word(lds, start + 4 * index).unwrap_or(0);
            }
        }
    }
    true
}

#[inline(always)]
fn store_lds(
    context: &mut Context<'_>,
    step: &Step,
    words: usize,
    address: &Lanes,
    offsets: [u32; 2],
) -> bool {
    let pair = step.row().has(Flags::TWO_OFFSETS);
    let exec = context.wave.exec();
    let sources = [step.vsrc(1), if pair { step.vsrc(2) } else { None }];
    if sources[0].is_none() || (pair && sources[1].is_none()) {
        return false;
    }
    for lane in (0..32).filter(|lane| exec >> lane & 1 != 0) {
        for (register, offset) in sources.into_iter().zip(offsets) {
            let Some(register) = register else { continue };
            let start = address[lane] as usize + offset as usize;
            for index in 0..words {
                let slot = context
                    .group
                    .lds
                    .get_mut(start + 4 * index..)
                    .and_then(|rest| rest.first_chunk_mut::<4>());
                if let Some(slot) = slot {
                    *slot = context.wave.vgpr[register + index][lane].to_le_bytes();
                }
            }
        }
    }
    context.space.changes = context.space.changes.wrapping_add(1);
    true
}

/// Performs a scalar load of whole words; false if it has to go the long way.
pub(super) fn scalar_load(context: &mut Context<'_>, step: &Step) -> bool {
    let (Some(Transfer::Load(words)), Dest::Scalar(first)) = (step.transfer, step.dst[0]) else {
        return false;
    };
    let Ok((address, false)) = scalar::address(context.wave, step) else { return false };
    let Some(memory) = context.space.words(address, words.into(), Access::Read) else { return false };
    for (number, word) in (usize::from(first)..).zip(memory) {
        context.wave.set_scalar(number, word.load(Ordering::Relaxed));
    }
    true
}
