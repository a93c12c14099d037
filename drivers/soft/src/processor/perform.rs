//! The effect of a memory instruction when the memory results.
//!
//! Not here: forming addresses (`memory_ops`), the time of the answer (`operations.rs`).

use super::fault::Cause;
use super::registers::Lanes;
use super::request::{Destination, Location, MemoryKind, Request};
use super::transfer::Transfer;
use super::wave::Wave;
use super::whole_words;
use crate::memory::{Access, Space};

/// The memories an operation may touch.
pub(crate) struct Memories<'a> {
    /// The GPU's address space.
    pub(crate) space: &'a mut Space,
    /// The group's LDS.
    pub(crate) lds: &'a mut [u8],
}

impl Request {
    /// Checks all accesses. Called at issue, when the program counter is at hand.
    pub(crate) fn check(&self, wave: &Wave, memories: &mut Memories<'_>) -> Result<(), Cause> {
        let len = self.transfer.bytes();
        let access = if self.transfer.writes() { Access::Write } else { Access::Read };
        let whole = self.memory == MemoryKind::Global && self.outside & self.exec == 0 && self.second == 0;
        if whole && whole_words::is_inside(memories.space, &self.address, self.exec, len, access) {
            return Ok(());
        }
        for lane in 0..32 {
            if self.exec >> lane & 1 == 0 || self.outside >> lane & 1 != 0 || self.memory == MemoryKind::Lanes
            {
                continue;
            }
            let first = self.address[lane];
            check_one(wave, memories, self.location(first), len, access)?;
            if self.second != 0 {
                check_one(
                    wave,
                    memories,
                    self.location(first.wrapping_add_signed(self.second)),
                    len,
                    access,
                )?;
            }
            if self.memory == MemoryKind::Scalar {
                break;
            }
        }
        Ok(())
    }

    /// Moves the data. Only called after `check`.
    pub(crate) fn perform(&self, wave: &mut Wave, memories: &mut Memories<'_>) -> Result<(), Cause> {
        match self.transfer {
            Transfer::Load(_) if self.memory == MemoryKind::Scalar => self.scalar(wave, memories),
            Transfer::LoadSmall { bytes, signed } if self.memory == MemoryKind::Scalar => {
                let value = self.small(wave, memories, self.address[0], bytes, signed, 0)?;
                if let Destination::Scalar(first, _) = self.destination {
                    wave.set_scalar(first, if self.outside & 1 != 0 { 0 } else { value });
                }
                Ok(())
            }
            _ if self.memory == MemoryKind::Lanes => self.write_registers(wave, &self.data.clone()),
            _ => self.vector(wave, memories),
        }
    }

    fn scalar(&self, wave: &mut Wave, memories: &mut Memories<'_>) -> Result<(), Cause> {
        let Destination::Scalar(first, count) = self.destination else { return Ok(()) };
        for index in 0..count {
            let address = self.address[0].wrapping_add(4 * index as u64);
            let value = if self.outside & 1 != 0 { 0 } else { memories.space.load32(address)? };
            wave.set_scalar(first + index, value);
        }
        Ok(())
    }

    /// Whole words of global memory, in one go; false if that is not possible.
    fn whole(&self, wave: &mut Wave, memories: &mut Memories<'_>) -> bool {
        if self.memory != MemoryKind::Global || self.outside & self.exec != 0 {
            return false;
        }
        match (self.transfer, self.destination) {
            (Transfer::Load(words), Destination::Vector(first, _)) => {
                let registers = wave.vgpr.get_mut(first..first + usize::from(words));
                registers.is_some_and(|registers| {
                    whole_words::load(memories.space, registers, &self.address, self.exec)
                })
            }
            (Transfer::Store(_), _) => {
                whole_words::store(memories.space, &self.data, &self.address, self.exec)
            }
            _ => false,
        }
    }

    fn vector(&self, wave: &mut Wave, memories: &mut Memories<'_>) -> Result<(), Cause> {
        if self.whole(wave, memories) {
            return Ok(());
        }
        let count = if let Destination::Vector(_, count) = self.destination { count } else { 0 };
        let mut out = alloc::vec![[0; 32]; count];
        if let (Destination::Vector(first, _), Transfer::LoadHalf { .. }) = (self.destination, self.transfer)
        {
            out[0] = wave.vgpr[first];
        }
        for lane in 0..32 {
            if self.exec >> lane & 1 != 0 && self.outside >> lane & 1 == 0 {
                self.lane(wave, memories, lane, &mut out)?;
            }
        }
        if let Transfer::LoadTransposed(bits) = self.transfer {
            transpose(&mut out, bits);
        }
        self.write_registers(wave, &out)
    }

