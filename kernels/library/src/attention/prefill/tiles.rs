//! Keys and values of a step on their way to LDS: keys as rows of f16, values turned so that an element's positions
//! are neighbors.
//!
//! Positions that no row sees repeat one that is seen: their weight is zero, and a page may hold anything there.

use super::spec::PrefillAttention;
use crate::attention::kv_elements::{Row, pairs, raw, raw_count, row_bytes};
use crate::attention::shape::{AttentionInputs, PAGE};
use crate::builder_ext::BuilderExt;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Value, Width, lds};

/// Positions that rows with one page table see; all uniform.
pub(crate) struct PositionRange {
    /// First entry of the page table.
    pub(crate) table: Value,
    /// First position.
    pub(crate) low: Value,
    /// Last position.
    pub(crate) last: Value,
}

/// Sources of a step's keys and values, and their LDS.
pub(crate) struct KvTiles {
    spec: PrefillAttention,
    inputs: AttentionInputs,
    /// KV head.
    head: Value,
    /// LDS of keys.
    key_lds: u32,
    /// LDS of values.
    value_lds: u32,
}

impl KvTiles {
    /// Reserves LDS.
    pub(crate) fn new(k: &mut Builder, spec: PrefillAttention, inputs: AttentionInputs, head: Value) -> Self {
        let [key, value] = spec.shape.dims;
        let step = spec.step();
        let key_lds = k.local(step * Self::key_stride(key));
        let value_lds = k.local(value * Self::value_stride(step));
        Self { spec, inputs, head, key_lds, value_lds }
    }

    /// Bytes from key to key: 16 more than the data, so that lanes of one fragment use different banks.
    fn key_stride(key: u32) -> u32 {
        2 * key + 16
    }

    /// Bytes from one element's positions to the next one's.
    fn value_stride(step: u32) -> u32 {
        2 * step + 16
    }

    /// Byte offset of a lane's row of keys.
    pub(crate) fn key_row(&self, k: &mut Builder, row: Value) -> Value {
        k.eval(row * Self::key_stride(self.spec.shape.dims[0]) + self.key_lds)
    }

    /// Byte offset of a lane's element of values.
    pub(crate) fn value_row(&self, k: &mut Builder, row: Value) -> Value {
        k.eval(row * Self::value_stride(self.spec.step()) + self.value_lds)
    }

    /// Bytes to the block's first position of keys.
    pub(crate) fn key_block(&self, block: u32) -> u32 {
        16 * block * Self::key_stride(self.spec.shape.dims[0])
    }

    /// Bytes to the block's first element of values.
    pub(crate) fn value_block(&self, block: u32) -> u32 {
        16 * block * Self::value_stride(self.spec.step())
    }

    fn threads(&self) -> u32 {
        32 * self.spec.waves()
    }

    /// Pieces of eight elements of keys in a step.
    fn key_pieces(&self) -> u32 {
        self.spec.step() * self.spec.shape.dims[0] / 8
    }

    /// Squares of four positions by four elements of values in a step.
    fn squares(&self) -> u32 {
        self.spec.step() * self.spec.shape.dims[1] / 16
    }

    /// A step's keys and values in registers: the work item's pieces, then the lines of its squares.
    pub(crate) fn fetch(&self, k: &mut Builder, range: &PositionRange, step: Value) -> Vec<Value> {
        let shape = self.spec.shape;
        let begin = k.eval(step * self.spec.step());
        let page = k.eval(begin / PAGE);
        let id = k.read_uniform(self.inputs.pages, (range.table + page) << 2);
        let [keys, values] = [(self.inputs.keys, 0), (self.inputs.values, 1)].map(|(base, which)| {
            let bytes = k.int(shape.pages[which]);
            let offset = k.wide_mul(id, bytes);
            let page = k.wide_add(base, offset);
            k.wide_add(page, self.head * (PAGE * row_bytes(shape.kv_type, shape.dims[which])))
        });
        let mut fetched = Vec::new();
        for round in self.rounds(self.key_pieces()) {
            let piece = self.number(k, round, self.key_pieces());
            let Divided { quotient: row, remainder: chunk } = divided(k, piece, shape.dims[0] / 8);
            let start = self.start(k, range, begin, row, 0);
            let element = k.eval(chunk << 3);
            fetched.extend(raw(k, shape.kv_type, Row { base: keys, start }, element, 8));
        }
        for round in self.rounds(self.squares()) {
            let square = self.number(k, round, self.squares());
            let Divided { quotient, remainder } = divided(k, square, self.spec.step() / 4);
            let element = k.eval(quotient << 2);
            let first = k.eval(remainder << 2);
            for line in 0..4 {
                let row = k.eval(first + line);
                let start = self.start(k, range, begin, row, 1);
                fetched.extend(raw(k, shape.kv_type, Row { base: values, start }, element, 4));
            }
        }
        fetched
    }

