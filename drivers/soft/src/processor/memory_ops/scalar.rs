//! Scalar loads.
//!
//! Not here: prefetches and invalidations, which move no data.

use alloc::vec::Vec;

use doorbell_isa::operand_kind::Class;

use super::super::fault::Cause;
use super::super::request::Reach;
use super::super::request::{Destination, MemoryKind, Request};
use super::super::step::{Dest, Source, Step};
use super::super::transfer::Transfer;
use super::super::wave::Wave;

/// Address of a scalar load, and true if it lies outside its buffer. The low two bits of dword loads are ignored.
pub(super) fn address(wave: &Wave, step: &Step) -> Result<(u64, bool), Cause> {
    let row = step.row();
    let transfer = step.transfer.ok_or(Cause::Unsupported("scalar load without a transfer"))?;
    let Source::Scalar(base) = step.src[0] else {
        return Err(Cause::Unsupported("scalar base outside the registers"));
    };
    let is_buffer = row.name.starts_with("s_buffer");
    let base_value = wave.scalar64(usize::from(base));
    let register = row.src.iter().position(|kind| kind.class == Class::ScalarOffset);
    let offset = match register.map(|index| step.src[index]) {
        Some(Source::Scalar(number)) => u64::from(wave.scalar(usize::from(number))),
        _ => 0,
    };
    let offset = offset.wrapping_add_signed(step.inst.memory.offset.into());
    let small = matches!(transfer, Transfer::LoadSmall { .. });
    let align = if small { 0 } else { 3 };
    Ok(if is_buffer {
        let base48 = base_value & 0xffff_ffff_ffff;
        let stride = base_value >> 48 & 0x3fff;
        let records = u64::from(wave.scalar(usize::from(base) + 2));
        let size = if stride == 0 { records } else { records * stride };
        let offset = offset & !align;
        let end = offset.checked_add(transfer.bytes() as u64);
        (base48.wrapping_add(offset), end.is_none_or(|end| end > size))
    } else {
        (base_value.wrapping_add(offset) & !align, false)
    })
}

/// The request of a scalar load.
pub(super) fn request(wave: &Wave, step: &Step) -> Result<Request, Cause> {
    let transfer = step.transfer.ok_or(Cause::Unsupported("scalar load without a transfer"))?;
    let small = matches!(transfer, Transfer::LoadSmall { .. });
    let (address, outside) = address(wave, step)?;
    let Dest::Scalar(first) = step.dst[0] else {
        return Err(Cause::Unsupported("scalar load without a destination"));
    };
    let count = if small { 1 } else { transfer.bytes() / 4 };
    Ok(Request {
        memory: MemoryKind::Scalar,
        transfer,
        exec: 1,
        outside: u32::from(outside),
        address: [address; 32],
        second: 0,
        data: Vec::new(),
        poison: Vec::new(),
        reach: Reach::default(),
        destination: Destination::Scalar(usize::from(first), count),
    })
}
