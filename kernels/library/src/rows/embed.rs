//! Rows by number: token embeddings, and the rows of a batch whose result is wanted.

use crate::builder_ext::BuilderExt;
use crate::formats::floats;
use crate::formats::lane_format::LaneFormat;
use crate::formats::run::Run;
use crate::formats::spec::FormatSpec;
use crate::gemv::activations::WORKGROUP;
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value, Width, global};
use doorbell_compiler::isa::Target;
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

/// A wave's part of a row.
struct RowPart {
    table: Value,
    scale: Value,
    out: Value,
    /// Byte of the row in the table.
    from: Value,
    /// Byte of the row in the output.
    to: Value,
    /// Number of the part in the row.
    number: Value,
    /// First element of the part.
    begin: Value,
    lane: Value,
}

impl Embedding {
    /// Elements of a workgroup, which is one wave.
    pub(crate) fn stride(self) -> u32 {
        if self.is_coded() { 1024 } else { 256 }
    }

    fn is_coded(self) -> bool {
        FormatSpec::of(self.ty).is_coded()
    }

    /// Unpacks the lane's two runs of codes.
    fn coded(self, k: &mut Builder, part: &RowPart) {
        let format = LaneFormat::new(k, self.ty, part.lane);
        let own = format.spread.first(k, part.lane);
        let first = k.eval(part.begin + own);
        k.when(first.lt(self.cols), |k| {
            let start = format.start(k, part.lane);
            let block = k.eval(start + part.number * format.advance + part.from);
            let runs = format.unit(k, part.table, block);
            let offset = k.eval((first << 2) + part.to);
            for (run, half) in runs.iter().zip(0..) {
                for (dword, codes) in run.codes.iter().zip(0..) {
                    let values = four(k, *dword, format.spec.is_signed());
                    let values = values.map(|code| scaled(k, run, code, part.scale));
                    let packed = k.pack(&values);
                    let ahead = 4 * half * format.spread.distance() + 16 * codes;
                    k.store(global(part.out, offset).plus(ahead), Width::Dwords(4), packed);
                }
            }
        });
    }

    /// Converts the lane's eight floats.
    fn floats(self, k: &mut Builder, part: &RowPart) {
        let first = k.eval(part.begin + (part.lane << 3));
        k.when(first.lt(self.cols), |k| {
            let bytes = k.eval(first << floats::byte_shift(self.ty));
            let block = k.add(part.from, bytes);
            let values = floats::eight(k, self.ty, part.table, block);
            let offset = k.eval((first << 2) + part.to);
            for (values, half) in values.chunks(4).zip(0..) {
                let scaled: Vec<Value> = values.iter().map(|value| k.fmul(*value, part.scale)).collect();
                let packed = k.pack(&scaled);
                k.store(global(part.out, offset).plus(16 * half), Width::Dwords(4), packed);
            }
        });
    }
}

impl Kernel for Embedding {
    fn name(&self) -> String {
        format!("embed_{}_{}", self.cols, self.ty)
    }

    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), 32);
        let (tokens, table) = (k.buffer("tokens"), k.buffer("table"));
        let scale = k.scalar("scale", Elem::Float);
        let out = k.buffer("out");
        let row = k.workgroup_id(Axis::Y);
        let token = k.read_same(tokens, row << 2);
        let bytes = self.ty.row_bytes(self.cols as usize).unwrap_or(0) as u32;
        let from = k.eval(token * bytes);
        let to = k.eval(row * (4 * self.cols));
        let number = k.workgroup_id(Axis::X);
        let begin = k.eval(number * self.stride());
        let lane = k.lane();
        let part = RowPart { table, scale, out, from, to, number, begin, lane };
        if self.is_coded() {
            self.coded(&mut k, &part)
        } else {
            self.floats(&mut k, &part)
        }
        Ok(k.finish())
    }
}

/// A code as a weight times `scale`.
fn scaled(k: &mut Builder, run: &Run, code: Value, scale: Value) -> Value {
    let weight = match run.minimum {
        Some(minimum) => k.fma(code, run.scale, minimum),
        None => k.fmul(code, run.scale),
    };
    k.fmul(weight, scale)
}

/// Four codes as floats.
fn four(k: &mut Builder, codes: Value, signed: bool) -> [Value; 4] {
    if !signed {
        return core::array::from_fn(|index| k.byte_to_float(codes, index as u8));
    }
    // Biased by 128 they are unsigned.
    let biased = k.xor(codes, 0x8080_8080);
    core::array::from_fn(|index| {
        let value = k.byte_to_float(biased, index as u8);
        k.fsub(value, 128.0)
    })
}

impl Kernel for SelectRows {
    fn name(&self) -> String {
        format!("select_{}", self.cols)
    }

    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (outputs, input, out) = (k.buffer("outputs"), k.buffer("input"), k.buffer("out"));
        let row = k.workgroup_id(Axis::Y);
        let source = k.read_same(outputs, row << 2);
        let number = k.workgroup_id(Axis::X);
        let begin = k.eval(number * WORKGROUP);
        let item = k.workitem_id();
        let column = k.eval(begin + item);
        k.when(column.lt(self.cols), |k| {
            let bytes = k.eval(column << 2);
            let (source_row, row) = (k.eval(source * (4 * self.cols)), k.eval(row * (4 * self.cols)));
            let (from, to) = (k.eval(source_row + bytes), k.eval(row + bytes));
            let value = k.read(input, from);
            k.write(out, to, value);
        });
        Ok(k.finish())
    }
}
