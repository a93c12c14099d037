//! Vector formats.

use super::{Words, source};
use crate::chip::Target;
use crate::encode::vector::{DPP8_CODE, DPP8_FI_CODE, DPP16_CODE};
use crate::error::DecodeError;
use crate::index;
use crate::inst::{Dpp16, DppControl, Form, Inst, Lanes, Operands, OutputModifier};
use crate::operand::{Operand, v_range};
use crate::operand_kind::{Class, OperandKind};
use crate::row::{Format, Op};

type Decoded = Result<(Option<Inst>, Op), DecodeError>;

/// The register of a 32-bit encoding's vector field, with the high bit of 16-bit registers left to the check.
fn vgpr(code: u32, kind: OperandKind) -> Option<Operand> {
    Some(v_range(u8::try_from(code & 0xff).ok()?, kind.ty.dwords()))
}

/// Destination register of a vector field: a VGPR, or a scalar register for scalar results.
fn result(code: u32, kind: OperandKind) -> Option<Operand> {
    match kind.class {
        Class::Scalar | Class::Mask => super::scalar(code & 0x7f, 1).filter(|_| code < 128),
        _ => vgpr(code, kind),
    }
}

/// Lane move announced by a source number, with the register of the first source and the sign bits.
fn lanes(words: Words<'_>, src0: u32, at: usize) -> Result<Option<(Lanes, u32, u32)>, DecodeError> {
    match src0 {
        DPP16_CODE => {
            let dword = words.get(at)?;
            Ok(dpp16(dword).map(|dpp| (Lanes::Dpp16(dpp), dword & 0xff, (dword >> 20) & 0xf)))
        }
        DPP8_CODE | DPP8_FI_CODE => {
            let dword = words.get(at)?;
            let mut select = [0; 8];
            for (lane, shift) in select.iter_mut().zip((8..).step_by(3)) {
                *lane = ((dword >> shift) & 7) as u8;
            }
            Ok(Some((Lanes::Dpp8 { select, fetch_inactive: src0 == DPP8_FI_CODE }, dword & 0xff, 0)))
        }
        _ => Ok(Some((Lanes::Own, src0, 0))),
    }
}

fn dpp16(dword: u32) -> Option<Dpp16> {
    let control = (dword >> 8) & 0x1ff;
    let lane = (control & 0xf) as u8;
    let control = match control {
        0..=0xff => {
            let mut select = [0; 4];
            for (slot, shift) in select.iter_mut().zip((0..).step_by(2)) {
                *slot = ((control >> shift) & 3) as u8;
            }
            DppControl::QuadPerm(select)
        }
        0x101..=0x10f => DppControl::RowShl(lane),
        0x111..=0x11f => DppControl::RowShr(lane),
        0x121..=0x12f => DppControl::RowRor(lane),
        0x140 => DppControl::RowMirror,
        0x141 => DppControl::RowHalfMirror,
        0x150..=0x15f => DppControl::RowShare(lane),
        0x160..=0x16f => DppControl::RowXmask(lane),
        _ => return None,
    };
    Some(Dpp16 {
        control,
        row_mask: (dword >> 28) as u8,
        bank_mask: ((dword >> 24) & 0xf) as u8,
        bound_ctrl: dword & (1 << 19) != 0,
        fetch_inactive: dword & (1 << 18) != 0,
    })
}

pub(super) fn vop1(words: Words<'_>, op: Op) -> Decoded {
    let dst = words.bits(0, 17, 8)?;
    short(words, op, dst, 0)
}

pub(super) fn vop2(words: Words<'_>, op: Op) -> Decoded {
    let dst = words.bits(0, 17, 8)?;
    let vsrc1 = words.bits(0, 9, 8)?;
    short(words, op, dst, vsrc1)
}

pub(super) fn vopc(words: Words<'_>, op: Op) -> Decoded {
    let vsrc1 = words.bits(0, 9, 8)?;
    short(words, op, u32::from(crate::operand::Scalar::VCC_LO.first), vsrc1)
}

/// VOP1, VOP2 and VOPC in 32 bits.
fn short(words: Words<'_>, op: Op, dst: u32, vsrc1: u32) -> Decoded {
    let row = op.row();
    let src0 = words.bits(0, 0, 9)?;
    let Some((lanes, first, signs)) = lanes(words, src0, 1)? else { return Ok((None, op)) };
    let first = if lanes == Lanes::Own { first } else { first | 256 };
    let mut list = Operands::EMPTY;
    let mut codes = [first, vsrc1 | 256].into_iter();
    for (index, kind) in row.dst.iter().enumerate() {
        let operand = if index == 0 { result(dst, *kind) } else { Some(Operand::VCC_LO) };
        let Some(operand) = operand else { return Ok((None, op)) };
        list.push(operand);
    }
    for kind in row.src {
        let operand = match kind.class {
            Class::Mask => Some(Operand::VCC_LO),
            Class::Literal => Some(Operand::Literal(words.get(1)?)),
            _ => source(words, codes.next().unwrap_or(0), *kind, 1)?,
        };
        let Some(operand) = operand else { return Ok((None, op)) };
        list.push(operand);
    }
    let mut inst = Inst::with_operands(op, list).lanes(lanes);
    let pick = |low: u32| (((signs >> low) & 1) | ((signs >> (low + 1)) & 2)) as u8;
    inst.modifiers.neg = pick(0);
    inst.modifiers.abs = pick(1);
    Ok((Some(inst), op))
}

