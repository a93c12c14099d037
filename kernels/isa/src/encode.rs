//! Instructions to machine code.
//!
//! Everything is checked first (`check.rs`); the functions here only place bits. Not here: the inverse (`decode`).

pub(crate) mod memory;
pub(crate) mod vector;

use crate::check::check;
use crate::chip::{Generation, Target};
use crate::error::EncodeError;
use crate::inst::{Cache, Inst};
use crate::operand::Operand;
use crate::operand_kind::{Class, Immediate};
use crate::row::{Format, Row};

/// Machine code of one instruction: one to three dwords.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Code {
    words: [u32; 3],
    len: u8,
}

impl Code {
    pub(crate) fn new(words: &[u32]) -> Self {
        let mut code = Self { words: [0; 3], len: 0 };
        for word in words {
            code.push(*word);
        }
        code
    }

    /// Appends a dword. Callers never append a fourth: no encoding has one.
    pub(crate) fn push(&mut self, word: u32) {
        if let Some(slot) = self.words.get_mut(usize::from(self.len)) {
            *slot = word;
            self.len += 1;
        }
    }

    /// The dwords.
    pub fn words(&self) -> &[u32] {
        &self.words[..usize::from(self.len)]
    }
}

/// Encodes one instruction for a target.
///
/// # Errors
///
/// The first property of the instruction that the target does not have.
pub fn encode(inst: &Inst, target: Target) -> Result<Code, EncodeError> {
    check(inst, target)?;
    let row = inst.row();
    let opcode = u32::from(row.opcode(target).unwrap_or_default());
    let mut code = match row.format {
        Format::Sop1 => sop1(inst, opcode),
        Format::Sop2 => sop2(inst, opcode),
        Format::Sopc => sopc(inst, opcode),
        Format::Sopk => sopk(inst, opcode),
        Format::Sopp => Code::new(&[(0x17f << 23) | (opcode << 16) | simm16(inst)]),
        Format::Smem => memory::smem(inst, opcode, target),
        Format::Vop1 | Format::Vop2 | Format::Vopc => vector::vop(inst, opcode),
        Format::Vop3 | Format::Vop3sd | Format::Vop3p => vector::vop3(inst, opcode),
        Format::Vopd => vector::vopd(inst, opcode, target),
        Format::Ds => memory::ds(inst, opcode),
        Format::Global | Format::Scratch | Format::Flat => memory::flat(inst, opcode, target),
        Format::Mubuf => memory::mubuf(inst, opcode, target),
    };
    let second = inst.second.as_ref().map_or(&[][..], |half| half.1.as_slice());
    let literal = inst.operands.as_slice().iter().chain(second).find_map(|operand| operand.literal());
    if let Some(literal) = literal {
        code.push(literal);
    }
    Ok(code)
}

/// Source number of the n-th source that has a field in the encoding (literal constants have none).
fn source(inst: &Inst, number: usize) -> u32 {
    let placed = inst.row().src.iter().zip(inst.src()).filter(|(kind, _)| kind.class != Class::Literal);
    placed.map(|(_, operand)| operand.code()).nth(number).unwrap_or(0)
}

/// Register number of the n-th destination (0 if there is none).
fn destination(inst: &Inst, number: usize) -> u32 {
    inst.dst().get(number).map_or(0, |operand| operand.code() & 0xff)
}

/// The 16-bit constant.
fn simm16(inst: &Inst) -> u32 {
    let constant = inst.operands.as_slice().iter().find_map(|operand| match operand {
        Operand::Immediate(value) => Some(value.cast_unsigned() & 0xffff),
        _ => None,
    });
    constant.unwrap_or(0)
}

fn sop1(inst: &Inst, opcode: u32) -> Code {
    let message = matches!(
        inst.row(),
        Row {
            src: [crate::operand_kind::OperandKind { class: Class::Immediate(Immediate::MessageReturn), .. }],
            ..
        }
    );
    let src = if message { simm16(inst) } else { source(inst, 0) };
    Code::new(&[(0x17d << 23) | (destination(inst, 0) << 16) | (opcode << 8) | src])
}

fn sop2(inst: &Inst, opcode: u32) -> Code {
    let sources = (source(inst, 1) << 8) | source(inst, 0);
    Code::new(&[(1 << 31) | (opcode << 23) | (destination(inst, 0) << 16) | sources])
}

fn sopc(inst: &Inst, opcode: u32) -> Code {
    Code::new(&[(0x17e << 23) | (opcode << 16) | (source(inst, 1) << 8) | source(inst, 0)])
}

fn sopk(inst: &Inst, opcode: u32) -> Code {
    let register = inst.operands.as_slice().iter().find_map(|operand| operand.scalar());
    let register = register.map_or(0, |reg| u32::from(reg.first));
    Code::new(&[(0xb << 28) | (opcode << 23) | (register << 16) | simm16(inst)])
}

/// gfx11 cache bits: (glc, slc, dlc).
fn gfx11_cache(inst: &Inst) -> (u32, u32, u32) {
    match inst.memory.cache {
        Cache::Gfx11 { glc, slc, dlc } => (u32::from(glc), u32::from(slc), u32::from(dlc)),
        Cache::Gfx12 { .. } => (0, 0, 0),
    }
}

/// gfx12 cache fields: (scope, temporal hint).
fn gfx12_cache(inst: &Inst) -> (u32, u32) {
    match inst.memory.cache {
        Cache::Gfx12 { scope, hint } => (scope as u32, u32::from(hint)),
        Cache::Gfx11 { .. } => (0, 0),
    }
}

/// True if the target has the 96-bit memory forms.
fn wide_memory(target: Target) -> bool {
    target.generation() == Generation::Gfx12
}
