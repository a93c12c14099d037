//! The second-level trap handler: reports the reason why a wave stopped to the host, and stops it for good.
//!
//! The kernel's own handler enters it after an exception or `s_trap`. It leaves a record of 16 bytes for the host,
//! sends the interrupt that the kernel turns into the queue's exception, and halts the wave. Not here: who installs it
//! and reads the records (`doorbell-kfd`).
//!
//! Source: `amdkfd/cwsr_trap_handler_gfx10.asm` and `_gfx12.asm` for what holds on entry; ROCR-Runtime's second-level
//! handler for the interrupt's format. On entry ttmp0:1 is the program counter with the trap's number in the high word,
//! ttmp12 STATUS (gfx12: STATE_PRIV), ttmp14:15 the records; ttmp2 to ttmp5 are free.

use super::layout::Layout;
use super::writer::{BLOCKS, Writer};
use alloc::vec::Vec;
use doorbell_compiler::isa::Target;
use doorbell_compiler::machine::Physical;
use doorbell_compiler::object::{CODE_END, PADDING_WORDS};
use doorbell_compiler::pass::emit;
use doorbell_compiler::{CompileError, check};

/// Machine code of the handler for a chip, padded so that prefetch stays inside. It must lie 256-byte aligned in
/// executable memory; the records are 32 times 16 bytes: program counter as on entry, flags, message.
///
/// # Errors
/// The code does not encode or breaks a rule of the hardware: a fault of this program.
pub fn trap_handler(target: Target) -> Result<Vec<u8>, CompileError> {
    let words = words(target)?;
    let padding = core::iter::repeat_n(CODE_END, PADDING_WORDS);
    Ok(words.into_iter().chain(padding).flat_map(u32::to_le_bytes).collect())
}

fn words(target: Target) -> Result<Vec<u32>, CompileError> {
    let layout = Layout::of(target);
    let mut writer = Writer { target, blocks: Vec::with_capacity(BLOCKS) };
    writer.entry(layout);
    writer.report(layout);
    writer.record(layout);
    writer.leave(layout);
    writer.patch_distance()?;
    let code = Physical { target, blocks: writer.blocks };
    let words = emit::emit(&code).map_err(CompileError::Emit)?;
    check::binary::check(&words, target).map_err(CompileError::Binary)?;
    Ok(words)
}
