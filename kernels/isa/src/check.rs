//! The check that an instruction exists on a chip: operand classes, widths, alignment, literals, constant bus,
//! modifiers, offsets, cache bits, dual-issue rules.
//!
//! After a successful check, encoding cannot fail. Not here: the bits (`encode`).

use crate::chip::{Generation, Target};
use crate::error::{EncodeError, Problem};
use crate::inst::{Cache, DppControl, Form, Inst, Lanes, OutputModifier, Scope, is_mix};
use crate::operand::{InlineFloat, Operand, Scalar, Vgpr};
use crate::operand_kind::{Class, Immediate, OperandKind, Type};
use crate::row::{Flags, Format, Op, Row};

/// Checks an instruction against its row and the target.
pub(crate) fn check(inst: &Inst, target: Target) -> Result<(), EncodeError> {
    let fail = |problem| EncodeError { op: inst.op, problem };
    let row = inst.row();
    if row.opcode(target).is_none() {
        return Err(fail(Problem::Absent(target)));
    }
    check_form(inst).map_err(fail)?;
    check_lanes(inst).map_err(fail)?;
    check_operands(inst, target).map_err(fail)?;
    check_constants(inst).map_err(fail)?;
    check_modifiers(inst).map_err(fail)?;
    check_memory(inst, target).map_err(fail)?;
    if row.format == Format::Vopd {
        check_dual(inst, target)?;
    } else if inst.second.is_some() {
        return Err(fail(Problem::Dual));
    }
    Ok(())
}

fn check_form(inst: &Inst) -> Result<(), Problem> {
    if inst.form == Form::Long && !inst.row().has_two_forms() { Err(Problem::Form) } else { Ok(()) }
}

fn check_lanes(inst: &Inst) -> Result<(), Problem> {
    let row = inst.row();
    let in_range = match inst.lanes {
        Lanes::Own => return Ok(()),
        Lanes::Dpp16(dpp) => {
            let control = match dpp.control {
                DppControl::QuadPerm(select) => select.iter().all(|lane| *lane < 4),
                DppControl::RowShl(n) | DppControl::RowShr(n) | DppControl::RowRor(n) => (1..16).contains(&n),
                DppControl::RowShare(n) | DppControl::RowXmask(n) => n < 16,
                DppControl::RowMirror | DppControl::RowHalfMirror => true,
            };
            control && dpp.row_mask < 16 && dpp.bank_mask < 16
        }
        Lanes::Dpp8 { select, .. } => select.iter().all(|lane| *lane < 8),
    };
    if row.has(Flags::DPP) && in_range { Ok(()) } else { Err(Problem::Lanes) }
}

/// Properties of the whole instruction that restrict its operands.
struct Context<'a> {
    inst: &'a Inst,
    row: &'a Row,
    generation: Generation,
    /// 32-bit encoding of a vector format.
    short: bool,
}

fn check_operands(inst: &Inst, target: Target) -> Result<(), Problem> {
    let row = inst.row();
    let operands = inst.operands.as_slice();
    let expected = inst.kinds().count();
    if operands.len() != expected {
        return Err(Problem::Arity { expected, found: operands.len() });
    }
    let short = inst.form == Form::Short
        && matches!(row.format, Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vopd);
    let context = Context { inst, row, generation: target.generation(), short };
    for (index, (kind, operand)) in inst.kinds().zip(operands).enumerate() {
        let source = index.checked_sub(inst.dst().len());
        if !context.fits(kind, *operand, source) {
            return Err(Problem::Operand { index, kind, found: *operand });
        }
    }
    Ok(())
}

