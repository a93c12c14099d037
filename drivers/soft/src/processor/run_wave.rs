//! Fetches and executes the instructions of a wave.
//!
//! Not here: the order in which waves run (`engine.rs`).

use super::context::Context;
use super::fault::Cause;
use super::program::{DecodedBlock, Program};
use super::step::Next;

impl Context<'_> {
    /// Executes one instruction.
    #[inline]
    pub(crate) fn step(&mut self, program: &mut Program) -> Result<Next, Cause> {
        let instruction = program.fetch(self.wave.pc, self.space)?;
        let step = &instruction.step;
        if usize::from(step.highest) >= self.wave.vgpr.len() {
            return Err(Cause::Register { number: step.highest.into(), allocated: self.wave.vgpr.len() });
        }
        let next =
            if self.wave.tracker.is_some() { self.watched(instruction)? } else { self.execute(instruction)? };
        self.wave.count += 1;
        self.report.count(step.timing);
        if next != Next::Jumped {
            self.wave.pc = step.next();
        }
        Ok(next)
    }

    /// Executes instructions unwatched until the wave yields or the quantum is over.
    pub(crate) fn run(&mut self, program: &mut Program, quantum: u64) -> Result<(), Cause> {
        let mut left = quantum;
        while left > 0 {
            program.fetch(self.wave.pc, self.space)?;
            let before = left;
            // Registers are copied in pieces as wide as the handlers read them: mixed widths stall.
            let simd = self.wave.simd;
            let outcome = simd.run(
                #[inline(always)]
                || self.run_block(program.block_of_last_fetch(), &mut left),
            );
            self.wave.count += before - left;
            self.report.instructions += before - left;
            if outcome? == Next::Yields {
                break;
            }
        }
        Ok(())
    }

    /// Executes what is decoded of one block of code.
    #[inline(always)]
    fn run_block(&mut self, block: DecodedBlock<'_>, left: &mut u64) -> Result<Next, Cause> {
        let registers = self.wave.vgpr.len();
        while *left > 0
            && let Some(instruction) = block.instruction(self.wave.pc)
        {
            let step = &instruction.step;
            if usize::from(step.highest) >= registers {
                return Err(Cause::Register { number: step.highest.into(), allocated: registers });
            }
            let next = self.execute(instruction)?;
            *left -= 1;
            self.report.mix[step.timing as usize] += 1;
            if next != Next::Jumped {
                self.wave.pc = step.next();
            }
            if next == Next::Yields {
                return Ok(next);
            }
        }
        Ok(Next::Following)
    }
}
