//! Loads and stores of whole words by a whole wave: addresses together, one bounds check, words straight to registers.
//!
//! Each function does what it can and returns false for the rest, which `perform.rs` does with the same results.

use core::sync::atomic::Ordering;

use super::registers::Lanes;
use crate::memory::{Access, Space};

/// Most bytes between the first and the last word of one instruction.
pub(super) const REACH: u64 = 1 << 30;

/// Lowest and highest address of the active lanes.
pub(super) fn range(address: &[u64; 32], exec: u32) -> (u64, u64) {
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

/// The memory that a wave accesses: start, words, and the lanes' distances from the start in words.
struct Extent {
    start: u64,
    words: usize,
    at: [u32; 32],
    exec: u32,
    /// Lane after lane without a gap.
    packed: bool,
}

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

/// True if all lanes' accesses of `len` bytes lie in one region that allows them.
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
