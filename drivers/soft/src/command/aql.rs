//! AQL packets.
//!
//! Source: HSA system architecture for the packets, docs/facts/kfd.md for headers, signals and error codes. Not here:
//! dispatches themselves.

use doorbell_kfd::packet::Encoding;

use super::command_processor::{CommandProcessor, InFlight, Outcome};
use super::pm4;
use super::queue::{IndirectBuffer, Queue};
use crate::code::{Descriptor, DescriptorError, Launch, as_wave32};
use crate::memory::{MemoryFault, Space};
use crate::processor::Lists;

/// Error codes that go to the queue's inactive signal.
mod error {
    pub(super) const SCRATCH: u64 = 0x1;
    pub(super) const DIMENSIONS: u64 = 0x2;
    pub(super) const LDS: u64 = 0x4;
    pub(super) const CODE: u64 = 0x8;
    pub(super) const PACKET: u64 = 0x20;
    pub(super) const GROUP: u64 = 0x40;
    pub(super) const REGISTERS: u64 = 0x80;
    pub(super) const VENDOR: u64 = 0x100;
}

/// Offsets in the queue structure, whose read pointer lies at 0x80.
mod offset {
    pub(super) const READ: u64 = 0x80;
    pub(super) const TMPRING: u64 = 0x8c;
    pub(super) const PROPERTIES: u64 = 0xb4;
    pub(super) const INACTIVE: u64 = 0xc0;
}

const INVALID: u8 = 1;
const PROFILING: u32 = 1 << 3;

/// One packet.
struct Packet([u8; 64]);

