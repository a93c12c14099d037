//! The kernel of attention row by row: grid X heads, Y splits, Z rows.

use crate::attention::decode::spec::{DecodeAttention, PART, WAVES};
use crate::attention::softmax::{RunningSoftmax, Window, combined, is_single, merge};
use crate::builder_ext::{BuilderExt, at};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value, Width};

/// The kernel's arguments.
pub(crate) struct DecodeArguments {
    pub(crate) positions: Value,
    pub(crate) tables: Value,
    pub(crate) pages: Value,
    pub(crate) query: Value,
    pub(crate) keys: Value,
    pub(crate) values: Value,
    pub(crate) sinks: Option<Value>,
    pub(crate) out: Value,
    /// Counters and partial results.
    pub(crate) spread: Option<[Value; 2]>,
    pub(crate) scale: Value,
    pub(crate) splits: Option<Value>,
    pub(crate) rows: Option<Value>,
}

/// DecodeArguments and what all parts of the kernel know.
pub(crate) struct DecodeContext {
    pub(crate) pages: Value,
    pub(crate) keys: Value,
    pub(crate) values: Value,
    /// First entry of the row's page table.
    pub(crate) table: Value,
    /// KV head.
    pub(crate) head: Value,
    /// Position of the row and first that it sees.
    pub(crate) seen: [Value; 2],
    /// MatrixSpec on scores.
    pub(crate) scale: Value,
    /// The lane's elements of the workgroup's queries.
    pub(crate) queries: Vec<Vec<Value>>,
    /// LDS: shares, parts' results, their maxima and sums.
    pub(crate) local: [u32; 3],
}

/// The workgroup's heads and where the row's results go.
pub(crate) struct RowHeads {
    pub(crate) row: Value,
    /// Number of the workgroup in the row.
    pub(crate) number: Value,
    /// Heads before the row, the workgroup's first head in it, the group's last.
    pub(crate) heads: [Value; 3],
    pub(crate) slots: Vec<MergeSlot>,
}

/// An element of the workgroup's heads that a work item merges.
pub(crate) struct MergeSlot {
    /// Its number; the last one's is repeated.
    pub(crate) element: Value,
    /// Whether it is one.
    pub(crate) used: Value,
    /// Its head in the workgroup.
    pub(crate) head: Value,
}

impl DecodeAttention {
    /// The function.
    pub(crate) fn function(self) -> Function {
        let mut k = Builder::new(&self.name(), 32 * WAVES);
        let arguments = self.arguments(&mut k);
        let local = [
            k.local(4 * WAVES * self.tile() * PART),
            k.local(4 * WAVES * self.elements()),
            k.local(8 * WAVES * self.tile()),
        ];
        let row = k.workgroup_id(Axis::Z);
        let place = k.left(row, 2);
        let table = k.load_uniform(k.global(arguments.tables, place), Width::Dwords(1), Elem::Int);
        match arguments.rows {
            Some(rows) => {
                let single = is_single(&mut k, arguments.tables, [table, row, rows]);
                k.when(single, |k| self.row(k, &arguments, table, local));
            }
            None => self.row(&mut k, &arguments, table, local),
        }
        k.finish()
    }

    fn arguments(self, k: &mut Builder) -> DecodeArguments {
        let [positions, tables, pages, query, keys, values] =
            ["positions", "tables", "pages", "query", "keys", "values"].map(|name| k.buffer(name));
        DecodeArguments {
            positions,
            tables,
            pages,
            query,
            keys,
            values,
            sinks: self.shape.sinks.then(|| k.buffer("sinks")),
            out: k.buffer("out"),
            spread: self.spread.then(|| [k.buffer("counters"), k.buffer("partials")]),
            scale: k.scalar("scale", Elem::Float),
            splits: self.spread.then(|| k.scalar("splits", Elem::Int)),
            rows: self.single.then(|| k.scalar("rows", Elem::Int)),
        }
    }

    /// The workgroup's row, whose page table starts at entry `table`.
    fn row(self, k: &mut Builder, arguments: &DecodeArguments, table: Value, local: [u32; 3]) {
        let DecodeArguments { pages, keys, values, scale, .. } = *arguments;
        let (number, row) = (k.workgroup_id(Axis::X), k.workgroup_id(Axis::Z));
        let head = k.right(number, self.tiles().trailing_zeros());
        let own_tile = k.mask(number, self.tiles() - 1);
        let group_head = k.times(head, self.shape.group);
        let tile_head = k.times(own_tile, self.tile());
        let query_head = k.add(group_head, tile_head);
        let last_head = k.plus(group_head, self.shape.group - 1);
        let row_heads = k.times(row, self.shape.heads());
        let heads = [row_heads, query_head, last_head];
        let place = k.left(row, 2);
        let position = k.load(k.global(arguments.positions, place), Width::Dwords(1), Elem::Int);
        let queries = self.queries(k, arguments.query, heads);
        let position = k.first_lane(position);
        let first = Window(self.shape.window).first(k, position);
        let context = DecodeContext {
            pages,
            keys,
            values,
            table,
            head,
            seen: [position, first],
            scale,
            queries,
            local,
        };
        let own = RowHeads { row, number, heads, slots: self.merge_slots(k) };
        let bits = PART.trailing_zeros();
        let (part, last) = (k.right(first, bits), k.right(position, bits));
        let count = k.sub(last, part);
        let count = k.right(count, WAVES.trailing_zeros());
        let count = k.plus(count, 1);
        let Some((spread, splits)) = arguments.spread.zip(arguments.splits) else {
            let (zero, one) = (k.int(0), k.int(1));
            let initial = self.initial(k);
            let running = k.for_range([zero, count, one], &initial, |k, split, running| {
                k.barrier(false);
                let split = self.split(k, &context, &own, split, [part, last]);
                merge(k, running, &split)
            });
            self.finish(k, arguments, &own, &running);
            return;
        };
        let split = k.workgroup_id(Axis::Y);
        let here = k.lt_u(split, count);
        k.when(here, |k| {
            let result = self.split(k, &context, &own, split, [part, last]);
            self.gather(k, arguments, &own, (spread, splits), [split, count], &result);
        });
    }

