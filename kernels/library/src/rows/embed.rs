//! Rows by number: token embeddings, and the rows of a batch whose result is wanted.

use crate::builder_ext::{BuilderExt, at};
use crate::formats::lane_format::{LaneFormat, is_coded};
use crate::gemv::activations::WORKGROUP;
use crate::gemv::product::plain;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value, Width};
use doorbell_core::quant::Type;

/// `out[row] = scale * table[token[row]]`: a wave takes 1,024 elements of coded types, 256 of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Embedding {
    /// Type of the table.
    pub ty: Type,
    /// Elements of a row.
    pub cols: u32,
}

/// `out[i] = input[outputs[i]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SelectRows {
    /// Elements of a row.
    pub cols: u32,
}

impl Embedding {
    /// Elements of a workgroup, which is one wave.
    pub(crate) fn stride(self) -> u32 {
        if is_coded(self.ty) == Some(true) { 1024 } else { 256 }
    }

    /// Unique name.
    pub(crate) fn name(self) -> String {
        format!("embed_{}_{}", self.cols, self.ty)
    }

    /// The function.
    #[expect(clippy::too_many_lines, reason = "a kernel reads from top to bottom")]
    pub(crate) fn function(self) -> Function {
        let mut k = Builder::new(&self.name(), 32);
        let (tokens, table) = (k.buffer("tokens"), k.buffer("table"));
        let scale = k.scalar("scale", Elem::Float);
        let out = k.buffer("out");
        let row = k.workgroup_id(Axis::Y);
        let place = k.left(row, 2);
        let token = k.read_same(tokens, place);
        let bytes = self.ty.row_bytes(self.cols as usize).unwrap_or(0) as u32;
        let from = k.times(token, bytes);
        let to = k.times(row, 4 * self.cols);
        let number = k.workgroup_id(Axis::X);
        let begin = k.times(number, self.stride());
        let lane = k.lane();
        if is_coded(self.ty) == Some(true) {
            let format = LaneFormat::new(&mut k, self.ty, lane);
            let own = format.spread.first(&mut k, lane);
            let first = k.add(begin, own);
            let cols = k.int(self.cols);
            let inside = k.lt_u(first, cols);
            k.when(inside, |k| {
                let start = format.start(k, lane);
                let moved = k.times(number, format.advance);
                let block = k.add(start, moved);
                let block = k.add(block, from);
                let runs = format.unit(k, table, block);
                let place = k.left(first, 2);
                let place = k.add(place, to);
                for (run, half) in runs.iter().zip(0..) {
                    for (dword, codes) in run.codes.iter().zip(0..) {
                        let values = four(k, *dword, format.signed);
                        let values = values.into_iter().map(|code| {
                            let value = match run.minimum {
                                Some(minimum) => k.fma(code, run.scale, minimum),
                                None => k.fmul(code, run.scale),
                            };
                            k.fmul(value, scale)
                        });
                        let values: Vec<Value> = values.collect();
                        let values = k.pack(&values);
                        let place =
                            at(k.global(out, place), 4 * half * format.spread.distance() + 16 * codes);
                        k.store(place, Width::Dwords(4), values);
                    }
                }
            });
        } else {
            let own = k.left(lane, 3);
            let first = k.add(begin, own);
            let cols = k.int(self.cols);
            let inside = k.lt_u(first, cols);
            k.when(inside, |k| {
                let bytes = k.left(first, if self.ty == Type::F32 { 2 } else { 1 });
                let block = k.add(from, bytes);
                let values = plain(k, self.ty, table, block);
                let place = k.left(first, 2);
                let place = k.add(place, to);
                for (values, half) in values.chunks(4).zip(0..) {
                    let values: Vec<Value> = values.iter().map(|value| k.fmul(*value, scale)).collect();
                    let values = k.pack(&values);
                    k.store(at(k.global(out, place), 16 * half), Width::Dwords(4), values);
                }
            });
        }
        k.finish()
    }
}

/// Four codes as floats.
fn four(k: &mut Builder, codes: Value, signed: bool) -> [Value; 4] {
    if !signed {
        return core::array::from_fn(|index| k.byte_to_float(codes, index as u8));
    }
    // Biased by 128 they are unsigned.
    let bias = k.int(0x8080_8080);
    let biased = k.xor(codes, bias);
    core::array::from_fn(|index| {
        let value = k.byte_to_float(biased, index as u8);
        let middle = k.float(128.0);
        k.fsub(value, middle)
    })
}

impl SelectRows {
    /// Unique name.
    pub(crate) fn name(self) -> String {
        format!("select_{}", self.cols)
    }

    /// The function.
    pub(crate) fn function(self) -> Function {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (outputs, input, out) = (k.buffer("outputs"), k.buffer("input"), k.buffer("out"));
        let row = k.workgroup_id(Axis::Y);
        let place = k.left(row, 2);
        let source = k.read_same(outputs, place);
        let number = k.workgroup_id(Axis::X);
        let begin = k.times(number, WORKGROUP);
        let item = k.workitem_id();
        let column = k.add(begin, item);
        let cols = k.int(self.cols);
        let inside = k.lt_u(column, cols);
        k.when(inside, |k| {
            let place = k.left(column, 2);
            let (from, to) = (k.times(source, 4 * self.cols), k.times(row, 4 * self.cols));
            let (from, to) = (k.add(from, place), k.add(to, place));
            let value = k.read(input, from);
            k.write(out, to, value);
        });
        k.finish()
    }
}