    fn write_registers(&self, wave: &mut Wave, out: &[Lanes]) -> Result<(), Cause> {
        if let Destination::Vector(first, count) = self.destination {
            for (index, value) in out.iter().enumerate().take(count) {
                wave.store(first + index, value, self.exec);
            }
        }
        Ok(())
    }

    fn lane(
        &self,
        wave: &mut Wave,
        memories: &mut Memories<'_>,
        lane: usize,
        out: &mut [Lanes],
    ) -> Result<(), Cause> {
        let address = self.address[lane];
        let other = address.wrapping_add_signed(self.second);
        let word = |index: usize| self.data.get(index).map_or(0, |value| value[lane]);
        match self.transfer {
            Transfer::Load(words) => self.load(wave, memories, address, lane, &mut out[..usize::from(words)]),
            Transfer::LoadTransposed(bits) => {
                self.load(wave, memories, address, lane, &mut out[..usize::from(bits / 4)])
            }
            Transfer::LoadPair(words) => {
                let (low, high) = out.split_at_mut(usize::from(words));
                self.load(wave, memories, address, lane, low)?;
                self.load(wave, memories, other, lane, high)
            }
            Transfer::LoadSmall { bytes, signed } => {
                out[0][lane] = self.small(wave, memories, address, bytes, signed, lane)?;
                Ok(())
            }
            Transfer::LoadHalf { bytes, signed, high } => {
                let value = self.small(wave, memories, address, bytes, signed, lane)? & 0xffff;
                let old = out[0][lane];
                out[0][lane] = if high { old & 0xffff | value << 16 } else { old & 0xffff_0000 | value };
                Ok(())
            }
            Transfer::Store(words) => (0..usize::from(words)).try_for_each(|index| {
                let at = address.wrapping_add(4 * index as u64);
                self.put(wave, memories, at, lane, &word(index).to_le_bytes())
            }),
            Transfer::StoreSmall { bytes, high } => {
                let value = if high { word(0) >> 16 } else { word(0) };
                self.put(wave, memories, address, lane, &value.to_le_bytes()[..usize::from(bytes)])
            }
            Transfer::StorePair(words) => self.store_pair(wave, memories, lane, words.into()),
            Transfer::ExchangePair(words) => {
                let (low, high) = out.split_at_mut(usize::from(words));
                self.load(wave, memories, address, lane, low)?;
                self.load(wave, memories, other, lane, high)?;
                self.store_pair(wave, memories, lane, words.into())
            }
            Transfer::Atomic { bytes, alu } => {
                let mut raw = [0; 8];
                let wide = usize::from(bytes);
                self.get(wave, memories, address, lane, &mut raw[..wide])?;
                let old = u64::from_le_bytes(raw);
                let operand = |at: usize| match wide {
                    4 => u64::from(word(at)),
                    _ => u64::from(word(2 * at)) | u64::from(word(2 * at + 1)) << 32,
                };
                let new = alu(old, operand(0), operand(1));
                self.put(wave, memories, address, lane, &new.to_le_bytes()[..wide])?;
                for (index, slot) in out.iter_mut().enumerate().take(wide / 4) {
                    slot[lane] = (old >> (32 * index)) as u32;
                }
                Ok(())
            }
        }
    }

    fn store_pair(
        &self,
        wave: &mut Wave,
        memories: &mut Memories<'_>,
        lane: usize,
        words: usize,
    ) -> Result<(), Cause> {
        let address = self.address[lane];
        for (half, start) in [address, address.wrapping_add_signed(self.second)].into_iter().enumerate() {
            for index in 0..words {
                let word = self.data.get(half * words + index).map_or(0, |value| value[lane]);
                let at = start.wrapping_add(4 * index as u64);
                self.put(wave, memories, at, lane, &word.to_le_bytes())?;
            }
        }
        Ok(())
    }

    fn load(
        &self,
        wave: &mut Wave,
        memories: &mut Memories<'_>,
        address: u64,
        lane: usize,
        out: &mut [Lanes],
    ) -> Result<(), Cause> {
        for (index, slot) in out.iter_mut().enumerate() {
            let at = address.wrapping_add(4 * index as u64);
            slot[lane] = match self.location(at) {
                Location::Global(at) => memories.space.load32(at)?,
                _ => {
                    let mut bytes = [0; 4];
                    self.get(wave, memories, at, lane, &mut bytes)?;
                    u32::from_le_bytes(bytes)
                }
            };
        }
        Ok(())
    }

