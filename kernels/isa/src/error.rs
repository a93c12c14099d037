//! Errors: an instruction that cannot be encoded, dwords that cannot be decoded.
//!
//! Not here: the checks that find them (`check.rs`, `decode.rs`).

use core::fmt;

use crate::chip::Target;
use crate::operand::Operand;
use crate::operand_kind::OperandKind;
use crate::row::Op;

/// An instruction that the target does not have in this form.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncodeError {
    /// The instruction.
    pub op: Op,
    /// The reason.
    pub problem: Problem,
}

/// The reason why an instruction cannot be encoded.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The target lacks the instruction.
    Absent(Target),
    /// Wrong number of operands.
    Arity {
        /// Operands of the row.
        expected: usize,
        /// Operands given.
        found: usize,
    },
    /// An operand does not fit its slot in this form: class, width, alignment or reach.
    Operand {
        /// Position in text order.
        index: usize,
        /// Operands that the slot takes.
        kind: OperandKind,
        /// The operand given.
        found: Operand,
    },
    /// Two different literals.
    TwoLiterals,
    /// Too many scalar values for the constant bus.
    ConstantBus {
        /// Distinct values used.
        used: usize,
        /// Values the bus carries.
        limit: usize,
    },
    /// The format has no such form.
    Form,
    /// A modifier that the instruction does not take in this form.
    Modifier,
    /// A lane move that the instruction does not take.
    Lanes,
    /// An offset out of range.
    Offset {
        /// The offset.
        found: i32,
    },
    /// Cache bits of another generation or instruction class.
    Cache,
    /// Not two dual-issue halves, or the first half may only be second.
    Dual,
    /// Dual-issue halves that use the same register bank.
    Banks,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.op.name())?;
        match self.problem {
            Problem::Absent(target) => write!(f, "not on {target}"),
            Problem::Arity { expected, found } => write!(f, "{expected} operands expected, {found} given"),
            Problem::Operand { index, kind, found } => {
                write!(f, "operand {index} takes {:?} {:?}, not {found}", kind.class, kind.ty)
            }
            Problem::TwoLiterals => f.write_str("two different literals"),
            Problem::ConstantBus { used, limit } => {
                write!(f, "{used} scalar values, the constant bus carries {limit}")
            }
            Problem::Form => f.write_str("no 64-bit form"),
            Problem::Modifier => f.write_str("modifier not available in this form"),
            Problem::Lanes => f.write_str("lane move not available"),
            Problem::Offset { found } => write!(f, "offset {found} out of range"),
            Problem::Cache => f.write_str("cache bits not available"),
            Problem::Dual => f.write_str("not a pair of dual-issue halves"),
            Problem::Banks => f.write_str("dual-issue halves share a register bank"),
        }
    }
}

impl core::error::Error for EncodeError {}

/// Dwords that are not an instruction of the table.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DecodeError {
    /// The dwords end inside an instruction.
    Truncated {
        /// The instruction, if the dwords that are there determine it.
        op: Option<Op>,
        /// Dwords needed.
        needed: usize,
        /// Dwords left.
        found: usize,
    },
    /// No row of the table has this encoding on the target.
    Unknown {
        /// First dword.
        word: u32,
    },
    /// The row exists, but a field holds a value that the instruction does not take.
    Field {
        /// The instruction.
        op: Op,
        /// First dword.
        word: u32,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { op, needed, found } => {
                let name = op.map_or("instruction", Op::name);
                write!(f, "{name}: at least {needed} dwords, cut off after {found}")
            }
            Self::Unknown { word } => write!(f, "no instruction of the table begins with 0x{word:08x}"),
            Self::Field { op, word } => write!(f, "{}: reserved field value in 0x{word:08x}", op.name()),
        }
    }
}

impl core::error::Error for DecodeError {}
