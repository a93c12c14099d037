//! PM4 words: registers, dispatches, waits and writes of indirect buffers and compute queues.
//!
//! Source: docs/facts/kfd.md. The stream is untrusted: lengths are checked, unknown packets stop the queue. Not here:
//! the content of caches.

use alloc::vec::Vec;

use doorbell_isa::Generation;
use doorbell_kfd::packet::Encoding;

use super::command_processor::{CommandProcessor, InFlight, Notice, Outcome};
use super::queue::{IndirectBuffer, Queue};
use crate::code::{Descriptor, Launch};
use crate::memory::{MemoryFault, Space};

mod opcode {
    pub(super) const NOP: u32 = 0x10;
    pub(super) const DISPATCH_DIRECT: u32 = 0x15;
    pub(super) const WRITE_DATA: u32 = 0x37;
    pub(super) const WAIT_REG_MEM: u32 = 0x3c;
    pub(super) const INDIRECT_BUFFER: u32 = 0x3f;
    pub(super) const EVENT_WRITE: u32 = 0x46;
    pub(super) const RELEASE_MEM: u32 = 0x49;
    pub(super) const ACQUIRE_MEM: u32 = 0x58;
    pub(super) const SET_SH_REG: u32 = 0x76;
}

mod register {
    pub(super) const NUM_THREAD_X: usize = 0x207;
    pub(super) const PGM_LO: usize = 0x20c;
    pub(super) const PGM_RSRC1: usize = 0x212;
    pub(super) const TMPRING_SIZE: usize = 0x218;
    pub(super) const PGM_RSRC3: usize = 0x228;
    pub(super) const USER_DATA: usize = 0x240;
}

/// Bits of GCR_CNTL that invalidate the caches above L2: scalar, GL0, GL1.
const ABOVE_L2: u32 = 1 << 7 | 1 << 8 | 1 << 9;
/// Indirect buffers that may call each other.
const DEPTH: usize = 4;
/// Most dwords of an indirect buffer.
const LONGEST: u32 = 1 << 20;

/// Takes the next packet of a PM4 queue.
pub(super) fn step(
    cp: &mut CommandProcessor,
    queue: &mut Queue,
    space: &mut Space,
) -> Result<Outcome, MemoryFault> {
    let limit = cp.limit(queue, space)?;
    if queue.read >= limit {
        return Ok(Outcome::Waits);
    }
    let dwords = (queue.bytes / 4).max(1);
    let mut word = |at: u64| space.load32(queue.ring + at % dwords * 4);
    let header = word(queue.read)?;
    let length = length(header);
    if queue.read + length as u64 > limit {
        return Ok(Outcome::Waits);
    }
    let body = (1..length as u64).map(|at| word(queue.read + at)).collect::<Result<Vec<u32>, _>>()?;
    let outcome = packet(cp, queue, space, header, &body, 0)?;
    if outcome == Outcome::Advanced {
        queue.read += length as u64;
        space.store64(queue.read_pointer, queue.read)?;
    }
    Ok(outcome)
}

/// Dwords of a packet with its header; type 2 is a filler.
fn length(header: u32) -> usize {
    match header >> 30 {
        3 if header >> 8 & 0xff == opcode::NOP && header >> 16 & 0x3fff == 0x3fff => 1,
        3 => (header >> 16 & 0x3fff) as usize + 2,
        _ => 1,
    }
}

/// Runs an indirect buffer; the queue keeps the position at which it waits.
pub(super) fn run(
    cp: &mut CommandProcessor,
    queue: &mut Queue,
    space: &mut Space,
    buffer: IndirectBuffer,
) -> Result<Outcome, MemoryFault> {
    let outcome = nested(cp, queue, space, buffer, 0)?;
    if outcome == Outcome::Advanced && !cp.flush(queue, space) {
        return Ok(Outcome::Stopped);
    }
    Ok(outcome)
}

fn nested(
    cp: &mut CommandProcessor,
    queue: &mut Queue,
    space: &mut Space,
    buffer: IndirectBuffer,
    depth: usize,
) -> Result<Outcome, MemoryFault> {
    let IndirectBuffer { address, dwords, position } = buffer;
    if dwords > LONGEST || depth >= DEPTH {
        return Ok(Outcome::Stopped);
    }
    let end = dwords as usize;
    let mut at = position;
    while at < end {
        let header = space.load32(address.wrapping_add(4 * at as u64))?;
        let length = length(header);
        if at + length > end {
            return Ok(Outcome::Stopped);
        }
        let mut body = Vec::new();
        for index in 1..length {
            body.push(space.load32(address.wrapping_add(4 * (at + index) as u64))?);
        }
        match packet(cp, queue, space, header, &body, depth)? {
            Outcome::Advanced => at += length,
            Outcome::Waits => {
                if depth == 0 {
                    queue.waiting = Some(IndirectBuffer { position: at, ..buffer });
                }
                return Ok(Outcome::Waits);
            }
            Outcome::Stopped => return Ok(Outcome::Stopped),
        }
    }
    Ok(Outcome::Advanced)
}

