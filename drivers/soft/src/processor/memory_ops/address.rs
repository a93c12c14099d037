//! Addresses and data of vector memory and LDS instructions at issue.
//!
//! Not here: scalar memory (`scalar.rs`), lane permutes (`lds.rs`).

use alloc::vec::Vec;

use doorbell_isa::operand_kind::Class;
use doorbell_isa::{Flags, Format};

use super::super::fault::Cause;
use super::super::registers::Lanes;
use super::super::request::Reach;
use super::super::request::{Destination, MemoryKind, Request};
use super::super::step::{Dest, Source, Step};
use super::super::transfer::Transfer;
use super::super::wave::Wave;

/// A 32-bit operand in every lane; an absent one is zero.
fn lanes(wave: &Wave, source: Source) -> Lanes {
    match source {
        Source::Vgpr(first) => wave.vgpr[usize::from(first)],
        Source::Scalar(number) | Source::Mask(number) => [wave.scalar(usize::from(number)); 32],
        Source::Const(u64::MAX) | Source::Scc => [0; 32],
        Source::Const(value) => [value as u32; 32],
    }
}

fn pair(wave: &Wave, first: usize) -> [u64; 32] {
    let (low, high) = (&wave.vgpr[first], &wave.vgpr[first + 1]);
    core::array::from_fn(|lane| u64::from(low[lane]) | u64::from(high[lane]) << 32)
}

fn is_off(source: Source) -> bool {
    matches!(source, Source::Const(u64::MAX))
}

/// Position of the source of a class.
fn slot(step: &Step, class: Class) -> Option<usize> {
    step.row().src.iter().position(|kind| kind.class == class)
}

/// Global and flat addresses.
fn global(wave: &Wave, step: &Step) -> Result<[u64; 32], Cause> {
    let base = slot(step, Class::Base).map_or(Source::Const(u64::MAX), |index| step.src[index]);
    let address = step.vsrc(0).ok_or(Cause::Unsupported("global address outside vector registers"))?;
    let offset = i64::from(step.inst.memory.offset);
    Ok(match base {
        Source::Scalar(number) => {
            let base = wave.scalar64(usize::from(number));
            let lanes = wave.vgpr[address];
            lanes.map(|lane| base.wrapping_add(lane.into()).wrapping_add_signed(offset))
        }
        _ => pair(wave, address).map(|lane| lane.wrapping_add_signed(offset)),
    })
}

/// Scratch offsets within the lane's segment.
fn scratch(wave: &Wave, step: &Step) -> [u64; 32] {
    let base = slot(step, Class::Base).map_or(Source::Const(u64::MAX), |index| step.src[index]);
    let scalar = lanes(wave, base)[0];
    let vector = lanes(wave, step.src[0]);
    let offset = step.inst.memory.offset.cast_unsigned();
    vector.map(|lane| lane.wrapping_add(scalar).wrapping_add(offset).into())
}

/// Fields of a buffer resource.
struct Resource {
    base: u64,
    stride: u64,
    records: u64,
    raw: bool,
}

impl Resource {
    fn of(wave: &Wave, source: Source) -> Result<Self, Cause> {
        let Source::Scalar(first) = source else {
            return Err(Cause::Unsupported("buffer resource outside scalar registers"));
        };
        let word = |index: usize| u64::from(wave.scalar(usize::from(first) + index));
        let (low, high) = (word(0), word(1));
        let stride = high >> 16 & 0x3fff;
        if high >> 30 != 0 {
            return Err(Cause::Unsupported("swizzled buffer"));
        }
        Ok(Self {
            base: low | (high & 0xffff) << 32,
            stride,
            records: word(2),
            raw: stride == 0 || word(3) >> 28 & 3 == 3,
        })
    }
}

