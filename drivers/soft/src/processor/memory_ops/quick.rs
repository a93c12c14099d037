//! Loads and stores of whole waves: addresses together, one bounds check, words straight to the registers.
//!
//! Unwatched instructions come here themselves, watched ones when the memory answers.
//! Takes what it can and leaves the rest to `request.rs`, which gives the same results. Not here: atomics, buffers, flat
//! addresses, faults.

use core::sync::atomic::Ordering;

use doorbell_isa::{Flags, Format};

use super::super::step::{Dest, Source, Step};
use super::super::unit::Core;
use super::super::wave::{Lanes, Wave};
use super::transfer::Transfer;
use super::{address, scalar};
use crate::memory::{Access, Space};

/// Lowest and highest address of the active lanes.
fn range(address: &[u64; 32], exec: u32) -> (u64, u64) {
    let (mut low, mut high) = (u64::MAX, 0);
    let mut lane = 0;
    while lane < 32 {
        let (inside, value) = (exec >> lane & 1 != 0, address[lane]);
        low = if inside && value < low { value } else { low };
        high = if inside && value > high { value } else { high };
        lane += 1;
    }
    (low, high)
}

/// What a wave accesses in memory: where it begins, how many words, and the lanes' distances from there in words.
struct Extent {
    start: u64,
    words: usize,
    at: [u32; 32],
    exec: u32,
    /// Lane after lane without a gap.
    packed: bool,
}

/// Most bytes between the first and the last word of one instruction.
const REACH: u64 = 1 << 30;

impl Extent {
    /// None if some lane's address is not aligned, or they are too far apart.
    #[inline(always)]
    fn of(address: &[u64; 32], exec: u32, words: usize) -> Option<Self> {
        let (low, high) = range(address, exec);
        if exec == 0 || high - low >= REACH {
            return None;
        }
        let mut at = [0; 32];
        let (mut odd, mut gap) = (low as u32 & 3, 0);
        let mut lane = 0;
        while lane < 32 {
            let distance = address[lane].wrapping_sub(low) as u32;
            let active = if exec >> lane & 1 != 0 { u32::MAX } else { 0 };
            odd |= distance & 3 & active;
            at[lane] = distance >> 2 & active;
            gap |= at[lane] ^ (lane as u32).wrapping_mul(words as u32);
            lane += 1;
        }
        let count = usize::try_from((high - low) / 4).ok()? + words;
        (odd == 0).then_some(Self {
            start: low,
            words: count,
            at,
            exec,
            packed: gap == 0 && exec == u32::MAX,
        })
    }
}

/// A vector load of whole words to these registers; false if it has to go the long way.
#[inline]
pub(super) fn load(space: &mut Space, registers: &mut [Lanes], address: &[u64; 32], exec: u32) -> bool {
    let words = registers.len();
    let Some(extent) = Extent::of(address, exec, words) else { return false };
    let Some(memory) = space.words(extent.start, extent.words, Access::Read) else { return false };
    let get = |at: usize| memory.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
    if let ([register], true) = (&mut *registers, extent.packed) {
        for (slot, word) in register.iter_mut().zip(memory) {
            *slot = word.load(Ordering::Relaxed);
        }
        return true;
    }
    if extent.packed {
        for (lane, group) in memory.chunks_exact(words).enumerate().take(32) {
            for (register, word) in registers.iter_mut().zip(group) {
                register[lane] = word.load(Ordering::Relaxed);
            }
        }
        return true;
    }
    for lane in (0..32).filter(|lane| extent.exec >> lane & 1 != 0) {
        let at = extent.at[lane] as usize;
        for (index, register) in registers.iter_mut().enumerate() {
            register[lane] = get(at + index);
        }
    }
    true
}

/// A vector store of whole words from these registers; false if it has to go the long way.
#[inline]
pub(super) fn store(space: &mut Space, registers: &[Lanes], address: &[u64; 32], exec: u32) -> bool {
    let Some(extent) = Extent::of(address, exec, registers.len()) else { return false };
    let Some(memory) = space.words(extent.start, extent.words, Access::Write) else { return false };
    let mut changed = 0;
    // In the order of the lanes: the highest one wins.
    for lane in (0..32).filter(|lane| extent.exec >> lane & 1 != 0) {
        let at = extent.at[lane] as usize;
        for (register, word) in registers.iter().zip(memory.get(at..).unwrap_or_default()) {
            changed |= word.load(Ordering::Relaxed) ^ register[lane];
            word.store(register[lane], Ordering::Relaxed);
        }
    }
    if changed != 0 {
        space.changes = space.changes.wrapping_add(1);
    }
    true
}

/// Whether all lanes' accesses of `len` bytes lie in one region that allows them.
pub(super) fn is_inside(
    space: &mut Space,
    address: &[u64; 32],
    exec: u32,
    len: usize,
    access: Access,
) -> bool {
    let (low, high) = range(address, exec);
    if exec == 0 || high - low >= REACH {
        return false;
    }
    usize::try_from(high - low).is_ok_and(|reach| space.check(low, reach + len, access).is_ok())
}