impl Context<'_> {
    /// True if an operand fits its slot; `source` is the number of the source, `None` for destinations.
    fn fits(&self, kind: OperandKind, operand: Operand, source: Option<usize>) -> bool {
        match kind.class {
            Class::Data => self.fits_data(kind.ty, operand, source),
            Class::Vgpr => fits_vgpr(operand, kind.ty.dwords()),
            Class::Accumulator => {
                let inline = is_inline(operand) && operand != Operand::Float(InlineFloat::InverseTwoPi);
                fits_vgpr(operand, kind.ty.dwords()) || inline
            }
            Class::Scalar => match source {
                Some(_) => fits_scalar(operand, 1) || is_constant(operand, self.allows_literal(), kind.ty),
                None => fits_scalar(operand, 1) && !is_exec(operand),
            },
            Class::Lane => fits_scalar(operand, 1) || is_inline(operand),
            Class::Mask => match self.short {
                true => operand == Operand::VCC_LO,
                false => fits_scalar(operand, 1) && (source.is_none() || !is_exec(operand)),
            },
            Class::Register => match (operand, kind.ty.dwords()) {
                (Operand::Scalar(reg), 2..) => reg != Scalar::NULL && fits_scalar(operand, kind.ty.dwords()),
                _ => fits_scalar(operand, kind.ty.dwords()),
            },
            Class::Null => operand == Operand::NULL,
            Class::Literal => match (operand, kind.ty.is_half()) {
                (Operand::Literal(value), half) => !half || value <= 0xffff,
                _ => false,
            },
            Class::GlobalAddress => {
                let scalar = self.inst.operands.as_slice().last() != Some(&Operand::Off);
                fits_vgpr(operand, if scalar { 1 } else { 2 })
            }
            Class::ScratchAddress => operand == Operand::Off || fits_vgpr(operand, 1),
            Class::BufferAddress => match u8::from(self.inst.memory.offen) + u8::from(self.inst.memory.idxen)
            {
                0 => operand == Operand::Off,
                count => fits_vgpr(operand, count),
            },
            Class::Base | Class::ScalarOffset => {
                operand == Operand::Off
                    || (operand != Operand::NULL
                        && operand != Operand::Scalar(Scalar::EXEC_HI)
                        && fits_scalar(operand, kind.ty.dwords()))
            }
            Class::BufferOffset => {
                fits_scalar(operand, 1) || (self.generation != Generation::Gfx12 && is_inline_int(operand))
            }
            Class::Barrier => operand == Operand::Scalar(Scalar::M0) || is_inline_int(operand),
            Class::Immediate(immediate) => fits_immediate(immediate, operand),
        }
    }

    fn fits_data(&self, ty: Type, operand: Operand, source: Option<usize>) -> bool {
        let count = ty.dwords();
        match self.row.format {
            Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk | Format::Sopp => match source {
                None => fits_scalar(operand, count),
                Some(_) => {
                    // The disassembler writes half constants of comparisons as plain bits.
                    let bits = self.row.format == Format::Sopc && ty == Type::F16;
                    let constant =
                        is_constant(operand, true, ty) && !(bits && matches!(operand, Operand::Float(_)));
                    fits_scalar(operand, count) || constant
                }
            },
            Format::Smem => match operand {
                // The assembler takes three dwords in general registers only.
                Operand::Scalar(reg) => {
                    reg.first < if count == 3 { 106 } else { 124 } && fits_scalar(operand, count)
                }
                _ => false,
            },
            Format::Ds | Format::Global | Format::Scratch | Format::Flat | Format::Mubuf => {
                fits_vgpr(operand, count)
            }
            _ => self.fits_vector(ty, operand, source),
        }
    }

    fn fits_vector(&self, ty: Type, operand: Operand, source: Option<usize>) -> bool {
        let in_reach = !(self.short && ty.is_half()) || operand.vgpr().is_none_or(|reg| reg.first < 128);
        let vgpr = fits_vgpr(operand, ty.dwords()) && in_reach;
        let Some(source) = source else { return vgpr };
        if vgpr {
            return true;
        }
        let moved = self.inst.lanes != Lanes::Own;
        let vectors_only = moved && self.row.has(Flags::NEG_C);
        let scalar_allowed = match source {
            _ if vectors_only => false,
            0 => !moved,
            // Scalar second sources of lane moves: gfx11.5 and later, except the mixed-precision instructions.
            1 if moved => !self.short && self.generation != Generation::Gfx11 && !is_mix(self.row),
            _ => !self.short,
        };
        scalar_allowed
            && (fits_scalar(operand, ty.dwords()) || is_constant(operand, self.allows_literal(), ty))
    }

    fn allows_literal(&self) -> bool {
        self.inst.lanes == Lanes::Own
    }
}

fn fits_vgpr(operand: Operand, count: u8) -> bool {
    match operand {
        Operand::Vgpr(Vgpr { first, count: found }) => {
            found == count && u16::from(first) + u16::from(count) <= 256
        }
        _ => false,
    }
}

fn fits_scalar(operand: Operand, count: u8) -> bool {
    match operand {
        Operand::Scalar(reg) => reg.is_valid() && (reg.count == count || reg == Scalar::NULL),
        _ => false,
    }
}

