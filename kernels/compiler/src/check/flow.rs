//! Control flow of decoded code: instructions by number, successors by branch distance.

use super::binary::BinaryError;
use alloc::vec::Vec;
use doorbell_isa::{Flags, Format, Inst, Operand, Target, decode, op};

/// Decoded code.
pub(super) struct Code {
    pub(super) target: Target,
    pub(super) insts: Vec<Inst>,
    pub(super) successors: Vec<Vec<usize>>,
}

impl Code {
    /// Decodes all of `words`.
    pub(super) fn decode(words: &[u32], target: Target) -> Result<Self, BinaryError> {
        let mut insts = Vec::new();
        let mut starts = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let (inst, length) =
                decode(&words[at..], target).map_err(|error| BinaryError::Decode { at, error })?;
            starts.push(at);
            insts.push(inst);
            at += length;
        }
        let mut successors = Vec::with_capacity(insts.len());
        for (index, inst) in insts.iter().enumerate() {
            let mut next = Vec::new();
            let row = inst.row();
            let after = starts.get(index + 1).copied().unwrap_or(words.len());
            if row.has(Flags::BRANCHES) {
                let [Operand::Immediate(distance)] = inst.operands.as_slice() else {
                    return Err(BinaryError::Flow { instruction: index });
                };
                let target = after as i64 + i64::from(*distance);
                let target =
                    usize::try_from(target).ok().and_then(|target| starts.binary_search(&target).ok());
                next.push(target.ok_or(BinaryError::Flow { instruction: index })?);
            }
            if !row.has(Flags::ENDS) && inst.op != op::s_branch {
                if index + 1 == insts.len() {
                    return Err(BinaryError::Flow { instruction: index });
                }
                next.push(index + 1);
            }
            successors.push(next);
        }
        Ok(Self { target, insts, successors })
    }
}

/// Whether an instruction is executed by the vector ALU.
pub(super) fn is_valu(inst: &Inst) -> bool {
    inst.row().is_vector()
}

/// Whether an instruction is executed by the scalar ALU (waits and branches are not).
pub(super) fn is_salu(inst: &Inst) -> bool {
    matches!(inst.row().format, Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk)
        && !inst.row().name.starts_with("s_waitcnt")
}

/// Fields of a dependency-counter wait; all ones where the instruction is none.
pub(super) fn depctr(inst: &Inst) -> u32 {
    match (inst.row().name, inst.operands.as_slice()) {
        ("s_waitcnt_depctr" | "s_wait_alu", [Operand::Immediate(bits)]) => bits.cast_unsigned(),
        _ => 0xffff,
    }
}
