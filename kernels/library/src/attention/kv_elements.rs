//! Elements of the KV cache: as f32 for kernels of few rows, as pairs of f16 for matrices.
//!
//! Q8_0 is core's: blocks of 32 elements, 34 bytes, an f16 scale before the codes.

use crate::builder_ext::BuilderExt;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width, global};
use doorbell_core::quant::Type;

/// True if kernels read and write a cache of this type with heads of `dim` elements.
pub(crate) fn supports(ty: Type, dim: u32) -> bool {
    matches!(ty, Type::F16 | Type::F32 | Type::Q8_0) && dim.is_multiple_of(ty.block_len() as u32)
}

/// Bytes of a key or value.
pub(crate) fn row_bytes(ty: Type, dim: u32) -> u32 {
    ty.row_bytes(dim as usize).unwrap_or(0) as u32
}

/// A row of the cache: a buffer and the row's byte in it.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) base: Value,
    pub(crate) start: Value,
}

/// Byte offsets of a block of Q8_0 and of an element's code, less the two bytes of the scale.
fn block(k: &mut Builder, row: Value, element: Value) -> [Value; 2] {
    let number = k.eval(element >> 5);
    let within = k.eval(element & 31);
    let start = k.eval(row + number * 34);
    [start, k.add(start, within)]
}

/// Byte offsets in a row for [`eight`]; `element` is the first of eight, a multiple of them.
pub(crate) fn offsets(k: &mut Builder, ty: Type, element: Value) -> Vec<Value> {
    if ty == Type::Q8_0 {
        let zero = k.int(0);
        return block(k, zero, element).into();
    }
    vec![k.eval(element << if ty == Type::F32 { 2 } else { 1 })]
}

/// Loads eight elements of a row as they lie in the cache; see [`offsets`].
pub(crate) fn eight(k: &mut Builder, ty: Type, row: Row, offsets: &[Value]) -> Vec<Value> {
    let offsets: Vec<Value> = offsets.iter().map(|offset| k.add(row.start, *offset)).collect();
    match offsets[..] {
        [start, codes] => vec![
            k.load(global(row.base, codes).plus(2), Width::Dwords(2), Elem::Int),
            k.load(global(row.base, start), Width::U16, Elem::Int),
        ],
        _ => {
            let (parts, elem) = if ty == Type::F32 { (2, Elem::Float) } else { (1, Elem::Int) };
            (0..parts)
                .map(|part| k.load(global(row.base, offsets[0]).plus(16 * part), Width::Dwords(4), elem))
                .collect()
        }
    }
}

/// The eight elements that [`eight`] loaded.
pub(crate) fn floats(k: &mut Builder, ty: Type, raw: &[Value]) -> Vec<Value> {
    match ty {
        Type::Q8_0 => {
            let codes = k.elements(raw[0], 2);
            decoded(k, raw[1], &codes, 8)
        }
        Type::F32 => raw.iter().flat_map(|part| k.elements(*part, 4)).collect(),
        _ => k.elements(raw[0], 4).into_iter().flat_map(|pair| k.halves(pair)).collect(),
    }
}

/// Elements of a block of Q8_0: scale as bits, codes four a dword.
fn decoded(k: &mut Builder, scale_bits: Value, codes: &[Value], count: u32) -> Vec<Value> {
    let scale = k.eval(scale_bits.as_halves().f16_to_f32());
    // Codes become unsigned; the product with a scale of eleven bits is exact, and so is the sum.
    let bias = k.eval(scale * -128.0);
    let mut values = Vec::new();
    for (first, codes) in (0..count).step_by(4).zip(codes) {
        let flip = k.int(0x8080_8080);
        let unsigned = k.xor(*codes, flip);
        for byte in 0..(count - first).min(4) {
            let code = k.byte_to_float(unsigned, byte as u8);
            values.push(k.fma(code, scale, bias));
        }
    }
    values
}

/// Values that [`raw`] loads at a time.
pub(crate) fn raw_count(ty: Type) -> usize {
    if ty == Type::Q8_0 { 2 } else { 1 }
}

/// Loads four or eight elements of a row from element `element` on as they lie in the cache. Not for F32.
pub(crate) fn raw(k: &mut Builder, ty: Type, row: Row, element: Value, count: u8) -> Vec<Value> {
    if ty == Type::Q8_0 {
        let [start, code] = block(k, row.start, element);
        let codes = k.load(global(row.base, code).plus(2), Width::Dwords(count / 4), Elem::Int);
        return vec![codes, k.load(global(row.base, start), Width::U16, Elem::Int)];
    }
    vec![k.load(global(row.base, row.start + (element << 1)), Width::Dwords(count / 2), Elem::Int)]
}

/// The elements that [`raw`] loaded, as pairs of f16.
pub(crate) fn pairs(k: &mut Builder, ty: Type, raw: &[Value], count: u8) -> Vec<Value> {
    if ty != Type::Q8_0 {
        return k.elements(raw[0], count / 2);
    }
    let codes = k.elements(raw[0], count / 4);
    let values = decoded(k, raw[1], &codes, count.into());
    values.chunks(2).map(|pair| k.half_bits(pair[0], pair[1])).collect()
}
