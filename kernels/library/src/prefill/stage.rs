//! Weight tiles in LDS: 64 rows of 256 columns as f16, unpacked by the whole workgroup.

use crate::idiom::{Idiom, at};
use crate::unpack::{Format, Run, is_coded};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width};
use doorbell_core::quant::Type;

/// Columns of a tile.
pub(crate) const STEP: u32 = 256;
/// Rows that the workgroup unpacks at a time: eight work items a row.
pub(crate) const ROWS: u32 = 32;
/// Bytes from row to row in LDS: 16 more than the data, so that lanes of one fragment meet different banks.
pub(crate) const STRIDE: u32 = 2 * STEP + 16;

/// Rows of one matrix on their way into LDS.
pub(crate) struct Stage {
    kind: Type,
    cols: u32,
    base: Value,
    /// Byte offset of the work item's row in the matrix.
    row: Value,
    /// The work item's part of 256 columns.
    part: Value,
    coded: Option<Format>,
    /// Byte offset in LDS of the work item's first element.
    place: Value,
}

impl Stage {
    /// Rows `first..first + 32` (at most `last`) of a matrix, to LDS from byte `lds`.
    pub(crate) fn new(k: &mut Builder, kind: Type, cols: u32, matrix: [Value; 3], lds: u32) -> Self {
        let [base, first, last] = matrix;
        let item = k.workitem_id();
        let part = k.mask(item, 7);
        let own = k.right(item, 3);
        let row = k.add(first, own);
        let row = k.min_u(row, last);
        let row_bytes = kind.row_bytes(cols as usize).unwrap_or(0) as u32;
        let row = k.times(row, row_bytes);
        let coded = (is_coded(kind) == Some(true)).then(|| Format::new(k, kind, part));
        let first = match &coded {
            Some(format) => format.spread.first(k, part),
            None => k.left(part, 5),
        };
        let place = k.times(own, STRIDE);
        let first = k.left(first, 1);
        let place = k.add(place, first);
        let place = k.plus(place, lds);
        Self { kind, cols, base, row, part, coded, place }
    }

    /// Unpacks columns `256 * step..` of the rows into LDS; what is beyond the last column becomes zero.
    pub(crate) fn fill(&self, k: &mut Builder, step: Value) {
        let runs = match &self.coded {
            Some(format) => self.codes(k, format, step),
            None => self.floats(k, step),
        };
        let distance = self.coded.as_ref().map_or(16, |format| format.spread.distance());
        for (number, values) in (0u32..).zip(runs) {
            for (quarter, values) in (0u32..).zip(values.chunks(8)) {
                let pairs: Vec<Value> = values.chunks(2).map(|pair| half(k, pair)).collect();
                let pairs = k.pack(&pairs);
                let address = at(k.lds(self.place), 2 * distance * number + 16 * quarter);
                k.store(address, Width::Dwords(4), pairs);
            }
        }
    }

    /// Whether the runs of the step lie within the row.
    fn inside(&self, k: &mut Builder, step: Value, first: Value, distance: u32) -> [Value; 2] {
        let start = k.left(step, STEP.trailing_zeros());
        let start = k.add(start, first);
        [0, distance].map(|later| {
            let start = k.plus(start, later);
            let cols = k.int(self.cols);
            k.lt_u(start, cols)
        })
    }

    fn codes(&self, k: &mut Builder, format: &Format, step: Value) -> [Vec<Value>; 2] {
        let start = format.start(k, self.part);
        let ahead = k.times(step, format.advance / 4);
        let offset = k.add(start, ahead);
        let last = k.int(format.last(self.cols));
        let offset = k.min_u(offset, last);
        let offset = k.add(self.row, offset);
        let runs = format.unit(k, self.base, offset);
        let first = format.spread.first(k, self.part);
        let inside = self.inside(k, step, first, format.spread.distance());
        let whole = self.cols.is_multiple_of(STEP);
        let mut number = 0;
        runs.map(|run| {
            let values = decode(k, &run, format.signed);
            let inside = inside[number];
            number += 1;
            if whole {
                return values;
            }
            let zero = k.float(0.0);
            values.into_iter().map(|value| k.select(inside, value, zero)).collect()
        })
    }

    fn floats(&self, k: &mut Builder, step: Value) -> [Vec<Value>; 2] {
        let first = k.left(self.part, 5);
        let inside = self.inside(k, step, first, 16);
        let wide = self.kind == Type::F32;
        let bytes = if wide { 4 } else { 2 };
        let ahead = k.times(step, STEP * bytes);
        let own = k.times(first, bytes);
        let offset = k.add(ahead, own);
        let mut number = 0;
        inside.map(|inside| {
            let last = k.int((self.cols - 16) * bytes);
            let offset = k.plus(offset, 16 * bytes * number);
            number += 1;
            let offset = k.min_u(offset, last);
            let offset = k.add(self.row, offset);
            let values = self.sixteen(k, offset);
            let zero = k.float(0.0);
            values.into_iter().map(|value| k.select(inside, value, zero)).collect()
        })
    }

    /// Sixteen floats of any width at a byte offset.
    fn sixteen(&self, k: &mut Builder, offset: Value) -> Vec<Value> {
        let quads = if self.kind == Type::F32 { 4 } else { 2 };
        let mut values = Vec::new();
        for quad in 0..quads {
            let elem = if self.kind == Type::F32 { Elem::Float } else { Elem::Int };
            let dwords = k.load(at(k.global(self.base, offset), 16 * quad), Width::Dwords(4), elem);
            for dword in k.elements(dwords, 4) {
                match self.kind {
                    Type::F32 => values.push(dword),
                    Type::F16 => values.extend(k.halves(dword)),
                    _ => values.extend([k.bf16_low(dword), k.bf16_high(dword)]),
                }
            }
        }
        values
    }
}

/// A run's sixteen weights.
fn decode(k: &mut Builder, run: &Run, signed: bool) -> Vec<Value> {
    let mut minimum = run.minimum;
    if signed {
        let bias = k.scaled(run.scale, -128.0);
        minimum = Some(match minimum {
            Some(minimum) => k.fadd(minimum, bias),
            None => bias,
        });
    }
    let mut values = Vec::new();
    for code in run.codes {
        let code = if signed {
            let flip = k.int(0x8080_8080);
            k.xor(code, flip)
        } else {
            code
        };
        for byte in 0..4 {
            let number = k.byte_to_float(code, byte);
            values.push(match minimum {
                Some(minimum) => k.fma(number, run.scale, minimum),
                None => k.fmul(number, run.scale),
            });
        }
    }
    values
}

fn half(k: &mut Builder, pair: &[Value]) -> Value {
    let pair = k.half_pair(pair[0], pair[1]);
    k.bits(pair, Elem::Int)
}
