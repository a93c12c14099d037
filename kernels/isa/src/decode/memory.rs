//! Memory formats.

use super::{Words, gfx11_cache, gfx12_cache, returns, scalar, sign_extend};
use crate::chip::{Generation, Target};
use crate::error::DecodeError;
use crate::index;
use crate::inst::{Cache, Inst, Memory, Operands};
use crate::operand::{Operand, v_range};
use crate::operand_kind::{Class, Immediate, OperandKind};
use crate::row::{Flags, Format, Op};

type Decoded = Result<(Option<Inst>, Op), DecodeError>;

/// Fields that the memory formats share, wherever they sit.
#[derive(Clone, Copy)]
struct Fields {
    dst: u32,
    address: u32,
    data: [u32; 2],
    /// Scalar base or offset register.
    base: u32,
    /// Scalar registers of a buffer resource or scalar-memory base.
    resource: u32,
    /// Scratch: the address is a register.
    address_used: bool,
    memory: Memory,
}

fn vgpr(code: u32, count: u8) -> Option<Operand> {
    Some(v_range(u8::try_from(code).ok()?, count))
}

fn optional_scalar(code: u32, count: u8) -> Option<Operand> {
    if code == crate::encode::memory::NULL { Some(Operand::Off) } else { scalar(code, count) }
}

impl Fields {
    fn operand(&self, kind: OperandKind, data: &mut usize) -> Option<Operand> {
        let count = kind.ty.dwords();
        match kind.class {
            Class::Data => {
                let code = *self.data.get(*data)?;
                *data += 1;
                vgpr(code, count)
            }
            Class::Vgpr => vgpr(self.address, count),
            Class::GlobalAddress => {
                vgpr(self.address, if self.base == crate::encode::memory::NULL { 2 } else { 1 })
            }
            Class::ScratchAddress if !self.address_used => Some(Operand::Off),
            Class::ScratchAddress => vgpr(self.address, 1),
            Class::BufferAddress => match u8::from(self.memory.offen) + u8::from(self.memory.idxen) {
                0 => Some(Operand::Off),
                count => vgpr(self.address, count),
            },
            Class::Base | Class::ScalarOffset => optional_scalar(self.base, count),
            Class::BufferOffset => Operand::from_code(u16::try_from(self.base).ok()?, 1, None),
            Class::Register => scalar(self.resource, count),
            _ => None,
        }
    }

    fn inst(&self, op: Op) -> Option<Inst> {
        let row = op.row();
        let mut list = Operands::EMPTY;
        if returns(op, self.memory.cache) || row.format == Format::Ds {
            for kind in row.dst {
                let operand = match row.format {
                    Format::Smem => scalar(self.dst, kind.ty.dwords()),
                    _ => vgpr(self.dst, kind.ty.dwords()),
                };
                list.push(operand?);
            }
        }
        let mut data = 0;
        for kind in row.src {
            list.push(self.operand(*kind, &mut data)?);
        }
        let mut inst = Inst::with_operands(op, list);
        inst.memory = self.memory;
        Some(inst)
    }
}

/// SMEM, FLAT, GLOBAL, SCRATCH and MUBUF by their marker bits.
pub(super) fn decode(words: Words<'_>, first: u32, target: Target) -> Decoded {
    let unknown = DecodeError::Unknown { word: first };
    let gfx12 = target.generation() == Generation::Gfx12;
    let bits = |low: u32, count: u32| (first >> low) & ((1 << count) - 1);
    if first >> 26 == 0x3d {
        let opcode = if gfx12 { bits(13, 6) } else { bits(18, 8) };
        let op = index::SMEM.get(target, opcode).ok_or(unknown)?;
        return smem(words, op, gfx12);
    }
    let (index, opcode) = match (gfx12, first >> 26, first >> 24) {
        (true, _, 0xec) => (&index::FLAT, bits(14, 8)),
        (true, _, 0xed) => (&index::SCRATCH, bits(14, 8)),
        (true, _, 0xee) => (&index::GLOBAL, bits(14, 8)),
        (true, 0x31, _) => (&index::MUBUF, bits(14, 8)),
        (false, 0x37, _) => match bits(16, 2) {
            0 => (&index::FLAT, bits(18, 7)),
            1 => (&index::SCRATCH, bits(18, 7)),
            2 => (&index::GLOBAL, bits(18, 7)),
            _ => return Err(unknown),
        },
        (false, 0x38, _) => (&index::MUBUF, bits(18, 8)),
        _ => return Err(unknown),
    };
    let op = index.get(target, opcode).ok_or(unknown)?;
    let fields = match (gfx12, op.row().format) {
        (true, Format::Mubuf) => wide_buffer(words)?,
        (true, _) => wide_flat(words)?,
        (false, Format::Mubuf) => buffer(words)?,
        (false, _) => flat(words)?,
    };
    Ok((fields.inst(op), op))
}