    /// Nothing seen yet.
    pub(crate) fn initial(self, k: &mut Builder) -> RunningSoftmax {
        let none = [k.float(f32::NEG_INFINITY), k.float(0.0), k.float(0.0)];
        none.repeat(self.slots() as usize)
    }

    /// The elements that the work item merges.
    fn merge_slots(self, k: &mut Builder) -> Vec<MergeSlot> {
        let item = k.workitem_id();
        let all = k.int(self.elements());
        (0..self.slots())
            .map(|slot| {
                let element = k.plus(item, 32 * WAVES * slot);
                let used = k.lt_u(element, all);
                let last = k.int(self.elements() - 1);
                let element = k.min_u(element, last);
                let head = k.over(element, self.shape.dims[1]);
                MergeSlot { element, used, head }
            })
            .collect()
    }

    /// The lane's elements of queries, by head; nothing in lanes that are left over. `[row_heads, first, last]` are
    /// heads before the row, the workgroup's first and the group's last.
    fn queries(self, k: &mut Builder, query: Value, [row_heads, first, last]: [Value; 3]) -> Vec<Vec<Value>> {
        let lanes = self.lanes(0);
        let mut queries: Vec<Vec<Value>> = (0..self.tile()).map(|_| Vec::new()).collect();
        for index in 0..lanes.eights() {
            let element = lanes.element(k, index);
            let place = k.left(element, 2);
            for (own, number) in queries.iter_mut().zip(0..) {
                let head = k.plus(first, number);
                let head = k.min_u(head, last);
                let head = k.add(head, row_heads);
                let start = k.times(head, 4 * lanes.dim);
                let start = k.add(place, start);
                for half in 0..2 {
                    let address = at(k.global(query, start), 16 * half);
                    let loaded = k.load(address, Width::Dwords(4), Elem::Float);
                    own.extend(k.elements(loaded, 4));
                }
            }
            if lanes.ragged() {
                let (number, end) = (lanes.number(k, index), k.int(lanes.dim / 8));
                let (inside, zero) = (k.lt_u(number, end), k.float(0.0));
                for value in queries.iter_mut().flat_map(|own| own.iter_mut().skip(8 * index as usize)) {
                    *value = k.select(inside, *value, zero);
                }
            }
        }
        queries
    }

    /// Eight parts of a row, combined: of each slot maximum, sum, element. Ends with LDS still being read.
    fn split(
        self,
        k: &mut Builder,
        context: &DecodeContext,
        own: &RowHeads,
        split: Value,
        [part, last]: [Value; 2],
    ) -> RunningSoftmax {
        let wave = k.wave();
        let first = k.times(split, WAVES);
        let first = k.add(first, part);
        let mine = k.add(first, wave);
        let real = k.le_u(mine, last);
        k.when(real, |k| self.page(k, context, mine, wave));
        k.barrier(false);
        let [_, results, sums] = context.local;
        let left = k.sub(last, first);
        // Where there is no part, the last one stands with no share.
        let parts: Vec<[Value; 2]> = (0..WAVES)
            .map(|wave| {
                let wave = k.int(wave);
                [k.le_u(wave, left), k.min_u(wave, left)]
            })
            .collect();
        let mut running = Vec::new();
        for slot in &own.slots {
            let place = k.left(slot.element, 2);
            let pair = k.times(slot.head, 8 * WAVES);
            let mut loaded = Vec::new();
            for [real, wave] in &parts {
                let start = k.times(*wave, 4 * self.elements());
                let start = k.add(place, start);
                let element = k.load(at(k.lds(start), results), Width::Dwords(1), Elem::Float);
                let start = k.left(*wave, 3);
                let start = k.add(pair, start);
                let pair = k.load(at(k.lds(start), sums), Width::Dwords(2), Elem::Float);
                loaded.push((*real, pair, element));
            }
            let lowest = k.float(f32::NEG_INFINITY);
            let parts: Vec<[Value; 3]> = loaded
                .into_iter()
                .map(|(real, pair, element)| {
                    let largest = k.extract(pair, 0);
                    [k.select(real, largest, lowest), k.extract(pair, 1), element]
                })
                .collect();
            running.extend(combined(k, &parts));
        }
        running
    }
}
