//! Elements of the cache: as f32 for kernels of few rows, as pairs of f16 for matrices.
//!
//! Q8_0 is core's: blocks of 32 elements, 34 bytes, an f16 scale before the codes.

use crate::builder_ext::{BuilderExt, at};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width};
use doorbell_core::quant::Type;

/// Whether kernels read and write such a cache with heads of `dim` elements.
pub(crate) fn supports(kv_type: Type, dim: u32) -> bool {
    matches!(kv_type, Type::F16 | Type::F32 | Type::Q8_0) && dim.is_multiple_of(kv_type.block_len() as u32)
}

/// Bytes of a key or value.
pub(crate) fn row_bytes(kv_type: Type, dim: u32) -> u32 {
    kv_type.row_bytes(dim as usize).unwrap_or(0) as u32
}

/// Byte offsets of a block of Q8_0 and of an element's code, less the two bytes of the scale.
fn block(k: &mut Builder, row: Value, element: Value) -> [Value; 2] {
    let number = k.right(element, 5);
    let within = k.mask(element, 31);
    let start = k.times(number, 34);
    let start = k.add(row, start);
    [start, k.add(start, within)]
}

/// Byte offsets in a row of what [`eight`] loads; `element` is the first of eight, a multiple of them.
pub(crate) fn place(k: &mut Builder, kv_type: Type, element: Value) -> Vec<Value> {
    if kv_type == Type::Q8_0 {
        let zero = k.int(0);
        return block(k, zero, element).into();
    }
    vec![k.left(element, if kv_type == Type::F32 { 2 } else { 1 })]
}

/// What eight elements are made of, of the row at byte `row`; see [`place`].
pub(crate) fn eight(k: &mut Builder, kv_type: Type, [base, row]: [Value; 2], place: &[Value]) -> Vec<Value> {
    let places: Vec<Value> = place.iter().map(|place| k.add(row, *place)).collect();
    match places[..] {
        [start, codes] => vec![
            k.load(at(k.global(base, codes), 2), Width::Dwords(2), Elem::Int),
            k.load(k.global(base, start), Width::U16, Elem::Int),
        ],
        _ => {
            let (parts, elem) = if kv_type == Type::F32 { (2, Elem::Float) } else { (1, Elem::Int) };
            let part = |part: u32| k.load(at(k.global(base, places[0]), 16 * part), Width::Dwords(4), elem);
            (0..parts).map(part).collect()
        }
    }
}

/// The eight elements that [`eight`] loaded.
pub(crate) fn floats(k: &mut Builder, kv_type: Type, raw: &[Value]) -> Vec<Value> {
    match kv_type {
        Type::Q8_0 => {
            let codes = k.elements(raw[0], 2);
            decoded(k, raw[1], &codes, 8)
        }
        Type::F32 => raw.iter().flat_map(|part| k.elements(*part, 4)).collect(),
        _ => k.elements(raw[0], 4).into_iter().flat_map(|pair| k.halves(pair)).collect(),
    }
}

/// Elements of a block of Q8_0: scale as bits, codes four a dword.
fn decoded(k: &mut Builder, scale: Value, codes: &[Value], count: u32) -> Vec<Value> {
    let scale = k.bits(scale, Elem::HalfPair);
    let scale = k.cvt_f_h(scale);
    // Codes become unsigned; the product with a scale of eleven bits is exact, and so is the sum.
    let bias = k.scaled(scale, -128.0);
    let mut values = Vec::new();
    for (first, codes) in (0..count).step_by(4).zip(codes) {
        let flip = k.int(0x8080_8080);
        let codes = k.xor(*codes, flip);
        for byte in 0..(count - first).min(4) {
            let code = k.byte_to_float(codes, byte as u8);
            values.push(k.fma(code, scale, bias));
        }
    }
    values
}

/// Values that [`raw`] loads at a time.
pub(crate) fn raw_count(kv_type: Type) -> usize {
    if kv_type == Type::Q8_0 { 2 } else { 1 }
}

/// What four or eight elements are made of, as it lies in the cache; see [`eight`]. Not for F32.
pub(crate) fn raw(k: &mut Builder, kv_type: Type, [base, row, element]: [Value; 3], count: u8) -> Vec<Value> {
    if kv_type == Type::Q8_0 {
        let [start, place] = block(k, row, element);
        let codes = k.load(at(k.global(base, place), 2), Width::Dwords(count / 4), Elem::Int);
        return vec![codes, k.load(k.global(base, start), Width::U16, Elem::Int)];
    }
    let own = k.left(element, 1);
    let place = k.add(row, own);
    vec![k.load(k.global(base, place), Width::Dwords(count / 2), Elem::Int)]
}

/// What [`raw`] loaded, as pairs of f16.
pub(crate) fn pairs(k: &mut Builder, kv_type: Type, raw: &[Value], count: u8) -> Vec<Value> {
    if kv_type != Type::Q8_0 {
        return k.elements(raw[0], count / 2);
    }
    let codes = k.elements(raw[0], count / 4);
    let values = decoded(k, raw[1], &codes, count.into());
    let pairs = values.chunks(2).map(|pair| {
        let pair = k.half_pair(pair[0], pair[1]);
        k.bits(pair, Elem::Int)
    });
    pairs.collect()
}
