//! SDMA words: copies, fills, writes, fences, traps, polls, timestamps.
//!
//! Source: docs/facts/kfd.md. Not here: cache control, which this memory does not need.

use alloc::vec;
use alloc::vec::Vec;

use super::command_processor::{CommandProcessor, Notice, Outcome};
use super::pm4::holds;
use super::queue::Queue;
use crate::memory::{MemoryFault, Space};

/// Bytes moved at a time.
const CHUNK: u64 = 65536;
/// Most dwords of a WRITE packet.
const LONGEST: u32 = 1 << 16;

fn long(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Dwords of a packet by its first two words; `None` for an unknown one.
fn length(header: u32, count: impl Fn() -> Result<u32, MemoryFault>) -> Result<Option<u64>, MemoryFault> {
    Ok(Some(match (header & 0xff, header >> 8 & 0xff) {
        (0, _) => 1 + u64::from(header >> 16 & 0x3fff),
        (1, 0) => 7 + u64::from(header >> 19 & 1),
        (2, 0) => match count()? & 0xf_ffff {
            words if words < LONGEST => 5 + u64::from(words),
            _ => return Ok(None),
        },
        (5, _) => 4,
        (6, _) => 2,
        (8, 0) => 6,
        (11, _) => 5,
        (13, _) => 3,
        (17, _) => 5,
        _ => return Ok(None),
    }))
}

/// Takes the next packet of an SDMA queue.
pub(super) fn step(
    cp: &mut CommandProcessor,
    queue: &mut Queue,
    space: &mut Space,
) -> Result<Outcome, MemoryFault> {
    let limit = cp.limit(queue, space)?;
    if queue.read >= limit {
        return Ok(Outcome::Waits);
    }
    let at = |word: u64| queue.ring + (queue.read + 4 * word) % queue.bytes.max(4);
    let header = space.load32(at(0))?;
    let count = space.load32(at(3))?;
    let Some(length) = length(header, || Ok(count))? else { return Ok(Outcome::Stopped) };
    if queue.read + 4 * length > limit {
        return Ok(Outcome::Waits);
    }
    let words = (0..length).map(|word| space.load32(at(word))).collect::<Result<Vec<u32>, _>>()?;
    if !packet(cp, space, &words)? {
        return Ok(Outcome::Waits);
    }
    queue.read += 4 * length;
    space.store64(queue.read_pointer, queue.read)?;
    Ok(Outcome::Advanced)
}

/// Executes a packet; false if it waits for a condition.
fn packet(cp: &mut CommandProcessor, space: &mut Space, words: &[u32]) -> Result<bool, MemoryFault> {
    let header = words.first().copied().unwrap_or(0);
    match (header & 0xff, words) {
        (1, [_, count, _, from_low, from_high, to_low, to_high, ..]) => {
            let bytes = u64::from(count & 0x3fff_ffff) + 1;
            copy(space, long(*to_low, *to_high), long(*from_low, *from_high), bytes)?;
        }
        (2, [_, low, high, _, data @ ..]) => {
            for (index, word) in data.iter().enumerate() {
                space.store32(long(*low, *high).wrapping_add(4 * index as u64), *word)?;
            }
        }
        (5, [_, low, high, value]) => space.store32(long(*low, *high), *value)?,
        (6, [_, context]) => cp.notices.push(Notice::Interrupt(context & 0x0fff_ffff)),
        (8, [_, low, high, reference, mask, _]) => {
            let value = space.load32(long(*low, *high))? & mask;
            return Ok(holds(header >> 28 & 7, value, *reference));
        }
        (11, [_, low, high, value, count]) => fill(space, header, long(*low, *high), *value, *count)?,
        (13, [_, low, high]) => {
            let now = cp.clock();
            space.store64(long(*low & !7, *high), now)?;
        }
        _ => {}
    }
    Ok(true)
}

fn copy(space: &mut Space, to: u64, from: u64, bytes: u64) -> Result<(), MemoryFault> {
    let mut buffer = vec![0; bytes.min(CHUNK) as usize];
    let mut done = 0;
    while done < bytes {
        let part = &mut buffer[..(bytes - done).min(CHUNK) as usize];
        space.read(from.wrapping_add(done), part)?;
        space.write(to.wrapping_add(done), part)?;
        done += part.len() as u64;
    }
    Ok(())
}

/// FILLSIZE 2: dwords, the count is bytes minus 4; 0: bytes, minus 1.
fn fill(space: &mut Space, header: u32, to: u64, value: u32, count: u32) -> Result<(), MemoryFault> {
    let dwords = header >> 30 == 2;
    let bytes = u64::from(count & 0x3fff_ffff) + if dwords { 4 } else { 1 };
    let pattern = if dwords { value.to_le_bytes() } else { [value as u8; 4] };
    let chunk: Vec<u8> = pattern.iter().copied().cycle().take(bytes.min(CHUNK) as usize).collect();
    let mut done = 0;
    while done < bytes {
        let part = &chunk[..(bytes - done).min(CHUNK) as usize];
        space.write(to.wrapping_add(done), part)?;
        done += part.len() as u64;
    }
    Ok(())
}
