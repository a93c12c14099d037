//! Machine code to instructions.
//!
//! Fields are read by format and row; the result is encoded again and must give the same dwords, so whatever
//! decodes is an instruction that `encode` accepts. Not here: the inverse (`encode`), text (`print`).

mod memory;
mod vector;

use crate::chip::Target;
use crate::encode::encode;
use crate::error::DecodeError;
use crate::index;
use crate::inst::{Cache, Inst, Operands, Scope};
use crate::operand::{Operand, Scalar};
use crate::operand_kind::{Class, Immediate, OperandKind};
use crate::row::{Flags, Op};

/// The dwords from the start of an instruction on. A missing one is an error when it is read.
#[derive(Clone, Copy)]
struct Words<'a>(&'a [u32]);

impl Words<'_> {
    fn get(self, index: usize) -> Result<u32, DecodeError> {
        self.0.get(index).copied().ok_or(DecodeError::Truncated {
            op: None,
            needed: index + 1,
            found: self.0.len(),
        })
    }

    /// Bits `low` to `low + count` of a dword.
    fn bits(self, index: usize, low: u32, count: u32) -> Result<u32, DecodeError> {
        Ok((self.get(index)? >> low) & ((1 << count) - 1))
    }
}

/// Decodes the first instruction of `words`; the second value is its length in dwords.
///
/// # Errors
///
/// If the words end inside the instruction, or are not an instruction of the table on this target.
pub fn decode(words: &[u32], target: Target) -> Result<(Inst, usize), DecodeError> {
    whole(words, target).map_err(|error| match error {
        DecodeError::Truncated { needed, found, .. } => {
            DecodeError::Truncated { op: truncated_op(words, target), needed, found }
        }
        other => other,
    })
}

/// The instruction of which `words` are the beginning: missing dwords count as zero.
fn truncated_op(words: &[u32], target: Target) -> Option<Op> {
    let mut padded = [0; 4];
    for (to, from) in padded.iter_mut().zip(words) {
        *to = *from;
    }
    let (_, op) = fields(Words(&padded), *words.first()?, target).ok()?;
    Some(op)
}

fn whole(words: &[u32], target: Target) -> Result<(Inst, usize), DecodeError> {
    let words = Words(words);
    let first = words.get(0)?;
    let (inst, op) = fields(words, first, target)?;
    let inst = inst.ok_or(DecodeError::Field { op, word: first })?;
    let code = encode(&inst, target).map_err(|_| DecodeError::Field { op, word: first })?;
    let length = code.words().len();
    if words.0.get(..length) != Some(code.words()) {
        return Err(match words.0.len() < length {
            true => DecodeError::Truncated { op: Some(op), needed: length, found: words.0.len() },
            false => DecodeError::Field { op, word: first },
        });
    }
    Ok((inst, length))
}

/// Finds the format by the marker bits and reads its fields. The instruction is `None` if a field has a value that
/// stands for no operand.
fn fields(words: Words<'_>, first: u32, target: Target) -> Result<(Option<Inst>, Op), DecodeError> {
    let unknown = DecodeError::Unknown { word: first };
    let find = |op: Option<Op>| op.ok_or(unknown);
    let bits = |low: u32, count: u32| (first >> low) & ((1 << count) - 1);
    if first >> 31 == 0 {
        return match first >> 25 {
            0x3f => vector::vop1(words, find(index::VOP1.get(target, bits(9, 8)))?),
            0x3e => vector::vopc(words, find(index::VOPC.get(target, bits(17, 8)))?),
            opcode => vector::vop2(words, find(index::VOP2.get(target, opcode))?),
        };
    }
    if first >> 30 == 0b10 {
        return match first >> 23 {
            0x17d => sop1(words, find(index::SOP1.get(target, bits(8, 8)))?),
            0x17e => sopc(words, find(index::SOPC.get(target, bits(16, 7)))?),
            0x17f => {
                let op = find(index::SOPP.get(target, bits(16, 7)))?;
                Ok((constant_operands(words, op, None)?, op))
            }
            _ if first >> 28 == 0b1011 => sopk(words, find(index::SOPK.get(target, bits(23, 5)))?),
            _ => sop2(words, find(index::SOP2.get(target, bits(23, 7)))?),
        };
    }
    match first >> 26 {
        0x32 => vector::vopd(words, target, unknown),
        0x33 if first >> 24 == 0xcc => vector::vop3(words, find(index::VOP3P.get(target, bits(16, 7)))?),
        0x35 => vector::vop3(words, find(index::VOP3.get(target, bits(16, 10)))?),
        0x36 => memory::ds(words, find(index::DS.get(target, bits(18, 8)))?),
        _ => memory::decode(words, first, target),
    }
}

/// The operand of a source number; `literal_at` is the dword that a literal would be.
fn source(
    words: Words<'_>,
    code: u32,
    kind: OperandKind,
    literal_at: usize,
) -> Result<Option<Operand>, DecodeError> {
    let literal = if code == crate::operand::LITERAL_CODE { Some(words.get(literal_at)?) } else { None };
    let count = kind.ty.dwords();
    Ok(u16::try_from(code).ok().and_then(|code| Operand::from_code(code, count, literal)))
}

