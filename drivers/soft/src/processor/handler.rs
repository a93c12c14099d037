//! Handlers: the function types that execute instructions, and an instruction with its handler.
//!
//! Not here: the handlers (`scalar`, `vector`, `memory_ops`), operands (`step.rs`).

use alloc::boxed::Box;

use doorbell_isa::{Form, Inst, Target};

use super::context::Context;
use super::env::Env;
use super::fault::Cause;
use super::registers::{Lanes, Wide};
use super::step::{Next, Step};
use super::wave::Wave;

/// Vector operation on registers of up to 32 bits.
pub(crate) type Op32 = fn(&Env, &[&Lanes; 3], &mut Lanes);
/// Vector operation with 64-bit registers.
pub(crate) type Op64 = fn(&Env, &[Wide; 3], &mut Wide);
/// Vector comparison: bit per lane.
pub(crate) type Compare32 = fn(&Env, &[&Lanes; 3]) -> u32;
/// Vector comparison of 64-bit values.
pub(crate) type Compare64 = fn(&Env, &[Wide; 3]) -> u32;
/// Vector operation with a lane mask as second result.
pub(crate) type Carry32 = fn(&Env, &[&Lanes; 3], &mut Lanes) -> u32;
/// The same on 64-bit values.
pub(crate) type Carry64 = fn(&Env, &[Wide; 3], &mut Wide) -> u32;
/// Scalar operation.
pub(crate) type ScalarOp = fn(&mut Wave, [u64; 3]) -> u64;
/// Any other operation.
pub(crate) type SpecialOp = fn(&mut Context<'_>, &Step) -> Result<Next, Cause>;

/// Handler of an instruction.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// Scalar sources to a scalar register.
    Scalar(ScalarOp),
    /// Lane by lane, 32 bits.
    Op32(Op32),
    /// Lane by lane on the low, then the high halves.
    Packed(Op32),
    /// Lane by lane, 64 bits.
    Op64(Op64),
    /// Comparison.
    Compare32(Compare32),
    /// Comparison of 64-bit values.
    Compare64(Compare64),
    /// With carry.
    Carry32(Carry32),
    /// With carry, 64 bits.
    Carry64(Carry64),
    /// Two halves at once.
    Dual(Op32, Op32),
    /// By a function of its own.
    Special(SpecialOp),
}

/// A decoded instruction with its handler.
#[derive(Clone)]
pub(crate) struct Instruction {
    /// The instruction and its operands.
    pub(crate) step: Step,
    /// Handler.
    pub(crate) run: Run,
    /// The second half of a dual-issue instruction.
    pub(crate) other: Option<Box<Self>>,
}

impl Instruction {
    /// An instruction of `words` dwords at an address.
    pub(crate) fn new(inst: Inst, at: u64, words: u8, run: Run, target: Target) -> Self {
        let other = match (inst.second, run) {
            (Some((op, operands)), Run::Dual(_, run)) => {
                let half = Inst { form: Form::Short, ..Inst::with_operands(op, operands) };
                Some(Box::new(Self::new(half, at, words, Run::Op32(run), target)))
            }
            _ => None,
        };
        Self { step: Step::new(inst, at, words, target), run, other }
    }
}
