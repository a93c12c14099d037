//! A decoded instruction: operands by number, constants resolved.
//!
//! Not here: its handler (`handler.rs`), the cache of decoded instructions (`program.rs`).

use alloc::boxed::Box;
use alloc::vec::Vec;

use doorbell_isa::operand_kind::{Class, OperandKind, Type};
use doorbell_isa::{
    Access as Direction, Effects, Format, Inst, Lanes as Move, Operand, OutputModifier, Resource, Row,
    Special, Target, Timing,
};

use super::registers::{Lanes, PRIVATE_BASE, SHARED_BASE, VCC};
use super::transfer::{Transfer, transfer_of};
use super::wait::Wait;

/// A source operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// Vector registers from this one.
    Vgpr(u8),
    /// Scalar registers from this encoding number.
    Scalar(u8),
    /// A constant, as bits of the slot's type.
    Const(u64),
    /// Scalar condition code.
    Scc,
    /// A scalar register as one bit per lane.
    Mask(u8),
}

/// A destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dest {
    /// Nothing.
    None,
    /// Vector registers from this one.
    Vgpr(u8),
    /// Scalar registers from this encoding number.
    Scalar(u8),
}

/// Control flow after an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The following instruction.
    Following,
    /// Somewhere else; the program counter is set.
    Jumped,
    /// The wave stops for a while: barrier, end, sleep.
    Yields,
}

/// A decoded instruction.
#[derive(Clone)]
pub(crate) struct Step {
    /// The instruction.
    pub(crate) inst: Inst,
    /// Address.
    pub(crate) at: u64,
    /// Dwords.
    pub(crate) words: u8,
    /// Timing class.
    pub(crate) timing: Timing,
    /// Transfer of a memory instruction.
    pub(crate) transfer: Option<Transfer>,
    /// Counts of a wait instruction.
    pub(crate) wait: Option<Wait>,
    /// Destinations.
    pub(crate) dst: [Dest; 2],
    /// Sources in text order.
    pub(crate) src: [Source; 4],
    /// Sources used.
    pub(crate) sources: u8,
    /// No lane move, no modifier, no half register: operands go to the handler as they are.
    pub(crate) plain: bool,
    /// Some operand is a single, whose denormals MODE may flush.
    pub(crate) single: bool,
    /// Constant sources in every lane.
    pub(crate) splat: [Option<Box<Lanes>>; 3],
    /// Bits of a vector register that the instruction writes.
    pub(crate) written: u32,
    /// Encoding format.
    pub(crate) format: Format,
    /// Scalar base of an address.
    pub(crate) base: Option<Source>,
    /// Factor of the two offsets of an LDS instruction.
    pub(crate) stride: u32,
    /// Highest vector register named.
    pub(crate) highest: u16,
    /// The destination's old value is an input.
    pub(crate) reads_dst: bool,
    /// Registers read and written.
    pub(crate) effects: Vec<(Direction, Resource)>,
}

impl Step {
    /// The table row.
    #[inline]
    pub(crate) fn row(&self) -> &'static Row {
        self.inst.row()
    }

    /// Address of the next instruction.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.at.wrapping_add(u64::from(self.words) * 4)
    }

    /// First vector register of the first destination.
    #[inline]
    pub(crate) fn vdst(&self) -> usize {
        if let Dest::Vgpr(first) = self.dst[0] { usize::from(first) } else { 0 }
    }

    /// Vector register of a source.
    pub(crate) fn vsrc(&self, index: usize) -> Option<usize> {
        if let Source::Vgpr(first) = self.src[index] { Some(usize::from(first)) } else { None }
    }
}

/// Bits that a constant operand shows to a slot of this type.
fn constant(operand: Operand, ty: Type, half: bool) -> Option<u64> {
    let wide = matches!(ty, Type::B64 | Type::I64 | Type::U64 | Type::F64);
    Some(match operand {
        Operand::Int(value) if wide => i64::from(value).cast_unsigned(),
        Operand::Int(value) => u64::from(i32::from(value).cast_unsigned()),
        Operand::Float(float) => match ty {
            _ if wide && float.f32_bits() == 0x3e22_f983 => 0x3fc4_5f30_6dc9_c882,
            _ if wide => f64::from(f32::from_bits(float.f32_bits())).to_bits(),
            Type::F16 | Type::B16 | Type::I16 | Type::U16 | Type::PF16 => u64::from(float.f16_bits()),
            Type::BF16 | Type::PBF16 => u64::from(float.f32_bits() >> 16),
            Type::Mix if half => u64::from(float.f16_bits()),
            _ => u64::from(float.f32_bits()),
        },
        Operand::Literal(value) => match ty {
            Type::F64 => u64::from(value) << 32,
            Type::I64 => i64::from(value.cast_signed()).cast_unsigned(),
            _ => u64::from(value),
        },
        Operand::Immediate(value) => u64::from(value.cast_unsigned()),
        Operand::Special(special) => {
            let base = match special {
                Special::SharedBase => SHARED_BASE,
                Special::SharedLimit => SHARED_BASE + 0xffff_ffff,
                Special::PrivateBase => PRIVATE_BASE,
                Special::PrivateLimit => PRIVATE_BASE + 0xffff_ffff,
                Special::Scc => return None,
            };
            if wide { base } else { base >> 32 }
        }
        Operand::Off => u64::MAX,
        Operand::Vgpr(_) | Operand::Scalar(_) => return None,
    })
}

