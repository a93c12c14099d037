//! The kernel of attention row by row: grid X splits, Y heads, Z rows.

use super::cells::wide_load;
use super::softmax::{Running, Visible, alone, merge};
use super::{Attention, PAGE, WAVES};
use crate::idiom::{Idiom, at};
use alloc::vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value, Width};

/// The kernel's arguments.
pub(super) struct Arguments {
    pub(super) positions: Value,
    pub(super) tables: Value,
    pub(super) pages: Value,
    pub(super) query: Value,
    pub(super) keys: Value,
    pub(super) values: Value,
    pub(super) sinks: Option<Value>,
    pub(super) out: Value,
    /// Counters and partial results.
    pub(super) spread: Option<[Value; 2]>,
    pub(super) scale: Value,
    pub(super) splits: Option<Value>,
    pub(super) rows: Option<Value>,
}

/// Arguments and what all parts of the kernel know.
pub(super) struct Known {
    pub(super) pages: Value,
    pub(super) keys: Value,
    pub(super) values: Value,
    /// First entry of the row's page table.
    pub(super) table: Value,
    /// KV head.
    pub(super) head: Value,
    /// Position of the row and first that it sees.
    pub(super) seen: [Value; 2],
    /// Factor on scores.
    pub(super) scale: Value,
    /// LDS: queries, probabilities, page results, page maxima and sums.
    pub(super) local: [u32; 4],
}

/// The workgroup's heads and where the row's results go.
pub(super) struct Place {
    pub(super) row: Value,
    /// Number of the workgroup in the row.
    pub(super) number: Value,
    /// Heads before the row, the workgroup's first head in it, the group's last.
    pub(super) heads: [Value; 3],
    pub(super) wave: Value,
}

impl Attention {
    /// The function.
    pub(crate) fn function(self) -> Function {
        let mut k = Builder::new(&self.name(), 32 * WAVES);
        let arguments = self.arguments(&mut k);
        let (tile, [key_dim, value_dim]) = (self.tile(), self.shape.dims);
        let local = [
            k.local(4 * tile * key_dim),
            k.local(4 * WAVES * tile * PAGE),
            k.local(4 * WAVES * tile * value_dim),
            k.local(8 * WAVES * tile),
        ];
        let row = k.workgroup_id(Axis::Z);
        let place = k.left(row, 2);
        let table = k.load_uniform(k.global(arguments.tables, place), Width::Dwords(1), Elem::Int);
        match arguments.rows {
            Some(rows) => {
                let single = alone(&mut k, arguments.tables, [table, row, rows]);
                k.when(single, |k| self.row(k, &arguments, table, local));
            }
            None => self.row(&mut k, &arguments, table, local),
        }
        k.finish()
    }

