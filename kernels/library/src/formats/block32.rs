//! Blocks of 32: a header, nibbles or bytes, the fifth bits where there are any. A lane has a block.

use super::codes::{from_table, nibbles};
use super::run::Run;
use super::spec::{BlockFormat, Codes, FormatSpec, Header};
use crate::builder_ext::BuilderExt;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Location, Value, Width};

/// Header, codes, fifth bits of `block`.
pub(crate) fn load(k: &mut Builder, spec: &FormatSpec, block: &Location) -> Vec<Value> {
    let width = match header(spec) {
        Header::Exponent => Width::U8,
        Header::ScaleMinimum => Width::Dwords(1),
        Header::Scale => Width::U16,
    };
    let dwords =
        |k: &mut Builder, at: u32, count: u8| k.load(block.clone().plus(at), Width::Dwords(count), Elem::Int);
    let header = k.load(block.clone(), width, Elem::Int);
    if spec.codes == Codes::Bytes {
        return alloc::vec![header, dwords(k, 2, 4), dwords(k, 18, 4)];
    }
    let head = spec.ty.block_bytes() as u32 - 16;
    let mut loaded = alloc::vec![header, dwords(k, head, 4)];
    if spec.codes == Codes::Bits(5) {
        loaded.push(dwords(k, head - 4, 1));
    }
    loaded
}

fn header(spec: &FormatSpec) -> Header {
    if let BlockFormat::Block32(header) = spec.layout { header } else { Header::Scale }
}

pub(crate) fn runs(k: &mut Builder, spec: &FormatSpec, loaded: &[Value]) -> [Run; 2] {
    if spec.codes == Codes::Bytes {
        return bytes(k, loaded);
    }
    let (header, quants, high) = (loaded[0], loaded[1], loaded.get(2).copied());
    let quants = k.elements(quants, 4);
    let (scale, minimum) = scales(k, spec, header);
    [0u8, 1].map(|half| {
        if let Codes::Table(table) = spec.codes {
            return from_table(k, &quants, half, table, scale);
        }
        let codes = core::array::from_fn(|index| {
            let low = nibbles(k, quants[index], half);
            let Some(high) = high else { return low };
            // Four bits to the bit 4 of four bytes.
            let four = k.bfe(high, 16 * u32::from(half) + 4 * index as u32, 4);
            let fifth = k.eval((four.mul24(0x0020_4081) & 0x0101_0101) << 4);
            k.eval(low | fifth)
        });
        Run { codes, scale, minimum }
    })
}

fn bytes(k: &mut Builder, loaded: &[Value]) -> [Run; 2] {
    let scale = k.eval(loaded[0].as_halves().f16_to_f32());
    [loaded[1], loaded[2]].map(|quants| {
        let codes = core::array::from_fn(|index| k.extract(quants, index as u8));
        Run { codes, scale, minimum: None }
    })
}

/// Scale and minimum of a block.
fn scales(k: &mut Builder, spec: &FormatSpec, header_bits: Value) -> (Value, Option<Value>) {
    match header(spec) {
        Header::Exponent => {
            // 2^(e - 128): two subnormals, then exponents.
            let (two, one) = (k.int(2), k.int(1));
            let least = k.int(0x0020_0000);
            let small = k.eval(least << header_bits);
            let normal = k.eval((header_bits - one) << 23);
            let is_small = k.lt_u(header_bits, two);
            (k.eval(is_small.select(small, normal).as_float()), None)
        }
        Header::ScaleMinimum => {
            let [d, m] = k.halves(header_bits);
            (d, Some(m))
        }
        Header::Scale => {
            let d = k.eval(header_bits.as_halves().f16_to_f32());
            let center = spec.center();
            (d, (center > 0).then(|| k.eval(d * -(center as f32))))
        }
    }
}
