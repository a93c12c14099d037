//! Keys and values of a step on their way to LDS: keys as rows of f16, values turned so that an element's positions
//! are neighbors.
//!
//! Positions that no row sees repeat one that is seen: their weight is zero, and what a page holds there may be anything.

use crate::attention::kv_elements::{pairs, raw, raw_count, row_bytes};
use crate::attention::prefill::kernel::PrefillAttention;
use crate::attention::shape::PAGE;
use crate::builder_ext::{BuilderExt, at};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width};

/// Positions that rows with one page table see; all uniform.
pub(crate) struct PositionRange {
    /// First entry of the page table.
    pub(crate) table: Value,
    /// First position.
    pub(crate) low: Value,
    /// Last position.
    pub(crate) last: Value,
}

/// Where a step's keys and values come from and lie.
pub(crate) struct KvTiles {
    flash: PrefillAttention,
    pages: Value,
    keys: Value,
    values: Value,
    /// KV head.
    head: Value,
    /// LDS of keys and of values.
    local: [u32; 2],
}

impl KvTiles {
    /// `[pages, keys, values, head]`: page tables, both caches of the layer, the KV head.
    pub(crate) fn new(
        k: &mut Builder,
        flash: PrefillAttention,
        [pages, keys, values, head]: [Value; 4],
    ) -> Self {
        let [key, value] = flash.shape.dims;
        let step = flash.step();
        let local = [k.local(step * Self::key_stride(key)), k.local(value * Self::value_stride(step))];
        Self { flash, pages, keys, values, head, local }
    }

    /// Bytes from key to key: 16 more than the data, so that lanes of one fragment meet different banks.
    fn key_stride(key: u32) -> u32 {
        2 * key + 16
    }

    /// Bytes from one element's positions to the next one's.
    fn value_stride(step: u32) -> u32 {
        2 * step + 16
    }

    /// Byte offset of a lane's row of keys.
    pub(crate) fn key_row(&self, k: &mut Builder, row: Value) -> Value {
        let row = k.times(row, Self::key_stride(self.flash.shape.dims[0]));
        k.plus(row, self.local[0])
    }

    /// Byte offset of a lane's element of values.
    pub(crate) fn value_row(&self, k: &mut Builder, row: Value) -> Value {
        let row = k.times(row, Self::value_stride(self.flash.step()));
        k.plus(row, self.local[1])
    }

    /// Bytes to the block's first position of keys.
    pub(crate) fn key_block(&self, block: u32) -> u32 {
        16 * block * Self::key_stride(self.flash.shape.dims[0])
    }

    /// Bytes to the block's first element of values.
    pub(crate) fn value_block(&self, block: u32) -> u32 {
        16 * block * Self::value_stride(self.flash.step())
    }

    fn threads(&self) -> u32 {
        32 * self.flash.waves()
    }

    /// Pieces of eight elements of keys in a step.
    fn key_pieces(&self) -> u32 {
        self.flash.step() * self.flash.shape.dims[0] / 8
    }

    /// Squares of four positions by four elements of values in a step.
    fn squares(&self) -> u32 {
        self.flash.step() * self.flash.shape.dims[1] / 16
    }

    /// A step's keys and values in registers: the work item's pieces, then the lines of its squares.
    pub(crate) fn fetch(&self, k: &mut Builder, extent: &PositionRange, step: Value) -> Vec<Value> {
        let begin = k.left(step, self.flash.step().trailing_zeros());
        let page = k.right(begin, PAGE.trailing_zeros());
        let entry = k.add(extent.table, page);
        let entry = k.left(entry, 2);
        let id = k.load_uniform(k.global(self.pages, entry), Width::Dwords(1), Elem::Int);
        let [keys, values] = [(self.keys, 0), (self.values, 1)].map(|(base, which)| {
            let bytes = k.int(self.flash.shape.pages[which]);
            let offset = k.wide_mul(id, bytes);
            let page = k.wide_add(base, offset);
            let row = row_bytes(self.flash.shape.kv_type, self.flash.shape.dims[which]);
            let head = k.times(self.head, PAGE * row);
            k.wide_add(page, head)
        });
        let mut fetched = Vec::new();
        for piece in self.numbers(self.key_pieces()) {
            let piece = self.number(k, piece, self.key_pieces());
            let (row, chunk) = divided(k, piece, self.flash.shape.dims[0] / 8);
            let start = self.start(k, extent, begin, row, 0);
            let element = k.left(chunk, 3);
            fetched.extend(raw(k, self.flash.shape.kv_type, [keys, start, element], 8));
        }
        for square in self.numbers(self.squares()) {
            let square = self.number(k, square, self.squares());
            let (quad, first) = divided(k, square, self.flash.step() / 4);
            let element = k.left(quad, 2);
            let first = k.left(first, 2);
            for line in 0..4 {
                let row = k.plus(first, line);
                let start = self.start(k, extent, begin, row, 1);
                fetched.extend(raw(k, self.flash.shape.kv_type, [values, start, element], 4));
            }
        }
        fetched
    }

