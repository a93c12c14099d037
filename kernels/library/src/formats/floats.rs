//! Weights that are floats.

use crate::builder_ext::BuilderExt;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width, global};
use doorbell_core::quant::Type;

/// Bits by which an element's number is shifted to its byte.
pub(crate) fn byte_shift(ty: Type) -> u32 {
    if ty == Type::F32 { 2 } else { 1 }
}

/// Eight consecutive floats as f32.
pub(crate) fn eight(k: &mut Builder, ty: Type, base: Value, offset: Value) -> Vec<Value> {
    if ty == Type::F32 {
        let halves = [0, 16].map(|at| k.load(global(base, offset).plus(at), Width::Dwords(4), Elem::Float));
        return halves.into_iter().flat_map(|half| k.elements(half, 4)).collect();
    }
    let pairs = k.load(global(base, offset), Width::Dwords(4), Elem::Int);
    let mut values = Vec::new();
    for pair in k.elements(pairs, 4) {
        if ty == Type::F16 {
            values.extend(k.halves(pair));
        } else {
            let low = k.eval(pair << 16);
            let high = k.eval(pair & 0xffff_0000);
            values.extend([k.bits(low, Elem::Float), k.bits(high, Elem::Float)]);
        }
    }
    values
}
