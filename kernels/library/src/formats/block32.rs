//! Blocks of 32: a header, nibbles or bytes, the fifth bits where there are any. A lane has a block.

use crate::builder_ext::{BuilderExt, at};
use crate::formats::codes::{E2M1_DOUBLED, IQ4_NL_VALUES, from_table, nibbles};
use crate::formats::lane_format::Run;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Address, Builder, Elem, Value, Width};
use doorbell_core::quant::Type;

/// What lies in `block`: header, codes, fifth bits.
pub(crate) fn load(k: &mut Builder, ty: Type, block: Address) -> Vec<Value> {
    if ty == Type::Q8_0 {
        let d = k.load(block, Width::U16, Elem::Int);
        let quants = [2, 18].map(|place| k.load(at(block, place), Width::Dwords(4), Elem::Int));
        return alloc::vec![d, quants[0], quants[1]];
    }
    let width = match ty {
        Type::MXFP4 => Width::U8,
        Type::Q4_1 | Type::Q5_1 => Width::Dwords(1),
        _ => Width::U16,
    };
    let header = k.load(block, width, Elem::Int);
    let head = ty.block_bytes() as u32 - 16;
    let mut loaded = alloc::vec![header, k.load(at(block, head), Width::Dwords(4), Elem::Int)];
    if matches!(ty, Type::Q5_0 | Type::Q5_1) {
        loaded.push(k.load(at(block, head - 4), Width::Dwords(1), Elem::Int));
    }
    loaded
}

pub(crate) fn runs(k: &mut Builder, ty: Type, loaded: &[Value]) -> [Run; 2] {
    if ty == Type::Q8_0 {
        return bytes(k, loaded);
    }
    let (header, quants, high) = (loaded[0], loaded[1], loaded.get(2).copied());
    let quants = k.elements(quants, 4);
    let (scale, minimum) = scales(k, ty, header);
    [0u8, 1].map(|half| {
        match ty {
            Type::IQ4_NL => return from_table(k, &quants, half, IQ4_NL_VALUES, scale),
            Type::MXFP4 => return from_table(k, &quants, half, E2M1_DOUBLED, scale),
            _ => {}
        }
        let codes = core::array::from_fn(|index| {
            let low = nibbles(k, quants[index], half);
            let Some(high) = high else { return low };
            // Four bits to the bit 4 of four bytes.
            let bits = k.bfe(high, 16 * u32::from(half) + 4 * index as u32, 4);
            let spread = k.int(0x0020_4081);
            let bits = k.mul24(bits, spread);
            let bits = k.mask(bits, 0x0101_0101);
            let bits = k.left(bits, 4);
            k.or(low, bits)
        });
        Run { codes, scale, minimum }
    })
}

fn bytes(k: &mut Builder, loaded: &[Value]) -> [Run; 2] {
    let (d, quants) = (loaded[0], [loaded[1], loaded[2]]);
    let d = k.bits(d, Elem::HalfPair);
    let scale = k.cvt_f_h(d);
    quants.map(|quants| {
        let codes = core::array::from_fn(|index| k.extract(quants, index as u8));
        Run { codes, scale, minimum: None }
    })
}

/// Scale and minimum of a block32 block.
fn scales(k: &mut Builder, ty: Type, header: Value) -> (Value, Option<Value>) {
    if ty == Type::MXFP4 {
        // 2^(e - 128): two subnormals, then exponents.
        let (two, one) = (k.int(2), k.int(1));
        let least = k.int(0x0020_0000);
        let small = k.shl(least, header);
        let exponent = k.sub(header, one);
        let normal = k.left(exponent, 23);
        let tiny = k.lt_u(header, two);
        let bits = k.select(tiny, small, normal);
        return (k.bits(bits, Elem::Float), None);
    }
    if matches!(ty, Type::Q4_1 | Type::Q5_1) {
        let [d, m] = k.halves(header);
        return (d, Some(m));
    }
    let halves = k.bits(header, Elem::HalfPair);
    let d = k.cvt_f_h(halves);
    let bias = match ty {
        Type::Q4_0 => -8.0,
        Type::Q5_0 => -16.0,
        _ => return (d, None),
    };
    let minimum = k.scaled(d, bias);
    (d, Some(minimum))
}