/// Buffer addresses and the lanes that are out of bounds.
fn buffer(wave: &Wave, step: &Step, bytes: usize) -> Result<([u64; 32], u32), Cause> {
    let missing = Cause::Unsupported("buffer instruction without its operands");
    let at = slot(step, Class::BufferAddress).ok_or(missing.clone())?;
    let resource = Resource::of(wave, step.src[slot(step, Class::Register).ok_or(missing.clone())?])?;
    let scalar = lanes(wave, step.src[slot(step, Class::BufferOffset).ok_or(missing)?])[0];
    let memory = step.inst.memory;
    let first = step.vsrc(at);
    let (index, offset): (Lanes, Lanes) = match (first, memory.idxen, memory.offen) {
        (Some(first), true, true) => (wave.vgpr[first], wave.vgpr[first + 1]),
        (Some(first), true, false) => (wave.vgpr[first], [0; 32]),
        (Some(first), false, true) => ([0; 32], wave.vgpr[first]),
        _ => ([0; 32], [0; 32]),
    };
    let mut outside = 0;
    let mut address = [0; 32];
    for (lane, slot) in address.iter_mut().enumerate() {
        let inner = u64::from(offset[lane]) + u64::from(memory.offset.cast_unsigned());
        let record = u64::from(index[lane]);
        let end = inner + bytes as u64;
        let out = if resource.raw {
            record * resource.stride + end + u64::from(scalar) > resource.records
        } else {
            record >= resource.records || (memory.offen && end > resource.stride)
        };
        outside |= u32::from(out) << lane;
        *slot = resource.base.wrapping_add(record * resource.stride + inner + u64::from(scalar));
    }
    Ok((address, outside))
}

/// LDS addresses of the first access and the distance to the second.
fn lds(wave: &Wave, step: &Step, transfer: Transfer) -> ([u64; 32], i64) {
    let address = lanes(wave, step.src[0]);
    let offset = step.inst.memory.offset.cast_unsigned();
    if !step.row().has(Flags::TWO_OFFSETS) {
        return (address.map(|lane| lane.wrapping_add(offset).into()), 0);
    }
    let unit = transfer.bytes() as u32 * if step.row().name.contains("stride64") { 64 } else { 1 };
    let [low, high] = [offset & 0xff, offset >> 8 & 0xff].map(|part| part * unit);
    let distance = i64::from(high) - i64::from(low);
    (address.map(|lane| lane.wrapping_add(low).into()), distance)
}

/// Data registers: those of every source that is neither address nor base.
fn data(wave: &Wave, step: &Step) -> Vec<Lanes> {
    let mut data = Vec::new();
    for (index, kind) in
        step.row().src.iter().enumerate().skip(usize::from(step.row().format != Format::Mubuf))
    {
        if kind.class == Class::Data
            && let Some(first) = step.vsrc(index)
        {
            data.extend((0..usize::from(kind.ty.dwords())).map(|part| wave.vgpr[first + part]));
        }
    }
    data
}

/// The request of an instruction, or none if no lane is active.
pub(super) fn request(wave: &Wave, step: &Step) -> Result<Option<Request>, Cause> {
    let exec = wave.exec();
    let row = step.row();
    let transfer = step.transfer.ok_or(Cause::Unsupported("memory instruction without a transfer"))?;
    let bytes = transfer.bytes();
    let (memory, address, second, outside) = match row.format {
        Format::Global => (MemoryKind::Global, global(wave, step)?, 0, 0),
        Format::Flat => (MemoryKind::Flat, global(wave, step)?, 0, 0),
        Format::Scratch => (MemoryKind::Scratch, scratch(wave, step), 0, 0),
        Format::Mubuf => {
            let (address, outside) = buffer(wave, step, bytes)?;
            (MemoryKind::Global, address, 0, outside)
        }
        _ => {
            let (address, second) = lds(wave, step, transfer);
            (MemoryKind::Lds, address, second, 0)
        }
    };
    let destination = match step.dst[0] {
        Dest::Vgpr(first) => Destination::Vector(usize::from(first), usize::from(row.dst[0].ty.dwords())),
        _ => Destination::Nothing,
    };
    let data = data(wave, step);
    debug_assert!(!is_off(step.src[0]) || row.format != Format::Global, "a global address is never off");
    Ok(Some(Request {
        memory,
        transfer,
        exec,
        outside,
        address,
        second,
        poison: Vec::new(),
        reach: Reach::default(),
        data,
        destination,
    }))
}
