//! Static check of finished machine code: every wait and every hazard distance, on all paths.
//!
//! Works on decoded bytes and shares no code with the inserting passes: memory operations are pending until a
//! wait (`outstanding`), hazards are walks from each producer (`hazards`), those of gfx12's scalar registers are sets of
//! registers (`scalars`). Not here: control flow (`flow`).

mod hazards;
mod scalars;
mod outstanding;

pub use super::fault::{BinaryError, Origin};

use super::flow::Code;
use alloc::string::ToString;
use doorbell_isa::Target;

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
    outstanding::check(&code)?;
    hazards::check(&code)?;
    scalars::check(&code)
}

fn hazard(code: &Code, at: usize, producer: usize) -> BinaryError {
    BinaryError::Hazard {
        instruction: code.insts[at].text(code.target).to_string(),
        after: code.insts[producer].text(code.target).to_string(),
    }
}
