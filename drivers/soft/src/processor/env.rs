//! The environment of a vector handler: MODE, modifiers, VCC.
//!
//! Not here: operands (`vector/operands.rs`).

use super::mode::{Mode, Round};
use super::registers::VCC;
use super::step::Step;
use super::wave::Wave;
use crate::memory::Simd;

/// Inputs of a handler besides its operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Env {
    /// MODE.
    pub(crate) mode: Mode,
    /// Rounding of f32.
    pub(crate) round32: Round,
    /// Rounding of f16 and f64.
    pub(crate) round64: Round,
    /// neg, or neg_lo of packed instructions.
    pub(crate) neg: u8,
    /// Clamp.
    pub(crate) clamp: bool,
    /// Half selects.
    pub(crate) op_sel: u8,
    /// VCC.
    pub(crate) vcc: u32,
    /// Distance added to transcendental results, in last places.
    pub(crate) perturb: i32,
    /// The host's vector unit.
    pub(crate) simd: Simd,
}

impl Env {
    pub(crate) fn new(wave: &Wave, step: &Step) -> Self {
        Self {
            mode: wave.mode,
            round32: wave.mode.round32(),
            round64: wave.mode.round64(),
            neg: step.inst.modifiers.neg,
            clamp: step.inst.modifiers.clamp,
            op_sel: step.inst.modifiers.op_sel,
            vcc: wave.sgpr[VCC],
            perturb: wave.perturb,
            simd: wave.simd,
        }
    }
}
