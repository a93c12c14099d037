//! Faults of finished machine code, and the origin that decides which rules apply.

use alloc::string::String;
use core::fmt;
use doorbell_isa::DecodeError;

/// A fault of machine code.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BinaryError {
    /// Bytes that are no instruction.
    Decode {
        /// Dword offset.
        at: usize,
        /// The reason.
        error: DecodeError,
    },
    /// A branch to no instruction, or code without an end.
    Flow {
        /// Number of the instruction.
        instruction: usize,
    },
    /// An instruction uses registers that a memory operation has yet to write, or passes a barrier too early.
    Wait {
        /// The instruction.
        instruction: String,
        /// The outstanding operation.
        outstanding: String,
    },
    /// A distance or wait that the hardware needs is missing.
    Hazard {
        /// The instruction that comes too early.
        instruction: String,
        /// The instruction before it.
        after: String,
    },
}

impl fmt::Display for BinaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode { at, error } => write!(f, "dword {at}: {error}"),
            Self::Flow { instruction } => {
                write!(f, "instruction {instruction}: control flow leaves the code")
            }
            Self::Wait { instruction, outstanding } => {
                write!(f, "{instruction}: {outstanding} is outstanding")
            }
            Self::Hazard { instruction, after } => write!(f, "{instruction}: too soon after {after}"),
        }
    }
}

impl core::error::Error for BinaryError {}

/// The compiler that made the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// This compiler's kernel: one function without calls, whose barriers and invalidations order memory.
    Ours,
    /// Another compiler's function: it may call and return as its convention says, and order no more than its source
    /// asks for.
    Foreign,
}
