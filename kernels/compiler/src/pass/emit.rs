//! Emit: physical code to dwords, branch distances resolved.
//!
//! Not here: padding, descriptors and files (`object`).

use crate::machine::{Line, Physical};
use alloc::vec::Vec;
use core::fmt;
use doorbell_isa::{EncodeError, Operand, encode};

/// Code that does not encode: a fault of an earlier pass, or a branch too far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EmitError {
    /// An instruction that the target does not have.
    Encode(EncodeError),
    /// A branch over more than 32767 dwords.
    Distance {
        /// Dwords between branch and target.
        dwords: i64,
    },
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encode(error) => error.fmt(f),
            Self::Distance { dwords } => write!(f, "branch over {dwords} dwords, at most 32767 encode"),
        }
    }
}

impl core::error::Error for EmitError {}

/// Gives the 64-bit form to instructions whose registers the 32-bit form does not reach (16-bit operands above v127).
pub fn widen(code: &mut Physical) {
    for line in code.blocks.iter_mut().flatten() {
        if let Line::Inst(inst, None) = line
            && encode(inst, code.target).is_err()
            && encode(&inst.long(), code.target).is_ok()
        {
            *inst = inst.long();
        }
    }
}

/// Encodes all blocks.
///
/// # Errors
///
/// If an instruction does not encode or a branch is too far.
pub fn emit(code: &Physical) -> Result<Vec<u32>, EmitError> {
    let mut starts = Vec::with_capacity(code.blocks.len());
    let mut size = 0i64;
    for block in &code.blocks {
        starts.push(size);
        for line in block {
            if let Line::Inst(inst, _) = line {
                let code = encode(inst, code.target).map_err(EmitError::Encode)?;
                size += code.words().len() as i64;
            }
        }
    }
    let mut words: Vec<u32> = Vec::new();
    for block in &code.blocks {
        for line in block {
            let Line::Inst(inst, branch) = line else { continue };
            let mut inst = *inst;
            if let Some(block) = branch {
                let target = starts.get(block.index()).copied().unwrap_or(size);
                let dwords = target - (words.len() as i64 + 1);
                let distance = i16::try_from(dwords).map_err(|_| EmitError::Distance { dwords })?;
                for operand in inst.operands.as_mut_slice() {
                    if let Operand::Immediate(value) = operand {
                        *value = distance.into();
                    }
                }
            }
            let code = encode(&inst, code.target).map_err(EmitError::Encode)?;
            words.extend_from_slice(code.words());
        }
    }
    Ok(words)
}