pub(super) fn ds(words: Words<'_>, op: Op) -> Decoded {
    let fields = Fields {
        dst: words.bits(1, 24, 8)?,
        address: words.bits(1, 0, 8)?,
        data: [words.bits(1, 8, 8)?, words.bits(1, 16, 8)?],
        base: 0,
        resource: 0,
        address_used: true,
        memory: Memory { offset: words.bits(0, 0, 16)?.cast_signed(), ..Memory::PLAIN },
    };
    Ok((fields.inst(op), op))
}

fn smem(words: Words<'_>, op: Op, gfx12: bool) -> Decoded {
    let row = op.row();
    let (offset, cache) = if gfx12 {
        let cache = gfx12_cache(words.bits(0, 21, 2)?, words.bits(0, 23, 2)?);
        (sign_extend(words.bits(1, 0, 24)?, 24), cache)
    } else {
        let cache = gfx11_cache(words.bits(0, 14, 1)?, 0, words.bits(0, 13, 1)?);
        (sign_extend(words.bits(1, 0, 21)?, 21), cache)
    };
    let base = words.bits(1, 25, 7)?;
    let data = words.bits(0, 6, 7)?;
    let resource = words.bits(0, 0, 6)? << 1;
    if row.has(Flags::PREFETCH) {
        let mut list = Operands::EMPTY;
        let mut registers = [base, resource].into_iter();
        if matches!(row.src.first(), Some(OperandKind { class: Class::Register, .. })) {
            registers = [resource, base].into_iter();
        }
        for kind in row.src {
            let operand = match kind.class {
                Class::Immediate(Immediate::Length) => Some(Operand::Immediate(data.cast_signed())),
                Class::Immediate(_) => Some(Operand::Immediate(offset)),
                _ => scalar(registers.next().unwrap_or(0), kind.ty.dwords()),
            };
            let Some(operand) = operand else { return Ok((None, op)) };
            list.push(operand);
        }
        return Ok((Some(Inst::with_operands(op, list)), op));
    }
    let memory = Memory { offset, cache, ..Memory::PLAIN };
    let fields = Fields { dst: data, address: 0, data: [0; 2], base, resource, address_used: true, memory };
    Ok((fields.inst(op), op))
}

fn flat(words: Words<'_>) -> Result<Fields, DecodeError> {
    let cache = gfx11_cache(words.bits(0, 14, 1)?, words.bits(0, 15, 1)?, words.bits(0, 13, 1)?);
    let offset = words.bits(0, 0, 13)?;
    let is_flat = words.bits(0, 16, 2)? == 0;
    let offset = if is_flat { offset.cast_signed() } else { sign_extend(offset, 13) };
    Ok(Fields {
        dst: words.bits(1, 24, 8)?,
        address: words.bits(1, 0, 8)?,
        data: [words.bits(1, 8, 8)?, 0],
        base: words.bits(1, 16, 7)?,
        resource: 0,
        address_used: words.bits(1, 23, 1)? != 0,
        memory: Memory { offset, cache, ..Memory::PLAIN },
    })
}

fn wide_flat(words: Words<'_>) -> Result<Fields, DecodeError> {
    Ok(Fields {
        dst: words.bits(1, 0, 8)?,
        address: words.bits(2, 0, 8)?,
        data: [words.bits(1, 23, 8)?, 0],
        base: words.bits(0, 0, 7)?,
        resource: 0,
        address_used: words.bits(1, 17, 1)? != 0,
        memory: Memory {
            offset: sign_extend(words.bits(2, 8, 24)?, 24),
            cache: gfx12_cache(words.bits(1, 18, 2)?, words.bits(1, 20, 3)?),
            ..Memory::PLAIN
        },
    })
}

/// Buffer fields; stored data and loaded results share one field.
fn buffer_fields(stored: u32, address: u32, base: u32, resource: u32, memory: Memory) -> Fields {
    Fields { dst: stored, address, data: [stored, 0], base, resource, address_used: true, memory }
}

fn buffer(words: Words<'_>) -> Result<Fields, DecodeError> {
    let cache: Cache = gfx11_cache(words.bits(0, 14, 1)?, words.bits(0, 12, 1)?, words.bits(0, 13, 1)?);
    let memory = Memory {
        offset: words.bits(0, 0, 12)?.cast_signed(),
        cache,
        offen: words.bits(1, 22, 1)? != 0,
        idxen: words.bits(1, 23, 1)? != 0,
    };
    let resource = words.bits(1, 16, 5)? << 2;
    Ok(buffer_fields(words.bits(1, 8, 8)?, words.bits(1, 0, 8)?, words.bits(1, 24, 8)?, resource, memory))
}

fn wide_buffer(words: Words<'_>) -> Result<Fields, DecodeError> {
    let memory = Memory {
        offset: words.bits(2, 8, 24)?.cast_signed(),
        cache: gfx12_cache(words.bits(1, 18, 2)?, words.bits(1, 20, 3)?),
        offen: words.bits(1, 30, 1)? != 0,
        idxen: words.bits(1, 31, 1)? != 0,
    };
    let resource = words.bits(1, 9, 9)?;
    Ok(buffer_fields(words.bits(1, 0, 8)?, words.bits(2, 0, 8)?, words.bits(0, 0, 7)?, resource, memory))
}
