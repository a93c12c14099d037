//! Weights on their way to LDS: rows of 128 columns as f16, unpacked by the whole workgroup, 32 weights a work item.
//!
//! Loading and unpacking are apart, so that loads are in flight while the tile before is multiplied.

use crate::idiom::{Idiom, at};
use crate::unpack::{Format, Run, is_coded};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width};
use doorbell_core::quant::Type;

/// Columns that activations are padded to: a block of the widest format.
pub(crate) const STEP: u32 = 256;
/// Columns of a tile; half a step.
pub(crate) const CHUNK: u32 = STEP / 2;
/// Bytes from row to row in LDS: 16 more than the data, so that lanes of one fragment meet different banks.
pub(crate) const STRIDE: u32 = 2 * CHUNK + 16;

/// A work item's place in 256 columns of a type. Made anew where it is used: registers are scarcer than the few
/// operations that it takes.
pub(crate) struct Layout {
    /// The type.
    pub(crate) kind: Type,
    /// The work item's eighth.
    part: Value,
    format: Option<Format>,
}

impl Layout {
    /// In half `half` of the columns.
    pub(crate) fn new(k: &mut Builder, kind: Type, half: u32) -> Self {
        let item = k.workitem_id();
        let part = k.mask(item, 3);
        let part = k.plus(part, 4 * half);
        let format = (is_coded(kind) == Some(true)).then(|| Format::new(k, kind, part));
        Self { kind, part, format }
    }
}

/// Rows of one matrix on their way into LDS.
pub(crate) struct Stage {
    kind: Type,
    cols: u32,
    base: Value,
    /// Byte offset of the work item's row in the matrix.
    row: Value,
    /// Byte offset in LDS of the work item's first element.
    place: Value,
}

impl Stage {
    /// Rows that a workgroup of so many work items takes.
    pub(crate) fn rows(items: u32) -> u32 {
        items / 4
    }

    /// Rows from `first` on (at most `last`) of a matrix, to LDS from byte `lds`.
    pub(crate) fn new(k: &mut Builder, kind: Type, cols: u32, matrix: [Value; 3], lds: u32) -> Self {
        let [base, first, last] = matrix;
        let item = k.workitem_id();
        let part = k.mask(item, 3);
        let own = k.right(item, 2);
        let row = k.add(first, own);
        let row = k.min_u(row, last);
        let row_bytes = kind.row_bytes(cols as usize).unwrap_or(0) as u32;
        let row = k.times(row, row_bytes);
        let first = match Layout::new(k, kind, 0).format {
            Some(format) => format.spread.first(k, part),
            None => k.left(part, 5),
        };
        let place = k.times(own, STRIDE);
        let first = k.left(first, 1);
        let place = k.add(place, first);
        let place = k.plus(place, lds);
        Self { kind, cols, base, row, place }
    }

    /// The type of the weights.
    pub(crate) fn kind(&self) -> Type {
        self.kind
    }

    /// Loads the work item's weights of columns `256 * step..`, in the half of `layout`, which is of the stage's type.
    pub(crate) fn fetch(&self, k: &mut Builder, step: Value, layout: &Layout) -> Vec<Value> {
        let Some(format) = &layout.format else { return self.fetch_floats(k, step, layout.part) };
        let start = format.start(k, layout.part);
        let ahead = k.times(step, format.advance / 4);
        let offset = k.add(start, ahead);
        let last = k.int(format.last(self.cols));
        let offset = k.min_u(offset, last);
        let offset = k.add(self.row, offset);
        format.load(k, self.base, offset)
    }

    /// Registers that those take.
    pub(crate) fn registers(&self) -> usize {
        match self.kind {
            Type::F32 => 32,
            Type::F16 | Type::BF16 => 16,
            Type::Q5_K => 12,
            Type::Q6_K => 11,
            Type::Q8_0 => 9,
            Type::Q4_K => 8,
            _ => 6,
        }
    }

    /// How many values [`Stage::fetch`] loads.
    pub(crate) fn values(&self) -> usize {
        match self.kind {
            Type::F32 => 8,
            Type::F16 | Type::BF16 => 4,
            kind => crate::unpack::values(kind),
        }
    }

    /// Unpacks what [`Stage::fetch`] loaded into LDS; what is beyond the last column becomes zero.
    pub(crate) fn keep(&self, k: &mut Builder, step: Value, layout: &Layout, loaded: &[Value]) {
        let runs = match &layout.format {
            Some(format) => format.runs(k, loaded).map(|run| decode(k, &run, format.signed)),
            None => self.floats(k, loaded),
        };
        let distance = layout.format.as_ref().map_or(16, |format| format.spread.distance());
        let inside = self.inside(k, step, layout, distance);
        for ((number, values), inside) in (0u32..).zip(runs).zip(inside) {
            let zero = k.float(0.0);
            let values: Vec<Value> = values
                .into_iter()
                .map(|value| inside.map_or(value, |inside| k.select(inside, value, zero)))
                .collect();
            for (quarter, values) in (0u32..).zip(values.chunks(8)) {
                let pairs: Vec<Value> = values.chunks(2).map(|pair| halved(k, pair)).collect();
                let pairs = k.pack(&pairs);
                let address = at(k.lds(self.place), 2 * distance * number + 16 * quarter);
                k.store(address, Width::Dwords(4), pairs);
            }
        }
    }

    /// Whether the runs of a half lie within the row; `None` where all do.
    fn inside(&self, k: &mut Builder, step: Value, layout: &Layout, distance: u32) -> [Option<Value>; 2] {
        if self.cols.is_multiple_of(STEP) {
            return [None; 2];
        }
        let first = match &layout.format {
            Some(format) => format.spread.first(k, layout.part),
            None => k.left(layout.part, 5),
        };
        let start = k.left(step, STEP.trailing_zeros());
        let start = k.add(start, first);
        [0, distance].map(|later| {
            let start = k.plus(start, later);
            let cols = k.int(self.cols);
            Some(k.lt_u(start, cols))
        })
    }

    /// 32 floats of any width.
    fn fetch_floats(&self, k: &mut Builder, step: Value, part: Value) -> Vec<Value> {
        let wide = self.kind == Type::F32;
        let bytes = if wide { 4 } else { 2 };
        let ahead = k.times(step, STEP * bytes);
        let own = k.times(part, 32 * bytes);
        let offset = k.add(ahead, own);
        let last = k.int((self.cols - 32) * bytes);
        let offset = k.min_u(offset, last);
        let offset = k.add(self.row, offset);
        let elem = if wide { Elem::Float } else { Elem::Int };
        (0..2 * bytes)
            .map(|quad| k.load(at(k.global(self.base, offset), 16 * quad), Width::Dwords(4), elem))
            .collect()
    }

    fn floats(&self, k: &mut Builder, loaded: &[Value]) -> [Vec<Value>; 2] {
        let mut values = Vec::new();
        for quad in loaded {
            for dword in k.elements(*quad, 4) {
                match self.kind {
                    Type::F32 => values.push(dword),
                    Type::F16 => values.extend(k.halves(dword)),
                    _ => values.extend([k.bf16_low(dword), k.bf16_high(dword)]),
                }
            }
        }
        let second = values.split_off(16);
        [values, second]
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

fn halved(k: &mut Builder, pair: &[Value]) -> Value {
    let pair = k.half_pair(pair[0], pair[1]);
    k.bits(pair, Elem::Int)
}
