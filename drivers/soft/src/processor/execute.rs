//! Executes one instruction by its handler.
//!
//! Not here: the handlers, the watched execution (`watch.rs`).

use super::context::Context;
use super::fault::Cause;
use super::handler::{Instruction, Run};
use super::step::Next;
use super::{scalar, vector};

impl Context<'_> {
    /// Executes one instruction, unwatched.
    #[inline(always)]
    pub(crate) fn execute(&mut self, instruction: &Instruction) -> Result<Next, Cause> {
        match instruction.run {
            Run::Scalar(handler) => {
                scalar::execute(self.wave, &instruction.step, handler);
                Ok(Next::Following)
            }
            Run::Special(handler) => handler(self, &instruction.step),
            _ => vector::execute(self.wave, instruction),
        }
    }
}