/// A load of a byte or halfword that is extended; false if it has to go the long way.
fn load_small(core: &mut Core<'_>, first: usize, bytes: u8, signed: bool, address: &[u64; 32]) -> bool {
    let exec = core.wave.exec();
    let (low, high) = range(address, exec);
    if exec == 0 || high - low >= REACH {
        return false;
    }
    let start = low & !3;
    let Ok(reach) = usize::try_from(high - start) else { return false };
    let count = (reach + usize::from(bytes)).div_ceil(4);
    let Some(memory) = core.space.words(start, count, Access::Read) else { return false };
    let Some(register) = core.wave.vgpr.get_mut(first) else { return false };
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
pub(super) fn vector(core: &mut Core<'_>, step: &Step) -> bool {
    let Some(transfer) = step.transfer else { return false };
    match step.format {
        Format::Global => {
            let simd = core.wave.simd;
            simd.run(
                #[inline(always)]
                || global(core, step, transfer),
            )
        }
        Format::Ds => {
            let simd = core.wave.simd;
            simd.run(
                #[inline(always)]
                || lds(core, step, transfer),
            )
        }
        _ => false,
    }
}

#[inline(always)]
fn global(core: &mut Core<'_>, step: &Step, transfer: Transfer) -> bool {
    let Some(address) = addresses(core.wave, step) else { return false };
    let exec = core.wave.exec();
    match (transfer, step.dst[0]) {
        (Transfer::Load(words), Dest::Vgpr(first)) => {
            let (first, words) = (usize::from(first), usize::from(words));
            let registers = core.wave.vgpr.get_mut(first..first + words);
            registers.is_some_and(|registers| load(core.space, registers, &address, exec))
        }
        (Transfer::LoadSmall { bytes, signed }, Dest::Vgpr(first)) => {
            load_small(core, first.into(), bytes, signed, &address)
        }
        (Transfer::Store(words), _) => {
            let registers =
                data(step).and_then(|first| core.wave.vgpr.get(first..first + usize::from(words)));
            registers.is_some_and(|registers| store(core.space, registers, &address, exec))
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
fn lds(core: &mut Core<'_>, step: &Step, transfer: Transfer) -> bool {
    let wave = &mut *core.wave;
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
    if (most as usize).saturating_add(last).saturating_add(bytes) > core.group.lds.len()
        || most > u32::MAX / 2
    {
        return false;
    }
    let lds = &mut core.group.lds;
    let lanes = (0..32).filter(|lane| exec >> lane & 1 != 0);
    let (words, register) = match (transfer, step.dst[0]) {
        (Transfer::Load(words) | Transfer::LoadPair(words), Dest::Vgpr(register)) => {
            (usize::from(words), usize::from(register))
        }
        (Transfer::Store(words) | Transfer::StorePair(words), _) => {
            return store_lds(core, step, words.into(), &address, [first, second]);
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
fn store_lds(core: &mut Core<'_>, step: &Step, words: usize, address: &Lanes, offsets: [u32; 2]) -> bool {
    let pair = step.row().has(Flags::TWO_OFFSETS);
    let exec = core.wave.exec();
    let sources = [step.vsrc(1), if pair { step.vsrc(2) } else { None }];
    if sources[0].is_none() || (pair && sources[1].is_none()) {
        return false;
    }
    for lane in (0..32).filter(|lane| exec >> lane & 1 != 0) {
        for (register, offset) in sources.into_iter().zip(offsets) {
            let Some(register) = register else { continue };
            let start = address[lane] as usize + offset as usize;
            for index in 0..words {
                let slot =
                    core.group.lds.get_mut(start + 4 * index..).and_then(|rest| rest.first_chunk_mut::<4>());
                if let Some(slot) = slot {
                    *slot = core.wave.vgpr[register + index][lane].to_le_bytes();
                }
            }
        }
    }
    core.space.changes = core.space.changes.wrapping_add(1);
    true
}

/// Performs a scalar load of whole words; false if it has to go the long way.
pub(super) fn scalar_load(core: &mut Core<'_>, step: &Step) -> bool {
    let (Some(Transfer::Load(words)), Dest::Scalar(first)) = (step.transfer, step.dst[0]) else {
        return false;
    };
    let Ok((address, false)) = scalar::address(core.wave, step) else { return false };
    let Some(memory) = core.space.words(address, words.into(), Access::Read) else { return false };
    for (number, word) in (usize::from(first)..).zip(memory) {
        core.wave.set_scalar(number, word.load(Ordering::Relaxed));
    }
    true
}

/// The scalar base of an address, resolved once.
pub(crate) fn base(step: &Step) -> Option<Source> {
    address::base(step)
}
