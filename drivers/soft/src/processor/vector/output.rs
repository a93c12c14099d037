//! Output modifiers: the multiplier, then the clamp.
//!
//! Not here: where results go (`operands.rs`).

use doorbell_isa::OutputModifier;
use doorbell_isa::operand_kind::Type;

use super::super::float::{F16, f16_to_f32, flush16, flush32, flush64, mul16, mul32, mul64};
use super::super::mode::{Mode, Round};
use super::super::step::Step;

/// Applies the output multiplier, then the clamp, to one float result.
pub(super) fn finished(bits: u32, ty: Type, step: &Step, mode: Mode) -> u32 {
    let modifiers = step.inst.modifiers;
    let factor = match modifiers.omod {
        OutputModifier::None => 1.0,
        OutputModifier::Double => 2.0,
        OutputModifier::Quadruple => 4.0,
        OutputModifier::Half => 0.5,
    };
    match ty {
        Type::F32 => {
            // The multiplier is ignored where denormal results are kept.
            let scaled = if factor == 1.0 || mode.keeps_out32() {
                bits
            } else {
                mul32(f32::from_bits(bits), factor, mode.round32()).to_bits()
            };
            let bits = if mode.keeps_out32() { scaled } else { flush32(scaled) };
            if modifiers.clamp { clamp32(bits, mode) } else { bits }
        }
        _ => {
            let scaled = if factor == 1.0 || mode.keeps_out64() {
                bits
            } else {
                mul16(bits, F16.encode(f64::from(factor), Round::Nearest), mode.round64())
            };
            let bits = if mode.keeps_out64() { scaled } else { flush16(scaled) };
            if modifiers.clamp {
                F16.encode(
                    f64::from(f32::from_bits(clamp32(f16_to_f32(bits).to_bits(), mode))),
                    Round::Nearest,
                )
            } else {
                bits
            }
        }
    }
}

fn clamp32(bits: u32, mode: Mode) -> u32 {
    let value = f32::from_bits(bits);
    if value.is_nan() {
        return if mode.dx10_clamp() { 0 } else { bits };
    }
    if bits >> 31 != 0 { 0 } else { value.min(1.0).to_bits() }
}

/// The same for doubles.
pub(super) fn finished64(bits: u64, step: &Step, mode: Mode) -> u64 {
    let modifiers = step.inst.modifiers;
    let factor = match modifiers.omod {
        OutputModifier::None => 1.0,
        OutputModifier::Double => 2.0,
        OutputModifier::Quadruple => 4.0,
        OutputModifier::Half => 0.5,
    };
    let scaled = if factor == 1.0 || mode.keeps_out64() {
        bits
    } else {
        mul64(f64::from_bits(bits), factor, mode.round64()).to_bits()
    };
    let bits = if mode.keeps_out64() { scaled } else { flush64(scaled) };
    let value = f64::from_bits(bits);
    match modifiers.clamp {
        true if value.is_nan() => {
            if mode.dx10_clamp() {
                0
            } else {
                bits
            }
        }
        true if bits >> 63 != 0 => 0,
        true => value.min(1.0).to_bits(),
        false => bits,
    }
}