/// Scalar registers by encoding number.
fn scalar(code: u32, count: u8) -> Option<Operand> {
    let first = u8::try_from(code).ok()?;
    Some(if first == Scalar::NULL.first { Operand::NULL } else { Operand::Scalar(Scalar { first, count }) })
}

fn collect(op: Op, operands: &[Option<Operand>]) -> Option<Inst> {
    let mut list = Operands::EMPTY;
    for operand in operands {
        list.push((*operand)?);
    }
    Some(Inst::with_operands(op, list))
}

fn sop1(words: Words<'_>, op: Op) -> Result<(Option<Inst>, Op), DecodeError> {
    let row = op.row();
    let code = words.bits(0, 0, 8)?;
    let mut list = [None; 2];
    let mut count = 0;
    if let Some(kind) = row.dst.first() {
        list[count] = scalar(words.bits(0, 16, 7)?, kind.ty.dwords());
        count += 1;
    }
    if let Some(kind) = row.src.first() {
        list[count] = match kind.class {
            Class::Immediate(_) => Some(Operand::Immediate(code.cast_signed())),
            _ => source(words, code, *kind, 1)?,
        };
        count += 1;
    }
    Ok((collect(op, &list[..count]), op))
}

fn sop2(words: Words<'_>, op: Op) -> Result<(Option<Inst>, Op), DecodeError> {
    let row = op.row();
    let mut list = Operands::EMPTY;
    let mut codes = [words.bits(0, 0, 8)?, words.bits(0, 8, 8)?].into_iter();
    for kind in row.dst {
        let Some(operand) = scalar(words.bits(0, 16, 7)?, kind.ty.dwords()) else { return Ok((None, op)) };
        list.push(operand);
    }
    for kind in row.src {
        let operand = match kind.class {
            Class::Literal => Some(Operand::Literal(words.get(1)?)),
            _ => source(words, codes.next().unwrap_or(0), *kind, 1)?,
        };
        let Some(operand) = operand else { return Ok((None, op)) };
        list.push(operand);
    }
    Ok((Some(Inst::with_operands(op, list)), op))
}

fn sopc(words: Words<'_>, op: Op) -> Result<(Option<Inst>, Op), DecodeError> {
    let codes = [words.bits(0, 0, 8)?, words.bits(0, 8, 8)?];
    let mut list = [None; 2];
    for ((slot, code), kind) in list.iter_mut().zip(codes).zip(op.row().src) {
        *slot = source(words, code, *kind, 1)?;
    }
    Ok((collect(op, &list), op))
}

fn sopk(words: Words<'_>, op: Op) -> Result<(Option<Inst>, Op), DecodeError> {
    let register = words.bits(0, 16, 7)?;
    Ok((constant_operands(words, op, Some(register))?, op))
}

/// Operands of SOPK and SOPP: at most one register, one constant, one literal.
fn constant_operands(words: Words<'_>, op: Op, register: Option<u32>) -> Result<Option<Inst>, DecodeError> {
    let row = op.row();
    let simm16 = (words.get(0)? & 0xffff) as u16;
    let mut list = Operands::EMPTY;
    for kind in row.dst.iter().chain(row.src) {
        let operand = match kind.class {
            Class::Literal => Some(Operand::Literal(words.get(1)?)),
            Class::Immediate(Immediate::Branch) => Some(Operand::Immediate(simm16.cast_signed().into())),
            Class::Immediate(_) => Some(Operand::Immediate(simm16.into())),
            _ => scalar(register.unwrap_or(0), kind.ty.dwords()),
        };
        let Some(operand) = operand else { return Ok(None) };
        list.push(operand);
    }
    Ok(Some(Inst::with_operands(op, list)))
}

/// gfx11 cache bits as [`Cache`]; all clear is plain.
fn gfx11_cache(glc: u32, slc: u32, dlc: u32) -> Cache {
    Cache::Gfx11 { glc: glc != 0, slc: slc != 0, dlc: dlc != 0 }
}

/// gfx12 cache fields as [`Cache`]; all clear is plain.
fn gfx12_cache(scope: u32, hint: u32) -> Cache {
    let scope = match scope & 3 {
        0 => Scope::Cu,
        1 => Scope::Se,
        2 => Scope::Device,
        _ => Scope::System,
    };
    let cache = Cache::Gfx12 { scope, hint: (hint & 7) as u8 };
    if cache.is_plain() { Cache::PLAIN } else { cache }
}

/// Sign-extends the low `bits` bits.
fn sign_extend(value: u32, bits: u32) -> i32 {
    (value << (32 - bits)).cast_signed() >> (32 - bits)
}

/// True if the destination is present; only atomics without a returned value lack it.
fn returns(op: Op, cache: Cache) -> bool {
    !op.row().has(Flags::ATOMIC) || cache.returns()
}