fn is_exec(operand: Operand) -> bool {
    matches!(operand, Operand::Scalar(Scalar { first: 126 | 127, .. }))
}

fn is_inline_int(operand: Operand) -> bool {
    matches!(operand, Operand::Int(-16..=64))
}

fn is_inline(operand: Operand) -> bool {
    is_inline_int(operand) || matches!(operand, Operand::Float(_))
}

fn is_constant(operand: Operand, literal: bool, ty: Type) -> bool {
    match operand {
        Operand::Literal(value) => literal && ty != Type::Mix && (!ty.is_half() || value <= 0xffff),
        Operand::Special(_) => true,
        Operand::Float(_) => !matches!(ty, Type::B16 | Type::I16 | Type::U16),
        _ => is_inline(operand),
    }
}

fn fits_immediate(immediate: Immediate, operand: Operand) -> bool {
    let Operand::Immediate(value) = operand else { return false };
    match immediate {
        Immediate::Branch => i16::try_from(value).is_ok(),
        Immediate::MessageReturn => u8::try_from(value).is_ok(),
        Immediate::Length => (0..32).contains(&value),
        Immediate::Offset24 => (-0x80_0000..0x80_0000).contains(&value),
        _ => u16::try_from(value).is_ok(),
    }
}

/// One literal value per instruction; at most two scalar values over the constant bus of a vector instruction.
fn check_constants(inst: &Inst) -> Result<(), Problem> {
    let row = inst.row();
    let mut bus = Bus { scalars: [Operand::Off; 4], used: 0, literal: None, widths: [false; 2] };
    bus.half(row, inst.src())?;
    if let Some((op, operands)) = &inst.second {
        bus.half(op.row(), operands.as_slice().get(op.row().dst.len()..).unwrap_or(&[]))?;
    }
    let used = bus.used + bus.widths.iter().filter(|used| **used).count();
    let limit = if shifts_64(row) { 1 } else { 2 };
    if row.is_vector() && used > limit { Err(Problem::ConstantBus { used, limit }) } else { Ok(()) }
}

/// Scalar values that a vector instruction reads.
struct Bus {
    scalars: [Operand; 4],
    used: usize,
    literal: Option<u32>,
    /// A literal is read as 32 bits or fewer, as 64 bits; each counts.
    widths: [bool; 2],
}

impl Bus {
    fn note(&mut self, operand: Operand) {
        if !self.scalars.iter().take(self.used).any(|other| *other == operand) {
            if let Some(slot) = self.scalars.get_mut(self.used) {
                *slot = operand;
            }
            self.used += 1;
        }
    }

    fn half(&mut self, row: &Row, sources: &[Operand]) -> Result<(), Problem> {
        if row.has(Flags::VCC_IN) {
            // The pair stands for the implicit read, which counts beside an explicit one.
            self.note(Operand::Scalar(Scalar::VCC));
        }
        for (kind, operand) in row.src.iter().zip(sources) {
            match operand {
                Operand::Literal(value) => {
                    if self.literal.is_some_and(|other| other != *value) {
                        return Err(Problem::TwoLiterals);
                    }
                    self.literal = Some(*value);
                    self.widths[usize::from(kind.ty.dwords() == 2)] = true;
                }
                Operand::Scalar(reg) if *reg != Scalar::NULL => self.note(*operand),
                Operand::Special(_) => self.note(*operand),
                _ => {}
            }
        }
        Ok(())
    }
}

/// 64-bit shifts read one scalar value only.
fn shifts_64(row: &Row) -> bool {
    matches!(row.name, "v_lshlrev_b64" | "v_lshrrev_b64" | "v_ashrrev_i64")
}

/// Masks of the sources that take a modifier.
struct Allowed {
    /// Negation; of packed instructions, negation of the low half.
    neg: u8,
    /// Absolute value; of packed instructions, negation of the high half.
    abs: u8,
    /// Half select, bit 3 for the destination.
    op_sel: u8,
}

