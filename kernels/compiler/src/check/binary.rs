//! Static check of finished machine code: every wait and every hazard distance, on all paths.
//!
//! Works on decoded bytes and shares no code with the inserting passes: outstanding memory operations are tickets by
//! instruction (`tickets`), hazards are walks from each producer (`hazards`), those of gfx12's scalar registers sets of
//! registers (`scalars`). Not here: control flow (`flow`).

mod hazards;
mod scalars;
mod tickets;

use super::flow::Code;
use alloc::string::{String, ToString};
use core::fmt;
use doorbell_isa::{DecodeError, Target};

/// What is wrong with machine code.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BinaryError {
    /// Bytes that are no instruction.
    Decode {
        /// Dword offset.
        at: usize,
        /// Why.
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

/// Whose code it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A kernel of ours: one function without calls, whose barriers and invalidations order memory.
    Ours,
    /// Another compiler's function: it may call and return as its convention says, and order no more than its source
    /// asks for.
    Foreign,
}

/// Checks a kernel's machine code.
///
/// # Errors
///
/// The first fault found.
pub fn check(words: &[u32], target: Target) -> Result<(), BinaryError> {
    check_from(words, target, Origin::Ours)
}

/// Checks a function's machine code.
///
/// # Errors
///
/// The first fault found.
pub fn check_from(words: &[u32], target: Target, origin: Origin) -> Result<(), BinaryError> {
    let code = Code::decode(words, target, origin)?;
    tickets::check(&code)?;
    hazards::check(&code)?;
    scalars::check(&code)
}

fn hazard(code: &Code, at: usize, producer: usize) -> BinaryError {
    BinaryError::Hazard {
        instruction: code.insts[at].text(code.target).to_string(),
        after: code.insts[producer].text(code.target).to_string(),
    }
}
