//! Assembly text as LLVM 19's assembler reads it and its disassembler prints it.
//!
//! Text is for people, golden files and the comparison with LLVM. Not here: parsing.

mod immediate;
mod memory;

use core::fmt::{self, Display as _};

use crate::check::op_sel_mask;
use crate::chip::{Generation, Target};
use crate::inst::{DppControl, Form, Inst, Lanes, Modifiers, OutputModifier, is_mix};
use crate::operand::{InlineFloat, Operand};
use crate::operand_kind::{Class, OperandKind};
use crate::row::{Flags, Format, Op, Row};

/// An instruction as text for one target; made by [`Inst::text`].
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    inst: &'a Inst,
    target: Target,
}

impl Inst {
    /// The instruction as assembly text. Some names of messages and hardware registers differ by target.
    pub fn text(&self, target: Target) -> Text<'_> {
        Text { inst: self, target }
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inst = self.inst;
        mnemonic(f, inst)?;
        if inst.row().format == Format::Smem {
            return memory::smem(f, inst, self.target);
        }
        self.operands(f)?;
        if let Some((op, operands)) = &inst.second {
            write!(f, " :: {}", op.name())?;
            plain_operands(f, *op, operands.as_slice())?;
        }
        modifiers(f, inst)?;
        lanes(f, &inst.lanes)?;
        memory::modifiers(f, inst)
    }
}

fn mnemonic(f: &mut fmt::Formatter<'_>, inst: &Inst) -> fmt::Result {
    let row = inst.row();
    f.write_str(row.name)?;
    let vector_64 = matches!(row.format, Format::Vop3 | Format::Vop3sd | Format::Vop3p);
    f.write_str(match (inst.lanes != Lanes::Own, inst.form, row.has_two_forms()) {
        (true, Form::Long, _) => "_e64_dpp",
        (true, ..) if vector_64 => "_e64_dpp",
        (true, ..) if row.format == Format::Vopc => "", // the disassembler names no form here
        (true, ..) => "_dpp",
        (false, Form::Long, _) => "_e64",
        (false, Form::Short, true) => "_e32",
        (false, ..) => "",
    })
}

/// Operands without source modifiers.
fn plain_operands(f: &mut fmt::Formatter<'_>, op: Op, operands: &[Operand]) -> fmt::Result {
    let row = op.row();
    for (index, (kind, operand)) in row.dst.iter().chain(row.src).zip(operands).enumerate() {
        f.write_str(if index == 0 { " " } else { ", " })?;
        value(f, *kind, *operand)?;
    }
    Ok(())
}

/// An operand in its slot. A literal with the value of an inline constant is printed like that constant, as the
/// disassembler does; constants that are part of the operation are not.
fn value(f: &mut fmt::Formatter<'_>, kind: OperandKind, operand: Operand) -> fmt::Result {
    match operand {
        Operand::Float(InlineFloat::InverseTwoPi) if kind.ty.dwords() == 2 => {
            f.write_str("0.15915494309189532")
        }
        Operand::Literal(bits) if kind.class != Class::Literal && kind.ty.dwords() == 1 => {
            literal(f, kind, bits)
        }
        operand => operand.fmt(f),
    }
}

fn literal(f: &mut fmt::Formatter<'_>, kind: OperandKind, bits: u32) -> fmt::Result {
    let half = (bits & 0xffff) as u16;
    let (int, float) = match kind.ty.is_half() {
        true => (i32::from(half.cast_signed()), InlineFloat::from_f16_bits(half)),
        false => (bits.cast_signed(), InlineFloat::from_f32_bits(bits)),
    };
    match (int, float) {
        (-16..=64, _) => int.fmt(f),
        (_, Some(float)) => f.write_str(float.text()),
        _ => write!(f, "0x{bits:x}"),
    }
}

impl Text<'_> {
    fn operands(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inst = self.inst;
        let row = inst.row();
        let packed = row.format == Format::Vop3p && !is_mix(row);
        let sources_at = inst.dst().len();
        let mut separator = " ";
        for (index, (kind, operand)) in inst.kinds().zip(inst.operands.as_slice()).enumerate() {
            if let (Class::Immediate(immediate), Operand::Immediate(constant)) = (kind.class, *operand) {
                immediate::print(f, immediate, constant, separator, self.target)?;
                separator = ", ";
                continue;
            }
            f.write_str(separator)?;
            separator = ", ";
            match index.checked_sub(sources_at) {
                Some(source) if !packed => {
                    let bit = |mask: u8| source < 8 && mask & (1 << source) != 0;
                    signed(f, kind, *operand, bit(inst.modifiers.neg), bit(inst.modifiers.abs))?;
                }
                _ => value(f, kind, *operand)?,
            }
        }
        Ok(())
    }
}