impl Allowed {
    /// `long`: the instruction has 64 bits.
    fn of(inst: &Inst, long: bool) -> Self {
        let row = inst.row();
        let signs = sign_mask(row);
        let neg = match (long, inst.lanes) {
            (true, _) => signs,
            (false, Lanes::Dpp16(_)) => signs & 0b11,
            (false, _) => 0,
        };
        // LLVM prints the absolute value of the source before a lane mask in a way it does not read back.
        let before_mask = !long && matches!(row.src, [_, _, OperandKind { class: Class::Mask, .. }]);
        let abs = match row.format == Format::Vop3sd || row.has(Flags::SIGNED) {
            true => 0,
            false if before_mask => neg & 0b01,
            false => neg,
        };
        let op_sel = match row.format {
            Format::Vop3p if row.has(Flags::OPSEL) => (1u8 << row.src.len()) - 1,
            Format::Vop3p => 0,
            _ if row.has(Flags::OPSEL) && long => op_sel_mask(row),
            _ => 0,
        };
        Self { neg, abs, op_sel }
    }
}

/// Sources that take a sign in the 64-bit form.
fn sign_mask(row: &Row) -> u8 {
    (0u8..).zip(row.src).fold(0u8, |mask, (bit, kind)| {
        let takes = match row.format {
            Format::Vop3p if is_mix(row) => true,
            Format::Vop3p => {
                let index = row.has(Flags::MATRIX) && kind.class == Class::Vgpr && bit == 2;
                (row.has(Flags::NEG) && !index)
                    || (row.has(Flags::NEG_C) && bit == 2)
                    || (row.has(Flags::SIGNED) && bit < 2)
            }
            _ => matches!(kind.class, Class::Data | Class::Scalar) && kind.ty.takes_sign(),
        };
        mask | (u8::from(takes) << bit)
    })
}

fn check_modifiers(inst: &Inst) -> Result<(), Problem> {
    let row = inst.row();
    let modifiers = &inst.modifiers;
    let long = match row.format {
        Format::Vop1 | Format::Vop2 | Format::Vopc => inst.form == Form::Long,
        Format::Vop3 | Format::Vop3sd | Format::Vop3p => true,
        _ => false,
    };
    let allowed = Allowed::of(inst, long);
    let signed_literal = (0u8..).zip(row.src).zip(inst.src()).any(|((bit, kind), operand)| {
        let mark = (modifiers.neg | modifiers.abs) & (1 << bit) != 0;
        mark && kind.ty == Type::F64 && operand.literal().is_some()
    });
    let packed = row.format == Format::Vop3p;
    let high_ok = if packed && row.has(Flags::OPSEL) {
        modifiers.op_sel_hi < 8 && (row.src.len() == 3 || modifiers.op_sel_hi & 0b100 != 0)
    } else {
        modifiers.op_sel_hi == crate::inst::Modifiers::default_of(row).op_sel_hi
    };
    let ok = !signed_literal
        && modifiers.neg & !allowed.neg == 0
        && modifiers.abs & !allowed.abs == 0
        && modifiers.op_sel & !allowed.op_sel == 0
        && high_ok
        && (!modifiers.clamp || (long && row.has(Flags::CLAMP)))
        && (modifiers.omod == OutputModifier::None || (long && row.has(Flags::OMOD)));
    if ok { Ok(()) } else { Err(Problem::Modifier) }
}

/// Bits of op_sel that mean something: one per 16-bit source, bit 3 for the destination.
pub(crate) fn op_sel_mask(row: &Row) -> u8 {
    if matches!(row.src, [OperandKind { class: Class::Vgpr, .. }, ..]) {
        return 0b11; // lane permutes: fetch inactive, bound control
    }
    if matches!(row.src, [OperandKind { ty: Type::PF16 | Type::PBF16, .. }, ..]) {
        return 0b1100; // 16-bit dot products: accumulator and result
    }
    if row.name.starts_with("v_cvt_pk_fp8") || row.name.starts_with("v_cvt_pk_bf8") {
        return 0b1000;
    }
    if row.format == Format::Vop1 {
        return 0b1;
    }
    0b1000 | (0u8..).zip(row.src).fold(0, |mask, (bit, kind)| mask | (u8::from(kind.ty.is_half()) << bit))
}