fn source(operand: Operand, ty: Type, half: bool) -> Source {
    match operand {
        Operand::Vgpr(reg) => Source::Vgpr(reg.first),
        Operand::Scalar(reg) => Source::Scalar(reg.first),
        other => constant(other, ty, half).map_or(Source::Scc, Source::Const),
    }
}

fn destination(operand: Operand) -> Dest {
    match operand {
        Operand::Vgpr(reg) => Dest::Vgpr(reg.first),
        Operand::Scalar(reg) => Dest::Scalar(reg.first),
        _ => Dest::None,
    }
}

/// Highest vector register that any operand names.
fn highest(inst: &Inst) -> u16 {
    let second = inst.second.iter().flat_map(|(_, operands)| operands.as_slice().iter());
    let operands = inst.operands.as_slice().iter().chain(second);
    operands
        .filter_map(|operand| operand.vgpr())
        .map(|reg| u16::from(reg.first) + u16::from(reg.count) - 1)
        .max()
        .unwrap_or(0)
}

fn is_plain(inst: &Inst) -> bool {
    let row = inst.row();
    let modifiers = inst.modifiers;
    let kinds = || row.dst.iter().chain(row.src);
    let simple = |kind: &OperandKind| {
        !kind.ty.is_half()
            && kind.ty != Type::Mix
            && !(row.format == Format::Vop3p
                && kind.ty != Type::B32
                && kind.ty != Type::I32
                && kind.ty != Type::U32)
    };
    inst.lanes == Move::Own
        && modifiers.neg == 0
        && modifiers.abs == 0
        && modifiers.op_sel == 0
        && !modifiers.clamp
        && modifiers.omod == OutputModifier::None
        && kinds().all(simple)
}

impl Step {
    /// Resolves the operands of an instruction at an address.
    pub(crate) fn new(inst: Inst, at: u64, words: u8, target: Target) -> Self {
        let row = inst.row();
        let mut step = Self {
            at,
            words,
            timing: row.timing,
            transfer: transfer_of(row),
            wait: Wait::of(&inst, target),
            dst: [Dest::None; 2],
            src: [Source::Const(0); 4],
            sources: 0,
            plain: is_plain(&inst) || (row.format == Format::Vop3p && dot_is_plain(&inst)),
            single: row.dst.iter().chain(row.src).any(|kind| kind.ty == Type::F32),
            splat: [None, None, None],
            written: written_bits(&inst),
            format: row.format,
            base: None,
            stride: if row.name.contains("stride64") { 64 } else { 1 },
            highest: highest(&inst),
            reads_dst: row.has(doorbell_isa::Flags::READS_DST),
            effects: Effects::of(&inst).iter().collect(),
            inst,
        };
        for (slot, operand) in step.dst.iter_mut().zip(inst.dst()) {
            *slot = destination(*operand);
        }
        let kinds = row.src.iter();
        for (index, (operand, kind)) in inst.src().iter().zip(kinds).enumerate().take(4) {
            let half = inst.modifiers.op_sel_hi >> index & 1 != 0;
            step.src[index] = match (source(*operand, kind.ty, half), kind.class) {
                (Source::Scalar(first), Class::Mask) => Source::Mask(first),
                (found, _) => found,
            };
            step.sources += 1;
        }
        step.base = row.src.iter().position(|kind| kind.class == Class::Base).map(|index| step.src[index]);
        // The halves of a dual-issue instruction read VCC without naming it.
        if row.format == Format::Vopd && row.has(doorbell_isa::Flags::VCC_IN) {
            step.src[2] = Source::Mask(VCC as u8);
            step.sources = 3;
        }
        for (slot, source) in step.splat.iter_mut().zip(step.src) {
            if let Source::Const(value) = source {
                *slot = Some(Box::new([value as u32; 32]));
            }
        }
        step
    }

    /// True if the instruction accesses a memory, so that its results arrive later.
    pub(crate) fn is_memory(&self) -> bool {
        matches!(
            self.row().format,
            Format::Smem | Format::Ds | Format::Global | Format::Flat | Format::Scratch | Format::Mubuf
        )
    }
}

/// Bits of a vector register that an instruction writes.
fn written_bits(inst: &Inst) -> u32 {
    let row = inst.row();
    match (row.name, row.dst.first()) {
        ("v_fma_mixhi_f16", _) => 0xffff_0000,
        ("v_fma_mixlo_f16", _) => 0xffff,
        (_, Some(kind)) if kind.ty.is_half() && row.is_vector() => {
            if inst.modifiers.op_sel & 8 != 0 {
                0xffff_0000
            } else {
                0xffff
            }
        }
        _ => u32::MAX,
    }
}

/// Integer dot products read sign selection from the modifiers themselves.
fn dot_is_plain(inst: &Inst) -> bool {
    let row = inst.row();
    row.src.iter().all(|kind| matches!(kind.ty, Type::B32 | Type::I32 | Type::U32))
}
