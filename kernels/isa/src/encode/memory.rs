//! Memory formats: SMEM, DS, FLAT/GLOBAL/SCRATCH and MUBUF, with the 96-bit forms of gfx12.

use super::{Code, destination, gfx11_cache, gfx12_cache, wide_memory};
use crate::chip::Target;
use crate::inst::Inst;
use crate::operand::Operand;
use crate::operand_kind::{Class, Immediate};
use crate::row::{Flags, Format};

/// Number of an absent scalar register.
pub(crate) const NULL: u32 = 124;

/// The first source of a class, if the row has one.
fn of_class(inst: &Inst, class: Class) -> Option<Operand> {
    inst.row().src.iter().zip(inst.src()).find(|(kind, _)| kind.class == class).map(|(_, operand)| *operand)
}

/// Register number of an operand; 0 for off.
fn register(operand: Option<Operand>) -> u32 {
    match operand {
        Some(Operand::Off) | None => 0,
        Some(operand) => operand.code() & 0xff,
    }
}

/// The n-th data source.
fn data(inst: &Inst, number: usize) -> u32 {
    let sources = inst.row().src.iter().zip(inst.src());
    register(sources.filter(|(kind, _)| kind.class == Class::Data).map(|(_, operand)| *operand).nth(number))
}

/// The vector address.
fn address(inst: &Inst) -> Option<Operand> {
    let sources = inst.row().src.iter().zip(inst.src());
    let mut addresses = sources.filter(|(kind, _)| {
        matches!(
            kind.class,
            Class::Vgpr | Class::GlobalAddress | Class::ScratchAddress | Class::BufferAddress
        )
    });
    addresses.next().map(|(_, operand)| *operand)
}

fn immediate(inst: &Inst, wanted: Immediate) -> u32 {
    match of_class(inst, Class::Immediate(wanted)) {
        Some(Operand::Immediate(value)) => value.cast_unsigned(),
        _ => 0,
    }
}

pub(super) fn smem(inst: &Inst, opcode: u32, target: Target) -> Code {
    let row = inst.row();
    let mut regs = row.src.iter().zip(inst.src()).filter(|(kind, _)| kind.class == Class::Register);
    let base = match row.src.first() {
        Some(kind) if kind.class == Class::Register => regs.next().map_or(0, |(_, operand)| operand.code()),
        _ => 0,
    };
    let offset_register = match of_class(inst, Class::ScalarOffset) {
        Some(operand) => operand.code(),
        None => regs.next().map_or(if row.src.is_empty() { 0 } else { NULL }, |(_, operand)| operand.code()),
    };
    let (data, offset) = if row.has(Flags::PREFETCH) {
        (immediate(inst, Immediate::Length), immediate(inst, Immediate::Offset24))
    } else {
        (destination(inst, 0), inst.memory.offset.cast_unsigned())
    };
    let fixed = (0x3d << 26) | (data << 6) | (base >> 1);
    if wide_memory(target) {
        let (scope, hint) = gfx12_cache(inst);
        let low = fixed | (opcode << 13) | (scope << 21) | (hint << 23);
        Code::new(&[low, (offset & 0xff_ffff) | (offset_register << 25)])
    } else {
        let (glc, _, dlc) = gfx11_cache(inst);
        let low = fixed | (opcode << 18) | (glc << 14) | (dlc << 13);
        Code::new(&[low, (offset & 0x1f_ffff) | (offset_register << 25)])
    }
}

pub(super) fn ds(inst: &Inst, opcode: u32) -> Code {
    let offset = inst.memory.offset.cast_unsigned() & 0xffff;
    Code::new(&[
        (0x36 << 26) | (opcode << 18) | offset,
        register(address(inst)) | (data(inst, 0) << 8) | (data(inst, 1) << 16) | (destination(inst, 0) << 24),
    ])
}

pub(super) fn flat(inst: &Inst, opcode: u32, target: Target) -> Code {
    let row = inst.row();
    let address = address(inst);
    let scratch_register =
        u32::from(row.format == Format::Scratch && matches!(address, Some(Operand::Vgpr(_))));
    let base = of_class(inst, Class::Base).map_or(NULL, |operand| operand.code());
    let offset = inst.memory.offset.cast_unsigned();
    if wide_memory(target) {
        let segment = match row.format {
            Format::Flat => 0xec,
            Format::Scratch => 0xed,
            _ => 0xee,
        };
        let (scope, hint) = gfx12_cache(inst);
        return Code::new(&[
            (segment << 24) | (opcode << 14) | base,
            (data(inst, 0) << 23)
                | (hint << 20)
                | (scope << 18)
                | (scratch_register << 17)
                | destination(inst, 0),
            ((offset & 0xff_ffff) << 8) | register(address),
        ]);
    }
    let segment = match row.format {
        Format::Flat => 0,
        Format::Scratch => 1,
        _ => 2,
    };
    let (glc, slc, dlc) = gfx11_cache(inst);
    let cache = (slc << 15) | (glc << 14) | (dlc << 13);
    Code::new(&[
        (0x37 << 26) | (opcode << 18) | (segment << 16) | cache | (offset & 0x1fff),
        (destination(inst, 0) << 24)
            | (scratch_register << 23)
            | (base << 16)
            | (data(inst, 0) << 8)
            | register(address),
    ])
}

pub(super) fn mubuf(inst: &Inst, opcode: u32, target: Target) -> Code {
    let row = inst.row();
    let memory = &inst.memory;
    let stored = if row.dst.is_empty() { data(inst, 0) } else { destination(inst, 0) };
    let resource = register(of_class(inst, Class::Register));
    let (offen, idxen) = (u32::from(memory.offen), u32::from(memory.idxen));
    let offset = memory.offset.cast_unsigned();
    if wide_memory(target) {
        let base = of_class(inst, Class::BufferOffset).map_or(NULL, |operand| operand.code());
        let (scope, hint) = gfx12_cache(inst);
        return Code::new(&[
            (0x31 << 26) | (opcode << 14) | base,
            (idxen << 31)
                | (offen << 30)
                | (1 << 23)
                | (hint << 20)
                | (scope << 18)
                | (resource << 9)
                | stored,
            ((offset & 0xff_ffff) << 8) | register(address(inst)),
        ]);
    }
    let base = of_class(inst, Class::BufferOffset).map_or(0, |operand| operand.code());
    let (glc, slc, dlc) = gfx11_cache(inst);
    Code::new(&[
        (0x38 << 26) | (opcode << 18) | (glc << 14) | (dlc << 13) | (slc << 12) | (offset & 0xfff),
        (base << 24)
            | (idxen << 23)
            | (offen << 22)
            | ((resource >> 2) << 16)
            | (stored << 8)
            | register(address(inst)),
    ])
}