    /// Numbers that a work item takes of so many.
    fn numbers(&self, all: u32) -> core::ops::Range<u32> {
        0..all.div_ceil(self.threads())
    }

    /// The work item's number in round `round`, at most the last.
    fn number(&self, k: &mut Builder, round: u32, all: u32) -> Value {
        let item = k.workitem_id();
        let number = k.plus(item, round * self.threads());
        if (round + 1) * self.threads() <= all {
            return number;
        }
        let last = k.int(all - 1);
        k.min_u(number, last)
    }

    /// Byte offset in the head's page of the position that is `row` after `begin`.
    fn start(
        &self,
        k: &mut Builder,
        extent: &PositionRange,
        begin: Value,
        row: Value,
        which: usize,
    ) -> Value {
        let position = k.add(begin, row);
        let position = k.max_u(position, extent.low);
        let position = k.min_u(position, extent.last);
        let position = k.mask(position, PAGE - 1);
        k.times(position, row_bytes(self.flash.shape.kv_type, self.flash.shape.dims[which]))
    }

    /// Puts what was fetched to LDS.
    pub(crate) fn keep(&self, k: &mut Builder, fetched: &[Value]) {
        let kv_type = self.flash.shape.kv_type;
        let each = raw_count(kv_type);
        let (pieces, lines) = fetched.split_at(each * self.numbers(self.key_pieces()).len());
        for (round, piece) in (0u32..).zip(pieces.chunks(each)) {
            let all = self.key_pieces();
            self.each(k, round, all, |k, number| {
                let (row, chunk) = divided(k, number, self.flash.shape.dims[0] / 8);
                let row = k.times(row, Self::key_stride(self.flash.shape.dims[0]));
                let chunk = k.left(chunk, 4);
                let to = k.add(row, chunk);
                let pairs = pairs(k, kv_type, piece, 8);
                let pairs = k.pack(&pairs);
                k.store(at(k.lds(to), self.local[0]), Width::Dwords(4), pairs);
            });
        }
        for (round, lines) in (0u32..).zip(lines.chunks(4 * each)) {
            self.each(k, round, self.squares(), |k, number| {
                let lines: Vec<Vec<Value>> =
                    lines.chunks(each).map(|line| pairs(k, kv_type, line, 4)).collect();
                let (quad, first) = divided(k, number, self.flash.step() / 4);
                let stride = Self::value_stride(self.flash.step());
                let to = k.times(quad, 4 * stride);
                let first = k.left(first, 3);
                let to = k.add(to, first);
                for element in 0..4u32 {
                    let turned = [0, 2].map(|line| {
                        let [low, high] = [0, 1].map(|next| lines[line + next][element as usize / 2]);
                        let order = k.int(if element.is_multiple_of(2) { 0x0504_0100 } else { 0x0706_0302 });
                        k.alu(Alu::perm, &[high, low, order])
                    });
                    let turned = k.pack(&turned);
                    let address = at(k.lds(to), self.local[1] + element * stride);
                    k.store(address, Width::Dwords(2), turned);
                }
            });
        }
    }

    /// Runs `body` for the work item's number in a round, if there is one.
    fn each(&self, k: &mut Builder, round: u32, all: u32, body: impl FnOnce(&mut Builder, Value)) {
        let item = k.workitem_id();
        let number = k.plus(item, round * self.threads());
        if (round + 1) * self.threads() <= all {
            return body(k, number);
        }
        let all = k.int(all);
        let inside = k.lt_u(number, all);
        k.when(inside, |k| body(k, number));
    }
}

/// Quotient and remainder; numbers are far below 2^16.
fn divided(k: &mut Builder, number: Value, by: u32) -> (Value, Value) {
    let quotient = k.over(number, by);
    if by.is_power_of_two() {
        return (quotient, k.mask(number, by - 1));
    }
    let whole = k.times(quotient, by);
    (quotient, k.sub(number, whole))
}