    fn small(
        &self,
        wave: &mut Wave,
        memories: &mut Memories<'_>,
        address: u64,
        bytes: u8,
        signed: bool,
        lane: usize,
    ) -> Result<u32, Cause> {
        let mut raw = [0; 4];
        self.get(wave, memories, address, lane, &mut raw[..usize::from(bytes)])?;
        let shift = 32 - 8 * u32::from(bytes);
        let raised = u32::from_le_bytes(raw) << shift;
        Ok(if signed { (raised.cast_signed() >> shift).cast_unsigned() } else { raised >> shift })
    }

    fn get(
        &self,
        wave: &mut Wave,
        memories: &mut Memories<'_>,
        address: u64,
        lane: usize,
        out: &mut [u8],
    ) -> Result<(), Cause> {
        match self.location(address) {
            Location::Global(at) => memories.space.read(at, out)?,
            Location::Lds(at) => {
                let size = memories.lds.len();
                let bytes = slice(memories.lds, at, out.len()).ok_or(lds_fault(at, size))?;
                out.copy_from_slice(bytes);
            }
            Location::Scratch(at) => {
                let size = wave.scratch_lane;
                let bytes =
                    lane_slice(wave, at, lane, out.len()).ok_or(Cause::Scratch { offset: at, size })?;
                out.copy_from_slice(bytes);
            }
        }
        Ok(())
    }

    fn put(
        &self,
        wave: &mut Wave,
        memories: &mut Memories<'_>,
        address: u64,
        lane: usize,
        bytes: &[u8],
    ) -> Result<(), Cause> {
        match self.location(address) {
            Location::Global(at) => match bytes {
                &[a, b, c, d] => memories.space.store32(at, u32::from_le_bytes([a, b, c, d]))?,
                _ => memories.space.write(at, bytes)?,
            },
            Location::Lds(at) => {
                let size = memories.lds.len();
                let out = slice(memories.lds, at, bytes.len()).ok_or(lds_fault(at, size))?;
                out.copy_from_slice(bytes);
                memories.space.changes = memories.space.changes.wrapping_add(1);
            }
            Location::Scratch(at) => {
                let size = wave.scratch_lane;
                let out =
                    lane_slice(wave, at, lane, bytes.len()).ok_or(Cause::Scratch { offset: at, size })?;
                out.copy_from_slice(bytes);
            }
        }
        Ok(())
    }
}

fn lds_fault(address: u64, size: usize) -> Cause {
    Cause::Lds { address, size }
}

fn slice(memory: &mut [u8], at: u64, len: usize) -> Option<&mut [u8]> {
    let start = usize::try_from(at).ok()?;
    memory.get_mut(start..start.checked_add(len)?)
}

fn lane_slice(wave: &mut Wave, at: u64, lane: usize, len: usize) -> Option<&mut [u8]> {
    let start = usize::try_from(at).ok()?;
    let inside = start.checked_add(len).is_some_and(|end| end <= wave.scratch_lane);
    let base = lane * wave.scratch_lane;
    if inside { wave.scratch.get_mut(base + start..base + start + len) } else { None }
}

fn check_one(
    wave: &Wave,
    memories: &mut Memories<'_>,
    location: Location,
    len: usize,
    access: Access,
) -> Result<(), Cause> {
    let inside = |at: u64, size: usize| {
        usize::try_from(at).ok().and_then(|start| start.checked_add(len)).is_some_and(|end| end <= size)
    };
    match location {
        Location::Global(at) => memories.space.check(at, len, access)?,
        Location::Lds(at) if !inside(at, memories.lds.len()) => {
            return Err(lds_fault(at, memories.lds.len()));
        }
        Location::Scratch(at) if !inside(at, wave.scratch_lane) => {
            return Err(Cause::Scratch { offset: at, size: wave.scratch_lane });
        }
        Location::Lds(_) | Location::Scratch(_) => {}
    }
    Ok(())
}

/// Exchanges rows and columns within every eight lanes: each loaded eight elements, the row of its number, and receives
/// the column of its number. Source: LLVM's users describe it so, and runs on RDNA4 found it.
fn transpose(out: &mut [Lanes], bits: u8) {
    let per = 32 / u32::from(bits);
    let mask = (1 << bits) - 1;
    let loaded = out.to_vec();
    let element = |lane: usize, index: u32| {
        loaded[(index / per) as usize][lane] >> (index % per * u32::from(bits)) & mask
    };
    for (register, value) in out.iter_mut().enumerate() {
        for (lane, slot) in value.iter_mut().enumerate() {
            *slot = 0;
            for part in 0..per {
                let from = lane / 8 * 8 + register * per as usize + part as usize;
                *slot |= element(from, (lane % 8) as u32) << (part * u32::from(bits));
            }
        }
    }
}