impl Packet {
    fn half(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    fn word(&self, at: usize) -> u32 {
        u32::from(self.half(at)) | u32::from(self.half(at + 2)) << 16
    }

    fn long(&self, at: usize) -> u64 {
        u64::from(self.word(at)) | u64::from(self.word(at + 4)) << 32
    }

    fn signal(&self) -> u64 {
        self.long(56)
    }
}

/// The reason why a packet is not executed now.
enum Stop {
    Fault(MemoryFault),
    /// A condition does not hold yet.
    Waits,
    /// Code for the inactive signal.
    Error(u64),
    /// The dispatches before it did not end.
    Hung,
}

impl From<MemoryFault> for Stop {
    fn from(fault: MemoryFault) -> Self {
        Self::Fault(fault)
    }
}

/// Takes the next packet of a queue.
pub(super) fn step(
    cp: &mut CommandProcessor,
    queue: &mut Queue,
    space: &mut Space,
) -> Result<Outcome, MemoryFault> {
    if queue.read >= cp.limit(queue, space)? {
        return Ok(Outcome::Waits);
    }
    let slot = queue.ring + queue.read % (queue.bytes / 64).max(1) * 64;
    let mut packet = Packet([0; 64]);
    space.read(slot, &mut packet.0)?;
    let header = packet.half(0);
    if header as u8 == INVALID {
        return Ok(Outcome::Waits);
    }
    match execute(cp, queue, space, &packet, slot) {
        Ok(()) => {}
        Err(Stop::Fault(fault)) => return Err(fault),
        Err(Stop::Waits) => return Ok(Outcome::Waits),
        Err(Stop::Hung) => return Ok(Outcome::Stopped),
        Err(Stop::Error(code)) => {
            let inactive = space.load64(queue.read_pointer - offset::READ + offset::INACTIVE)?;
            if inactive != 0 {
                space.store64(inactive.wrapping_add(8), code)?;
                cp.mailbox(inactive, space)?;
            }
            return Ok(Outcome::Stopped);
        }
    }
    queue.read += 1;
    // It is not known whether hardware marks a consumed slot, so drivers must not rely on either.
    if cp.random.once_in(2) {
        space.write(slot, &u16::from(INVALID).to_le_bytes())?;
    }
    space.store64(queue.read_pointer, queue.read)?;
    Ok(Outcome::Advanced)
}

fn execute(
    cp: &mut CommandProcessor,
    queue: &mut Queue,
    space: &mut Space,
    packet: &Packet,
    slot: u64,
) -> Result<(), Stop> {
    let header = packet.half(0);
    let (kind, barrier) = (header & 0xff, header & 1 << 8 != 0);
    let acquires = header >> 9 & 3 != 0;
    if (barrier || kind != 2) && !cp.flush(queue, space) {
        return Err(Stop::Hung);
    }
    cp.acquired |= acquires;
    match kind {
        0 => vendor(cp, queue, space, packet),
        2 => dispatch(cp, queue, space, packet, slot),
        3 | 5 => {
            let signals = (0..5).map(|index| packet.long(8 + 8 * index)).filter(|signal| *signal != 0);
            let mut zero = 0;
            let mut count = 0;
            for signal in signals {
                count += 1;
                zero += usize::from(space.load64(signal.wrapping_add(8))? == 0);
            }
            let holds = if kind == 3 { zero == count } else { zero > 0 || count == 0 };
            if !holds {
                return Err(Stop::Waits);
            }
            Ok(cp.signal(packet.signal(), space)?)
        }
        _ => Err(Stop::Error(error::PACKET)),
    }
}

fn dispatch(
    cp: &mut CommandProcessor,
    queue: &Queue,
    space: &mut Space,
    packet: &Packet,
    slot: u64,
) -> Result<(), Stop> {
    let base = queue.read_pointer - offset::READ;
    let dimensions = packet.half(2) & 3;
    let group = [4, 6, 8].map(|at| u32::from(packet.half(at)));
    let grid = [12, 16, 20].map(|at| packet.word(at));
    if dimensions == 0 || grid.contains(&0) {
        return Err(Stop::Error(error::DIMENSIONS));
    }
    let scratch = packet.word(24);
    if scratch > 0 && space.load32(base + offset::TMPRING)? == 0 {
        return Err(Stop::Error(error::SCRATCH));
    }
    let object = packet.long(32);
    let mut bytes = [0; 64];
    if object == 0 {
        return Err(Stop::Error(error::CODE));
    }
    space.read(object, &mut bytes)?;
    let launch = Launch {
        grid,
        group,
        kernarg: packet.long(40),
        packet: slot,
        queue: base,
        id: queue.read,
        lds: packet.word(28),
        scratch,
        ..Launch::default()
    };
    let mut descriptor = Descriptor::parse(&bytes).map_err(|_| Stop::Error(error::CODE))?;
    if cp.splits_wave64
        && descriptor.is_wave64()
        && let Some(wave32) = as_wave32(&descriptor, object, cp.engine.target(), space)
    {
        descriptor = wave32;
    }
    let dispatch = descriptor.dispatch(object, &launch, cp.engine.target()).map_err(|problem| {
        cp.refuse(object, problem);
        Stop::Error(code(problem))
    })?;
    let profiled = space.load32(base + offset::PROPERTIES)? & PROFILING != 0;
    let encoding = Encoding::Aql;
    let flight = InFlight { dispatch, signal: packet.signal(), profiled, encoding };
    if cp.launch(queue, space, flight) { Ok(()) } else { Err(Stop::Hung) }
}

/// Error code of firmware for a kernel that it cannot launch.
fn code(problem: DescriptorError) -> u64 {
    match problem {
        DescriptorError::Group(_) => error::GROUP,
        DescriptorError::Lds(_) => error::LDS,
        DescriptorError::Registers(_) => error::REGISTERS,
        DescriptorError::Scratch(_) => error::SCRATCH,
        _ => error::CODE,
    }
}

/// AMD's own packets: an indirect buffer, or a wait for a signal's value.
fn vendor(
    cp: &mut CommandProcessor,
    queue: &mut Queue,
    space: &mut Space,
    packet: &Packet,
) -> Result<(), Stop> {
    match packet.half(2) {
        1 if packet.word(20) == 10 && packet.word(4) >> 8 & 0xff == 0x3f => {
            let (address, dwords) = (packet.long(8), packet.word(16) & 0xf_ffff);
            match cp.engine.options().lists {
                Lists::Run => {}
                Lists::Refuse => return Err(Stop::Error(error::VENDOR)),
                Lists::Ignore => return Err(Stop::Waits),
                Lists::Skip => return Ok(cp.signal(packet.signal(), space)?),
            }
            let position = queue.waiting.take().map_or(0, |buffer| buffer.position);
            match pm4::run(cp, queue, space, IndirectBuffer { address, dwords, position })? {
                Outcome::Advanced => Ok(cp.signal(packet.signal(), space)?),
                Outcome::Waits => Err(Stop::Waits),
                Outcome::Stopped => Err(Stop::Hung),
            }
        }
        2 => {
            let value = space.load64(packet.long(8).wrapping_add(8))? & packet.long(24);
            let (value, wanted) = (value.cast_signed(), packet.long(16).cast_signed());
            let holds = match packet.word(32) {
                0 => value == wanted,
                1 => value != wanted,
                2 => value < wanted,
                _ => value >= wanted,
            };
            if holds { Ok(cp.signal(packet.signal(), space)?) } else { Err(Stop::Waits) }
        }
        _ => Err(Stop::Error(error::VENDOR)),
    }
}