/// The 64-bit vector forms.
pub(super) fn vop3(words: Words<'_>, op: Op) -> Decoded {
    let row = op.row();
    let src0 = words.bits(1, 0, 9)?;
    let codes = [words.bits(1, 9, 9)?, words.bits(1, 18, 9)?];
    let Some((lanes, first, _)) = lanes(words, src0, 2)? else { return Ok((None, op)) };
    let first = if lanes == Lanes::Own { first } else { first | 256 };
    let mut codes = [first, codes[0], codes[1]].into_iter();
    let mut list = Operands::EMPTY;
    for (index, kind) in row.dst.iter().enumerate() {
        let code = if index == 0 { words.bits(0, 0, 8)? } else { words.bits(0, 8, 7)? };
        let Some(operand) = result(code, *kind) else { return Ok((None, op)) };
        list.push(operand);
    }
    for kind in row.src {
        let Some(operand) = source(words, codes.next().unwrap_or(0), *kind, 2)? else {
            return Ok((None, op));
        };
        list.push(operand);
    }
    let mut inst = Inst::with_operands(op, list).lanes(lanes);
    let packed = row.format == Format::Vop3p;
    if matches!(row.format, Format::Vop1 | Format::Vop2 | Format::Vopc) {
        inst.form = Form::Long;
    }
    let modifiers = &mut inst.modifiers;
    modifiers.neg = words.bits(1, 29, 3)? as u8;
    modifiers.clamp = words.bits(0, 15, 1)? != 0;
    if row.dst.len() < 2 {
        modifiers.abs = words.bits(0, 8, 3)? as u8;
        modifiers.op_sel = words.bits(0, 11, if packed { 3 } else { 4 })? as u8;
    }
    if packed {
        modifiers.op_sel_hi = (words.bits(1, 27, 2)? | (words.bits(0, 14, 1)? << 2)) as u8;
    } else {
        modifiers.omod = match words.bits(1, 27, 2)? {
            0 => OutputModifier::None,
            1 => OutputModifier::Double,
            2 => OutputModifier::Quadruple,
            _ => OutputModifier::Half,
        };
    }
    Ok((Some(inst), op))
}

/// Operands of one dual-issue half.
fn half(words: Words<'_>, op: Op, dst: u32, src0: u32, vsrc1: u32) -> Result<Option<Operands>, DecodeError> {
    let row = op.row();
    let mut list = Operands::EMPTY;
    let mut codes = [src0, vsrc1 | 256].into_iter();
    for kind in row.dst {
        let Some(operand) = vgpr(dst, *kind) else { return Ok(None) };
        list.push(operand);
    }
    for kind in row.src {
        let operand = match kind.class {
            Class::Literal => Some(Operand::Literal(words.get(2)?)),
            _ => source(words, codes.next().unwrap_or(0), *kind, 2)?,
        };
        let Some(operand) = operand else { return Ok(None) };
        list.push(operand);
    }
    Ok(Some(list))
}

pub(super) fn vopd(words: Words<'_>, target: Target, unknown: DecodeError) -> Decoded {
    let x = index::VOPD.get(target, words.bits(0, 22, 4)?).ok_or(unknown)?;
    let y = index::VOPD.get(target, words.bits(0, 17, 5)?).ok_or(unknown)?;
    let dst_x = words.bits(1, 24, 8)?;
    let dst_y = (words.bits(1, 17, 7)? << 1) | ((dst_x & 1) ^ 1);
    let first = half(words, x, dst_x, words.bits(0, 0, 9)?, words.bits(0, 9, 8)?)?;
    let second = half(words, y, dst_y, words.bits(1, 0, 9)?, words.bits(1, 9, 8)?)?;
    let (Some(first), Some(second)) = (first, second) else { return Ok((None, x)) };
    Ok((Some(Inst { second: Some((y, second)), ..Inst::with_operands(x, first) }), x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Flags;

    #[test]
    fn comparisons_to_exec_have_no_destination() {
        for op in Op::all().filter(|op| op.row().has(Flags::EXEC_OUT) && op.row().format == Format::Vopc) {
            assert!(op.row().dst.is_empty(), "{op:?}");
        }
    }
}