fn long(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn packet(
    cp: &mut CommandProcessor,
    queue: &mut Queue,
    space: &mut Space,
    header: u32,
    body: &[u32],
    depth: usize,
) -> Result<Outcome, MemoryFault> {
    if header >> 30 == 2 {
        return Ok(Outcome::Advanced);
    }
    let done = |good: bool| if good { Outcome::Advanced } else { Outcome::Stopped };
    Ok(match (header >> 8 & 0xff, body) {
        _ if header >> 30 != 3 => Outcome::Stopped,
        (opcode::NOP, _) => Outcome::Advanced,
        (opcode::ACQUIRE_MEM, [_, _, _, _, _, _, caches]) => {
            cp.acquired |= caches & ABOVE_L2 == ABOVE_L2;
            Outcome::Advanced
        }
        (opcode::SET_SH_REG, [first, values @ ..]) => {
            let first = (first & 0xffff) as usize;
            let slots = cp.registers.get_mut(first..first + values.len());
            done(slots.map(|slots| slots.copy_from_slice(values)).is_some())
        }
        (opcode::DISPATCH_DIRECT, [x, y, z, initiator]) => {
            dispatch(cp, queue, space, [*x, *y, *z], *initiator)
        }
        // Every event waits for the dispatches before it here; on hardware CS_PARTIAL_FLUSH does.
        (opcode::EVENT_WRITE, [_, ..]) => done(cp.flush(queue, space)),
        (opcode::WRITE_DATA, [_, low, high, values @ ..]) => {
            for (index, value) in values.iter().enumerate() {
                space.store32(long(*low, *high).wrapping_add(4 * index as u64), *value)?;
            }
            Outcome::Advanced
        }
        // Not memory but a register: a flush of the host's path to VRAM is done at once here.
        (opcode::WAIT_REG_MEM, [control, ..]) if control >> 4 & 1 == 0 => Outcome::Advanced,
        (opcode::WAIT_REG_MEM, [control, low, high, reference, mask, ..]) => {
            if !cp.flush(queue, space) {
                return Ok(Outcome::Stopped);
            }
            let value = space.load32(long(*low & !3, *high))? & mask;
            if holds(control & 7, value, *reference) { Outcome::Advanced } else { Outcome::Waits }
        }
        (opcode::RELEASE_MEM, [_, select, low, high, data_low, data_high, context]) => {
            if !cp.flush(queue, space) {
                return Ok(Outcome::Stopped);
            }
            let address = long(*low, *high);
            match select >> 29 {
                1 => space.store32(address, *data_low)?,
                2 => space.store64(address, long(*data_low, *data_high))?,
                3 => space.store64(address, cp.clock())?,
                _ => {}
            }
            if select >> 24 & 7 == 2 {
                cp.notices.push(Notice::Interrupt(*context));
            }
            Outcome::Advanced
        }
        (opcode::INDIRECT_BUFFER, [low, high, size]) => {
            let buffer = IndirectBuffer { address: long(*low, *high), dwords: size & 0xf_ffff, position: 0 };
            nested(cp, queue, space, buffer, depth + 1)?
        }
        _ => Outcome::Stopped,
    })
}

/// Comparison functions of WAIT_REG_MEM and POLL_REGMEM.
pub(super) fn holds(function: u32, value: u32, reference: u32) -> bool {
    match function {
        0 => true,
        1 => value < reference,
        2 => value <= reference,
        3 => value == reference,
        4 => value != reference,
        5 => value >= reference,
        6 => value > reference,
        _ => false,
    }
}

fn dispatch(
    cp: &mut CommandProcessor,
    queue: &Queue,
    space: &mut Space,
    groups: [u32; 3],
    initiator: u32,
) -> Outcome {
    let target = cp.engine.target();
    let registers = &cp.registers;
    let mask = if target.generation() == Generation::Gfx12 { 0x1fff } else { 0xffff };
    let mut grid = [0; 3];
    let mut group = [0; 3];
    for axis in 0..3 {
        let threads = registers[register::NUM_THREAD_X + axis];
        let (full, partial) = (threads & mask, threads >> 16);
        let whole = groups[axis].saturating_mul(full);
        group[axis] = full;
        grid[axis] =
            if initiator & 2 != 0 && partial != 0 { whole - full.min(whole) + partial } else { whole };
    }
    if grid.contains(&0) {
        return Outcome::Advanced;
    }
    let [rsrc1, rsrc2] = [0, 1].map(|index| registers[register::PGM_RSRC1 + index]);
    let entry = long(registers[register::PGM_LO], registers[register::PGM_LO + 1]) << 8;
    let scratch = (registers[register::TMPRING_SIZE] >> 12 & 0x7fff) * 256 / 32;
    let descriptor = Descriptor {
        lds: (rsrc2 >> 15 & 0x1ff) * 512,
        scratch,
        kernarg: 0,
        entry: 0,
        rsrc1,
        rsrc2,
        rsrc3: registers[register::PGM_RSRC3],
        properties: ((initiator >> 15 & 1) << 10) as u16,
    };
    let launch = Launch { name: "PM4".into(), grid, group, ..Launch::default() };
    let mut dispatch = match descriptor.dispatch(entry, &launch, target) {
        Ok(dispatch) => dispatch,
        Err(problem) => {
            cp.refuse(entry, problem);
            return Outcome::Stopped;
        }
    };
    let count = dispatch.user.len().min(16);
    dispatch.user[..count].copy_from_slice(&registers[register::USER_DATA..register::USER_DATA + count]);
    dispatch.user_defined = u32::MAX;
    let flight = InFlight { dispatch, signal: 0, profiled: false, encoding: Encoding::Pm4 };
    if cp.launch(queue, space, flight) { Outcome::Advanced } else { Outcome::Stopped }
}