    /// Rounds in which the work items take `all` numbers.
    fn rounds(&self, all: u32) -> core::ops::Range<u32> {
        0..all.div_ceil(self.threads())
    }

    /// The work item's number in a round, at most the last.
    fn number(&self, k: &mut Builder, round: u32, all: u32) -> Value {
        let item = k.workitem_id();
        let number = k.eval(item + round * self.threads());
        if (round + 1) * self.threads() <= all { number } else { k.min_u(number, all - 1) }
    }

    /// Byte offset in the head's page of the position that is `row` after `begin`, in keys (0) or values (1).
    fn start(&self, k: &mut Builder, range: &PositionRange, begin: Value, row: Value, which: usize) -> Value {
        let position = (begin + row).max(range.low).min(range.last) & (PAGE - 1);
        k.eval(position * row_bytes(self.spec.shape.kv_type, self.spec.shape.dims[which]))
    }

    /// Stores the loads of [`KvTiles::fetch`] to LDS.
    pub(crate) fn keep(&self, k: &mut Builder, fetched: &[Value]) {
        let each = raw_count(self.spec.shape.kv_type);
        let (pieces, lines) = fetched.split_at(each * self.rounds(self.key_pieces()).len());
        for (round, piece) in (0u32..).zip(pieces.chunks(each)) {
            self.each(k, round, self.key_pieces(), |k, number| self.keep_keys(k, number, piece));
        }
        for (round, lines) in (0u32..).zip(lines.chunks(4 * each)) {
            self.each(k, round, self.squares(), |k, number| self.keep_values(k, number, lines));
        }
    }

    /// Stores piece `number` of keys.
    fn keep_keys(&self, k: &mut Builder, number: Value, piece: &[Value]) {
        let shape = self.spec.shape;
        let Divided { quotient: row, remainder: chunk } = divided(k, number, shape.dims[0] / 8);
        let target = k.eval(row * Self::key_stride(shape.dims[0]) + (chunk << 4));
        let halves = pairs(k, shape.kv_type, piece, 8);
        let packed = k.pack(&halves);
        k.store(lds(target).plus(self.key_lds), Width::Dwords(4), packed);
    }

    /// Stores square `number` of values, turned.
    fn keep_values(&self, k: &mut Builder, number: Value, lines: &[Value]) {
        let ty = self.spec.shape.kv_type;
        let lines: Vec<Vec<Value>> = lines.chunks(raw_count(ty)).map(|line| pairs(k, ty, line, 4)).collect();
        let Divided { quotient, remainder } = divided(k, number, self.spec.step() / 4);
        let stride = Self::value_stride(self.spec.step());
        let target = k.eval(quotient * (4 * stride) + (remainder << 3));
        for element in 0..4u32 {
            let turned = [0, 2].map(|line| {
                let [low, high] = [0, 1].map(|next| lines[line + next][element as usize / 2]);
                let order = k.int(if element.is_multiple_of(2) { 0x0504_0100 } else { 0x0706_0302 });
                k.alu(Alu::perm, &[high, low, order])
            });
            let packed = k.pack(&turned);
            k.store(lds(target).plus(self.value_lds + element * stride), Width::Dwords(2), packed);
        }
    }

    /// Runs `body` for the work item's number in a round, if there is one.
    fn each(&self, k: &mut Builder, round: u32, all: u32, body: impl FnOnce(&mut Builder, Value)) {
        let item = k.workitem_id();
        let number = k.eval(item + round * self.threads());
        if (round + 1) * self.threads() <= all {
            return body(k, number);
        }
        k.when(number.lt(all), |k| body(k, number));
    }
}

/// Quotient and remainder.
struct Divided {
    quotient: Value,
    remainder: Value,
}

/// Divides numbers far below 2^16.
fn divided(k: &mut Builder, number: Value, by: u32) -> Divided {
    let quotient = k.eval(number / by);
    let remainder =
        if by.is_power_of_two() { k.eval(number & (by - 1)) } else { k.eval(number - quotient * by) };
    Divided { quotient, remainder }
}