/// A source with negation and absolute value.
fn signed(
    f: &mut fmt::Formatter<'_>,
    kind: OperandKind,
    operand: Operand,
    neg: bool,
    abs: bool,
) -> fmt::Result {
    let constant = matches!(operand, Operand::Int(_) | Operand::Float(_) | Operand::Literal(_));
    let (open, close) = match (neg, abs) {
        (false, false) => ("", ""),
        (false, true) => ("|", "|"),
        (true, false) if constant => ("neg(", ")"),
        (true, false) => ("-", ""),
        (true, true) => ("-|", "|"),
    };
    f.write_str(open)?;
    value(f, kind, operand)?;
    f.write_str(close)
}

/// A bit list such as ` op_sel:[0,1]`, not written when it has its default value.
fn bits(f: &mut fmt::Formatter<'_>, name: &str, mask: u8, count: usize, default: u8) -> fmt::Result {
    let used = (1u8 << count) - 1;
    if mask & used == default & used {
        return Ok(());
    }
    write!(f, " {name}:[")?;
    for bit in 0..count {
        write!(f, "{}{}", if bit == 0 { "" } else { "," }, (mask >> bit) & 1)?;
    }
    f.write_str("]")
}

fn modifiers(f: &mut fmt::Formatter<'_>, inst: &Inst) -> fmt::Result {
    let row = inst.row();
    let set = &inst.modifiers;
    let sources = row.src.len();
    if row.format == Format::Vop3p {
        let default = Modifiers::default_of(row);
        bits(f, "op_sel", set.op_sel, sources, 0)?;
        bits(f, "op_sel_hi", set.op_sel_hi, sources, default.op_sel_hi)?;
        if !is_mix(row) {
            bits(f, "neg_lo", set.neg, sources, 0)?;
            bits(f, "neg_hi", set.abs, sources, 0)?;
        }
    } else if row.has(Flags::OPSEL) {
        op_sel(f, row, set.op_sel)?;
    }
    if set.clamp {
        f.write_str(" clamp")?;
    }
    f.write_str(match set.omod {
        OutputModifier::None => "",
        OutputModifier::Double => " mul:2",
        OutputModifier::Quadruple => " mul:4",
        OutputModifier::Half => " div:2",
    })
}

/// Half selects of a VOP3 instruction: one bit per source, then the destination.
fn op_sel(f: &mut fmt::Formatter<'_>, row: &Row, mask: u8) -> fmt::Result {
    // The accumulator of v_fmac_f16 counts as a source.
    let sources = row.src.len() + usize::from(row.format == Format::Vop2);
    if op_sel_mask(row) == 0b11 {
        return bits(f, "op_sel", mask, 2, 0);
    }
    let moved = (mask & ((1 << sources) - 1)) | (((mask >> 3) & 1) << sources);
    bits(f, "op_sel", moved, sources + 1, 0)
}

fn list(f: &mut fmt::Formatter<'_>, name: &str, items: &[u8]) -> fmt::Result {
    write!(f, " {name}:[")?;
    for (index, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if index == 0 { "" } else { "," })?;
    }
    f.write_str("]")
}

fn lanes(f: &mut fmt::Formatter<'_>, lanes: &Lanes) -> fmt::Result {
    match lanes {
        Lanes::Own => Ok(()),
        Lanes::Dpp8 { select, fetch_inactive } => {
            list(f, "dpp8", select)?;
            f.write_str(if *fetch_inactive { " fi:1" } else { "" })
        }
        Lanes::Dpp16(dpp) => {
            match dpp.control {
                DppControl::QuadPerm(select) => list(f, "quad_perm", &select)?,
                DppControl::RowShl(n) => write!(f, " row_shl:{n}")?,
                DppControl::RowShr(n) => write!(f, " row_shr:{n}")?,
                DppControl::RowRor(n) => write!(f, " row_ror:{n}")?,
                DppControl::RowMirror => f.write_str(" row_mirror")?,
                DppControl::RowHalfMirror => f.write_str(" row_half_mirror")?,
                DppControl::RowShare(n) => write!(f, " row_share:{n}")?,
                DppControl::RowXmask(n) => write!(f, " row_xmask:{n}")?,
            }
            write!(f, " row_mask:0x{:x} bank_mask:0x{:x}", dpp.row_mask, dpp.bank_mask)?;
            f.write_str(if dpp.bound_ctrl { " bound_ctrl:1" } else { "" })?;
            f.write_str(if dpp.fetch_inactive { " fi:1" } else { "" })
        }
    }
}

/// True if the target prints gfx12 names.
fn is_gfx12(target: Target) -> bool {
    target.generation() == Generation::Gfx12
}
