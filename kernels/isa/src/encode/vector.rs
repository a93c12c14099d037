//! Vector formats: VOP1, VOP2, VOPC, VOP3, VOP3SD, VOP3P, VOPD, and the dword of a lane move.

use super::{Code, destination, source};
use crate::chip::Target;
use crate::index::{VOP1_LONG, VOP2_LONG};
use crate::inst::{Dpp16, DppControl, Form, Inst, Lanes};
use crate::operand::{Operand, Scalar};
use crate::operand_kind::Class;
use crate::row::{Flags, Format, Op};

/// Source number that announces a DPP16 dword.
pub(crate) const DPP16_CODE: u32 = 0xfa;
/// Source number that announces a DPP8 dword.
pub(crate) const DPP8_CODE: u32 = 0xe9;
/// The same, reading inactive lanes.
pub(crate) const DPP8_FI_CODE: u32 = 0xea;

/// Source number that stands for the first source, and the dword of the lane move.
fn lane_move(inst: &Inst, short: bool) -> Option<(u32, u32)> {
    let register = source(inst, 0) & 0xff;
    match inst.lanes {
        Lanes::Own => None,
        Lanes::Dpp16(dpp) => {
            let (neg, abs) = if short { (inst.modifiers.neg, inst.modifiers.abs) } else { (0, 0) };
            let sign = |mask: u8, bit: u32| u32::from(mask >> bit) & 1;
            let signs = sign(neg, 0) << 20 | sign(abs, 0) << 21 | sign(neg, 1) << 22 | sign(abs, 1) << 23;
            Some((DPP16_CODE, dpp16(&dpp) | signs | register))
        }
        Lanes::Dpp8 { select, fetch_inactive } => {
            let code = if fetch_inactive { DPP8_FI_CODE } else { DPP8_CODE };
            let lanes = select.iter().rev().fold(0u32, |bits, lane| (bits << 3) | u32::from(*lane));
            Some((code, (lanes << 8) | register))
        }
    }
}

fn dpp16(dpp: &Dpp16) -> u32 {
    let control = match dpp.control {
        DppControl::QuadPerm(select) => {
            select.iter().rev().fold(0u32, |bits, lane| (bits << 2) | u32::from(*lane))
        }
        DppControl::RowShl(n) => 0x100 + u32::from(n),
        DppControl::RowShr(n) => 0x110 + u32::from(n),
        DppControl::RowRor(n) => 0x120 + u32::from(n),
        DppControl::RowMirror => 0x140,
        DppControl::RowHalfMirror => 0x141,
        DppControl::RowShare(n) => 0x150 + u32::from(n),
        DppControl::RowXmask(n) => 0x160 + u32::from(n),
    };
    (control << 8)
        | (u32::from(dpp.fetch_inactive) << 18)
        | (u32::from(dpp.bound_ctrl) << 19)
        | (u32::from(dpp.bank_mask) << 24)
        | (u32::from(dpp.row_mask) << 28)
}

/// VOP1, VOP2 and VOPC in either form.
pub(super) fn vop(inst: &Inst, opcode: u32) -> Code {
    let format = inst.row().format;
    if inst.form == Form::Long {
        let base = match format {
            Format::Vop1 => VOP1_LONG,
            Format::Vop2 => VOP2_LONG,
            _ => 0,
        };
        return vop3(inst, opcode + u32::from(base));
    }
    let moved = lane_move(inst, true);
    let src0 = moved.map_or(source(inst, 0), |(code, _)| code);
    let dst = destination(inst, 0);
    let word = match format {
        Format::Vop1 => (0x3f << 25) | (dst << 17) | (opcode << 9) | src0,
        Format::Vop2 => (opcode << 25) | (dst << 17) | ((source(inst, 1) & 0xff) << 9) | src0,
        _ => (0x3e << 25) | (opcode << 17) | ((source(inst, 1) & 0xff) << 9) | src0,
    };
    let mut code = Code::new(&[word]);
    if let Some((_, dword)) = moved {
        code.push(dword);
    }
    code
}

/// The 64-bit vector forms.
pub(super) fn vop3(inst: &Inst, opcode: u32) -> Code {
    let row = inst.row();
    let modifiers = &inst.modifiers;
    let moved = lane_move(inst, false);
    let src0 = moved.map_or(source(inst, 0), |(code, _)| code);
    let dst = if row.format == Format::Vopc && row.has(Flags::EXEC_OUT) {
        u32::from(Scalar::EXEC_LO.first)
    } else {
        destination(inst, 0)
    };
    let packed = row.format == Format::Vop3p;
    let marker = if packed { 0xcc << 24 } else { 0x35 << 26 };
    let high = u32::from(modifiers.op_sel_hi);
    let mut low = marker
        | (opcode << 16)
        | (u32::from(modifiers.clamp) << 15)
        | (u32::from(modifiers.op_sel) << 11)
        | (u32::from(modifiers.abs) << 8)
        | dst;
    let mut second =
        (u32::from(modifiers.neg) << 29) | (source(inst, 2) << 18) | (source(inst, 1) << 9) | src0;
    if packed {
        low |= (high >> 2) << 14;
        second |= (high & 3) << 27;
    } else {
        second |= (modifiers.omod as u32) << 27;
    }
    if row.format == Format::Vop3sd || (row.format == Format::Vop2 && inst.dst().len() == 2) {
        low |= destination(inst, 1) << 8;
    }
    let mut code = Code::new(&[low, second]);
    if let Some((_, dword)) = moved {
        code.push(dword);
    }
    code
}

/// Fields of one dual-issue half.
struct Half {
    dst: u32,
    src0: u32,
    vsrc1: u32,
}

impl Half {
    fn of(op: Op, operands: &[Operand]) -> Self {
        let placed = op.row().src.iter().zip(operands.iter().skip(1));
        let mut sources =
            placed.filter(|(kind, _)| kind.class != Class::Literal).map(|(_, operand)| operand.code());
        let dst = operands.first().map_or(0, |operand| operand.code() & 0xff);
        Self { dst, src0: sources.next().unwrap_or(0), vsrc1: sources.next().unwrap_or(0) & 0xff }
    }
}

/// Dual issue.
pub(super) fn vopd(inst: &Inst, opcode: u32, target: Target) -> Code {
    let Some((op, operands)) = inst.second else { return Code::new(&[]) };
    let x = Half::of(inst.op, inst.operands.as_slice());
    let y = Half::of(op, operands.as_slice());
    let opcode_y = u32::from(op.row().opcode(target).unwrap_or_default());
    Code::new(&[
        (0x32 << 26) | (opcode << 22) | (opcode_y << 17) | (x.vsrc1 << 9) | x.src0,
        (x.dst << 24) | ((y.dst >> 1) << 17) | (y.vsrc1 << 9) | y.src0,
    ])
}