fn check_memory(inst: &Inst, target: Target) -> Result<(), Problem> {
    let row = inst.row();
    let memory = &inst.memory;
    let gfx12 = target.generation() == Generation::Gfx12;
    let signed = |bits: u32| -(1i32 << (bits - 1))..1i32 << (bits - 1);
    let range = match row.format {
        Format::Ds => 0..0x1_0000,
        Format::Global | Format::Scratch if gfx12 => signed(24),
        Format::Flat if gfx12 => signed(24),
        Format::Global | Format::Scratch => signed(13),
        Format::Flat => 0..0x1000,
        Format::Smem if gfx12 => signed(24),
        Format::Smem => signed(21),
        Format::Mubuf if gfx12 => 0..0x80_0000,
        Format::Mubuf => 0..0x1000,
        _ => 0..1,
    };
    let range = match (row.format, row.src) {
        (Format::Smem, [OperandKind { ty: Type::B128, .. }, ..]) => 0..range.end,
        _ => range,
    };
    let no_address = row.src.is_empty() || row.has(Flags::PREFETCH);
    if !range.contains(&memory.offset) || (no_address && memory.offset != 0) {
        return Err(Problem::Offset { found: memory.offset });
    }
    if !cache_fits(inst, gfx12) {
        return Err(Problem::Cache);
    }
    if (memory.offen || memory.idxen)
        && !matches!(row.src, [.., OperandKind { class: Class::BufferOffset, .. }])
    {
        return Err(Problem::Modifier);
    }
    Ok(())
}

/// True if the instruction takes its cache bits.
fn cache_fits(inst: &Inst, gfx12: bool) -> bool {
    let row = inst.row();
    let cached =
        matches!(row.format, Format::Global | Format::Scratch | Format::Flat | Format::Mubuf | Format::Smem)
            && !row.has(Flags::PREFETCH);
    match inst.memory.cache {
        cache if cache.is_plain() => true,
        Cache::Gfx11 { slc, .. } => {
            let bare = matches!(row.format, Format::Mubuf | Format::Smem) && row.src.is_empty();
            cached && !gfx12 && !bare && (!slc || row.format != Format::Smem)
        }
        Cache::Gfx12 { scope, hint } => {
            let bare = row.format == Format::Smem && row.src.is_empty();
            let hints = match row.format {
                Format::Smem => 4,
                _ if row.has(Flags::ATOMIC) => 4,
                _ if row.has(Flags::STORE) => 8,
                _ => 7,
            };
            // The value 3 means bypass in system scope, which atomics do not have.
            let bypass = row.has(Flags::ATOMIC) && hint == 3 && scope == Scope::System;
            cached && gfx12 && !bare && hint < hints && !bypass
        }
    }
}

/// Registers of one dual-issue half, by the port that reads or writes them.
struct Ports {
    dst: Option<u8>,
    src0: Option<u8>,
    src1: Option<u8>,
    src2: Option<u8>,
}

fn ports(op: Op, operands: &[Operand]) -> Ports {
    let row = op.row();
    let vgpr = |index: usize| operands.get(index).and_then(|operand| operand.vgpr()).map(|reg| reg.first);
    let dst = vgpr(0);
    let src2 = if row.has(Flags::READS_DST) { dst } else { vgpr(3) };
    Ports { dst, src0: vgpr(1), src1: vgpr(2), src2 }
}

/// Dual-issue rules: an even and an odd destination, different register banks per source port.
fn check_dual(inst: &Inst, target: Target) -> Result<(), EncodeError> {
    let fail = |problem| EncodeError { op: inst.op, problem };
    let Some((second, operands)) = inst.second else { return Err(fail(Problem::Dual)) };
    let row = second.row();
    let x_opcode = inst.row().opcode(target);
    if row.format != Format::Vopd || x_opcode.is_none_or(|code| code >= 16) {
        return Err(fail(Problem::Dual));
    }
    if row.opcode(target).is_none() {
        return Err(EncodeError { op: second, problem: Problem::Absent(target) });
    }
    let half = Inst::with_operands(second, operands);
    check_operands(&half, target).map_err(|problem| EncodeError { op: second, problem })?;
    let x = ports(inst.op, inst.operands.as_slice());
    let y = ports(second, operands.as_slice());
    let clash = |a: Option<u8>, b: Option<u8>, mask: u8| match (a, b) {
        (Some(a), Some(b)) => a & mask == b & mask,
        _ => false,
    };
    let moves = inst.row().src.len() == 1 && row.src.len() == 1;
    let free = moves && target.generation() == Generation::Gfx12;
    if clash(x.dst, y.dst, 1)
        || (!free && (clash(x.src0, y.src0, 3) || clash(x.src1, y.src1, 3) || clash(x.src2, y.src2, 1)))
    {
        return Err(fail(Problem::Banks));
    }
    Ok(())
}