    fn arguments(self, k: &mut Builder) -> Arguments {
        let [positions, tables, pages, query, keys, values] =
            ["positions", "tables", "pages", "query", "keys", "values"].map(|name| k.buffer(name));
        Arguments {
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
    fn row(self, k: &mut Builder, arguments: &Arguments, table: Value, local: [u32; 4]) {
        let Arguments { pages, keys, values, scale, .. } = *arguments;
        let (number, row) = (k.workgroup_id(Axis::Y), k.workgroup_id(Axis::Z));
        let place = k.left(row, 2);
        let position = k.read_same(arguments.positions, place);
        let head = k.right(number, self.tiles().trailing_zeros());
        let own_tile = k.mask(number, self.tiles() - 1);
        let first = Visible(self.shape.window).first(k, position);
        let known = Known { pages, keys, values, table, head, seen: [position, first], scale, local };
        let group_head = k.times(head, self.shape.group);
        let tile_head = k.times(own_tile, self.tile());
        let query_head = k.add(group_head, tile_head);
        let last_head = k.plus(group_head, self.shape.group - 1);
        let row_heads = k.times(row, self.shape.heads());
        let wave = k.wave();
        let own = Place { row, number, heads: [row_heads, query_head, last_head], wave };
        self.load_queries(k, arguments.query, own.heads, local[0]);
        let (page, last) = (k.right(first, PAGE.trailing_zeros()), k.right(position, PAGE.trailing_zeros()));
        let count = k.sub(last, page);
        let count = k.right(count, WAVES.trailing_zeros());
        let count = k.plus(count, 1);
        let initial = self.initial(k);
        let Some((spread, splits)) = arguments.spread.zip(arguments.splits) else {
            let (zero, one) = (k.int(0), k.int(1));
            let running = k.for_range([zero, count, one], &initial, |k, split, running| {
                k.barrier(false);
                let part = self.split(k, &known, split, [page, last]);
                merge(k, running, &part)
            });
            self.finish(k, arguments, &own, &running);
            return;
        };
        let split = k.workgroup_id(Axis::X);
        let here = k.lt_u(split, count);
        k.when(here, |k| {
            k.barrier(false);
            let part = self.split(k, &known, split, [page, last]);
            self.gather(k, arguments, &own, (spread, splits), [split, count], &part);
        });
    }

    /// Nothing seen yet.
    pub(super) fn initial(self, k: &mut Builder) -> Running {
        let mut running = vec![k.float(f32::NEG_INFINITY), k.float(0.0)];
        running.extend((0..self.width()).map(|_| k.float(0.0)));
        running
    }

    /// Queries to LDS: `[row_heads, first, last]` are heads before the row, the workgroup's first and the group's last.
    fn load_queries(self, k: &mut Builder, query: Value, [row_heads, first, last]: [Value; 3], local: u32) {
        let dim = self.shape.dims[0];
        let item = k.workitem_id();
        let limit = k.int(dim);
        for index in 0..self.tile() {
            let head = k.plus(first, index);
            let head = k.min_u(head, last);
            let head = k.add(head, row_heads);
            let start = k.times(head, 4 * dim);
            for begin in (0..dim).step_by(32 * WAVES as usize) {
                let element = k.plus(item, begin);
                let inside = k.lt_u(element, limit);
                k.when(inside, |k| {
                    let place = k.left(element, 2);
                    let from = k.add(place, start);
                    let value = k.read(query, from);
                    k.store(at(k.lds(place), local + 4 * index * dim), Width::Dwords(1), value);
                });
            }
        }
    }

    /// Eight pages of a row, merged; wave `h` has head `h` of the workgroup. Ends with LDS still being read.
    fn split(self, k: &mut Builder, known: &Known, split: Value, [page, last]: [Value; 2]) -> Running {
        let wave = k.wave();
        let first = k.times(split, WAVES);
        let first = k.add(first, page);
        let own = k.add(first, wave);
        let real = k.le_u(own, last);
        k.when(real, |k| self.page(k, known, own, wave));
        k.barrier(false);
        let left = k.sub(last, first);
        let left = k.plus(left, 1);
        let all = k.int(WAVES);
        let count = k.min_u(left, all);
        let most = k.int(self.tile() - 1);
        let head = k.min_u(wave, most);
        let [_, _, results, sums] = known.local;
        let initial = self.initial(k);
        let (zero, one) = (k.int(0), k.int(1));
        k.for_range([zero, count, one], &initial, |k, wave, running| {
            let row = k.times(wave, self.tile());
            let row = k.add(row, head);
            let pair = k.left(row, 3);
            let pair = k.load(at(k.lds(pair), sums), Width::Dwords(2), Elem::Float);
            let mut part = k.elements(pair, 2);
            let start = k.times(row, 4 * self.shape.dims[1]);
            let place = self.element(k);
            let place = k.left(place, 2);
            let place = k.add(place, start);
            part.extend(wide_load(k, self.width(), |k| at(k.lds(place), results)));
            merge(k, running, &part)
        })
    }

    /// The lane's first element of a value; lanes beyond the end repeat the last.
    pub(super) fn element(self, k: &mut Builder) -> Value {
        let lane = k.lane();
        let lanes = self.shape.dims[1] / self.width();
        let lane = if lanes < 32 {
            let last = k.int(lanes - 1);
            k.min_u(lane, last)
        } else {
            lane
        };
        k.times(lane, self.width())
    }
}
