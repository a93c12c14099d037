//! Causal attention over the paged KV cache: query heads that share keys and values share their loads.
//!
//! A wave takes a page: lanes are positions for the scores and elements for the values. Eight pages, one a wave, make
//! a split; pages are merged in order, then splits, always by [`merge`], so that a row's result depends on nothing but
//! the row. Few rows spread their splits over workgroups, the last of which merges; others take them one by one.

mod launch;

pub(crate) use launch::{attend, scratch_bytes, takes};

use super::idiom::{Idiom, LOG2_E, at};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Address, Alu, Axis, Builder, Elem, Function, Value, Width};
use doorbell_core::backend::KvType;
use doorbell_core::plan::PAGE_TOKENS;

/// Positions of a page.
const PAGE: u32 = PAGE_TOKENS as u32;
/// Waves of a workgroup, and pages of a split.
const WAVES: u32 = 8;

/// Attention of one head shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attention {
    /// KV heads.
    pub kv_heads: u32,
    /// Query heads per KV head.
    pub group: u32,
    /// Elements of a key and of a value.
    pub dims: [u32; 2],
    /// Bytes of an element of the cache.
    pub bytes: u32,
    /// Bytes of a page of all layers, of keys and of values.
    pub pages: [u32; 2],
    /// Positions visible.
    pub window: Option<u32>,
    /// Bits of the soft cap, 0 for none.
    pub cap: u32,
    /// Whether heads have a virtual score.
    pub sinks: bool,
    /// Whether splits are spread over workgroups.
    pub spread: bool,
}

/// Arguments and what all parts of the kernel know.
struct Known {
    pages: Value,
    keys: Value,
    values: Value,
    /// First entry of the row's page table.
    table: Value,
    /// KV head.
    head: Value,
    /// Position of the row and first that it sees.
    seen: [Value; 2],
    /// Factor on scores.
    scale: Value,
    /// LDS: queries, probabilities, page results, page maxima and sums.
    local: [u32; 4],
}

/// A softmax in progress: maximum (base-two logarithm), sum, the lane's elements.
type Running = Vec<Value>;

impl Attention {
    /// Workgroups that share a KV head.
    fn tiles(self) -> u32 {
        let most = (1024 / self.dims[1]).clamp(1, WAVES);
        self.group.div_ceil(most).next_power_of_two()
    }

    /// Query heads of a workgroup.
    fn tile(self) -> u32 {
        self.group.div_ceil(self.tiles())
    }

    /// Elements of a value per lane.
    fn width(self) -> u32 {
        self.dims[1].div_ceil(32).next_power_of_two()
    }

    /// Bytes of a partial result of one head: elements, maximum, sum, padding.
    fn head_bytes(self) -> u32 {
        4 * (self.dims[1] + 4)
    }

    /// Unique name.
    pub(crate) fn name(self) -> String {
        let [key, value] = self.dims;
        let window = self.window.unwrap_or(0);
        let flags = [(self.sinks, "_sinks"), (self.spread, "_spread")];
        let flags: String = flags.iter().filter(|flag| flag.0).map(|flag| flag.1).collect();
        format!(
            "attend_{}x{}_{key}x{value}b{}_p{}x{}_w{window}_c{:x}{flags}",
            self.kv_heads, self.group, self.bytes, self.pages[0], self.pages[1], self.cap
        )
    }

    /// The function.
    #[expect(clippy::too_many_lines, reason = "a kernel reads from top to bottom")]
    pub(crate) fn function(self) -> Function {
        let mut k = Builder::new(&self.name(), 32 * WAVES);
        let [positions, tables, pages, query, keys, values] =
            ["positions", "tables", "pages", "query", "keys", "values"].map(|name| k.buffer(name));
        let sinks = self.sinks.then(|| k.buffer("sinks"));
        let out = k.buffer("out");
        let spread = self.spread.then(|| [k.buffer("counters"), k.buffer("partials")]);
        let scale = k.scalar("scale", Elem::Float);
        let splits = self.spread.then(|| k.scalar("splits", Elem::Int));
        let (tile, [key_dim, value_dim]) = (self.tile(), self.dims);
        let local = [
            k.local(4 * tile * key_dim),
            k.local(4 * WAVES * tile * PAGE),
            k.local(4 * WAVES * tile * value_dim),
            k.local(8 * WAVES * tile),
        ];
        let slot = k.local(4);
        let (number, row) = (k.workgroup_id(Axis::Y), k.workgroup_id(Axis::Z));
        let place = k.left(row, 2);
        let position = k.read_same(positions, place);
        let table = k.load_uniform(k.global(tables, place), Width::Dwords(1), Elem::Int);
        let head = k.right(number, self.tiles().trailing_zeros());
        let own_tile = k.mask(number, self.tiles() - 1);
        let first = self.first_seen(&mut k, position);
        let known = Known { pages, keys, values, table, head, seen: [position, first], scale, local };
        // The first query head of the workgroup, in the row.
        let group_head = k.times(head, self.group);
        let tile_head = k.times(own_tile, tile);
        let query_head = k.add(group_head, tile_head);
        let last_head = k.plus(group_head, self.group - 1);
        let row_heads = k.times(row, self.kv_heads * self.group);
        self.load_queries(&mut k, query, [row_heads, query_head, last_head], local[0]);
        let (page, last) = (k.right(first, 5), k.right(position, 5));
        let count = k.sub(last, page);
        let count = k.right(count, WAVES.trailing_zeros());
        let count = k.plus(count, 1);
        let wave = k.wave();
        let finish = |k: &mut Builder, running: &[Value]| {
            let limit = k.int(tile);
            let own = k.add(query_head, wave);
            let used = k.lt_u(wave, limit);
            let inside = k.le_u(own, last_head);
            let used = k.both(used, inside);
            k.when(used, |k| {
                let running = self.with_sink(k, running, sinks, own);
                let head = k.add(row_heads, own);
                let start = k.times(head, 4 * value_dim);
                let inverse = k.rcp(running[1]);
                let values: Vec<Value> = running[2..].iter().map(|value| k.fmul(*value, inverse)).collect();
                self.store(k, out, start, &values);
            });
        };
        let initial = self.initial(&mut k);
        let Some(([counters, partials], splits)) = spread.zip(splits) else {
            let (zero, one) = (k.int(0), k.int(1));
            let running = k.for_range([zero, count, one], &initial, |k, split, running| {
                k.barrier(false);
                let part = self.split(k, &known, split, [page, last]);
                merge(k, running, &part)
            });
            finish(&mut k, &running);
            return k.finish();
        };
        let split = k.workgroup_id(Axis::X);
        let here = k.lt_u(split, count);
        k.when(here, |k| {
            k.barrier(false);
            let part = self.split(k, &known, split, [page, last]);
            let groups = self.kv_heads * self.tiles();
            let own = k.times(row, groups);
            let own = k.add(own, number);
            // `[row and workgroup, split, head, element]`, maximum and sum behind the elements.
            let head_bytes = self.head_bytes();
            let begin = k.mul(own, splits);
            let begin = k.times(begin, tile * head_bytes);
            let at_split = |k: &mut Builder, split: Value| {
                let start = k.times(split, tile * head_bytes);
                let start = k.add(start, begin);
                let head = k.times(wave, head_bytes);
                k.add(start, head)
            };
            let limit = k.int(tile);
            let used = k.lt_u(wave, limit);
            k.when(used, |k| {
                let start = at_split(k, split);
                self.store(k, partials, start, &part[2..]);
                let pair = k.pack(&part[..2]);
                k.store(at(k.global(partials, start), 4 * value_dim), Width::Dwords(2), pair);
            });
            let counter = k.left(own, 2);
            let counter = k.global(counters, counter);
            let last = k.last_arrival(counter, count, slot);
            k.when(last, |k| {
                k.when(used, |k| {
                    let zero = k.int(0);
                    k.store(counter, Width::Dwords(1), zero);
                    let (zero, one) = (k.int(0), k.int(1));
                    let running = k.for_range([zero, count, one], &initial, |k, split, running| {
                        let start = at_split(k, split);
                        let pair = at(k.global(partials, start), 4 * value_dim);
                        let pair = k.load(pair, Width::Dwords(2), Elem::Float);
                        let mut part = k.elements(pair, 2);
                        let place = self.element(k);
                        let place = k.left(place, 2);
                        let place = k.add(place, start);
                        part.extend(wide_load(k, self.width(), |k| k.global(partials, place)));
                        merge(k, running, &part)
                    });
                    finish(k, &running);
                });
            });
        });
        k.finish()
    }

    /// The first position that a row sees.
    fn first_seen(self, k: &mut Builder, position: Value) -> Value {
        let zero = k.int(0);
        let Some(window) = self.window else { return zero };
        let back = k.int(window.saturating_sub(1));
        let start = k.sub(position, back);
        let far = k.lt_u(position, back);
        k.select(far, zero, start)
    }

    /// Nothing seen yet.
    fn initial(self, k: &mut Builder) -> Running {
        let mut running = vec![k.float(f32::NEG_INFINITY), k.float(0.0)];
        running.extend((0..self.width()).map(|_| k.float(0.0)));
        running
    }

    /// Queries to LDS: `[row_heads, first, last]` are heads before the row, the workgroup's first and the group's last.
    fn load_queries(self, k: &mut Builder, query: Value, [row_heads, first, last]: [Value; 3], local: u32) {
        let dim = self.dims[0];
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
            let start = k.times(row, 4 * self.dims[1]);
            let place = self.element(k);
            let place = k.left(place, 2);
            let place = k.add(place, start);
            part.extend(wide_load(k, self.width(), |k| at(k.lds(place), results)));
            merge(k, running, &part)
        })
    }

    /// The lane's first element of a value; lanes beyond the end repeat the last.
    fn element(self, k: &mut Builder) -> Value {
        let lane = k.lane();
        let lanes = self.dims[1] / self.width();
        let lane = if lanes < 32 {
            let last = k.int(lanes - 1);
            k.min_u(lane, last)
        } else {
            lane
        };
        k.times(lane, self.width())
    }

    /// Writes the lane's elements of a head that starts at byte `start`.
    fn store(self, k: &mut Builder, base: Value, start: Value, values: &[Value]) {
        let place = self.element(k);
        let place = k.left(place, 2);
        let place = k.add(place, start);
        for (values, index) in values.chunks(4).zip(0..) {
            let packed = if values.len() == 1 { values[0] } else { k.pack(values) };
            k.store(at(k.global(base, place), 16 * index), Width::Dwords(values.len() as u8), packed);
        }
    }

    /// One page: scores, their maximum and sum, weighted values, all to LDS.
    fn page(self, k: &mut Builder, known: &Known, page: Value, wave: Value) {
        let [queries, shares, results, sums] = known.local;
        let entry = k.add(known.table, page);
        let entry = k.left(entry, 2);
        let id = k.load_uniform(k.global(known.pages, entry), Width::Dwords(1), Elem::Int);
        let bases = [(known.keys, 0), (known.values, 1)].map(|(base, which)| {
            let bytes = k.int(self.pages[which]);
            let offset = k.wide_mul(id, bytes);
            let page = k.wide_add(base, offset);
            let head = k.times(known.head, PAGE * self.dims[which] * self.bytes);
            k.wide_add(page, head)
        });
        // Positions of the page that the row sees: low ..= high.
        let begin = k.left(page, 5);
        let [position, first] = known.seen;
        let most = k.int(PAGE - 1);
        let high = k.sub(position, begin);
        let high = k.min_u(high, most);
        let zero = k.int(0);
        let early = k.lt_u(first, begin);
        let low = k.sub(first, begin);
        let low = k.select(early, zero, low);
        let lane = k.lane();
        let token = k.max_u(lane, low);
        let token = k.min_u(token, high);
        let seen = k.eq(token, lane);
        let scores = self.scores(k, bases[0], token, queries);
        let wave_row = k.times(wave, self.tile());
        let own = k.left(lane, 2);
        for (score, index) in scores.into_iter().zip(0..) {
            let score = self.bend(k, score, known.scale);
            let lowest = k.float(f32::NEG_INFINITY);
            let score = k.select(seen, score, lowest);
            let largest = k.reduce_wave(score, Alu::fmax);
            let below = k.fsub(score, largest);
            let share = k.exp2(below);
            let sum = k.reduce_wave(share, Alu::fadd);
            let row = k.plus(wave_row, index);
            let place = k.times(row, 4 * PAGE);
            let place = k.add(place, own);
            k.store(at(k.lds(place), shares), Width::Dwords(1), share);
            let place = k.left(row, 3);
            let pair = k.pack(&[largest, sum]);
            k.store(at(k.lds(place), sums), Width::Dwords(2), pair);
        }
        let values = self.weighted(k, bases[1], [low, high], wave_row, shares);
        for (values, index) in values.chunks(self.width() as usize).zip(0..) {
            let row = k.plus(wave_row, index);
            let start = k.times(row, 4 * self.dims[1]);
            let place = self.element(k);
            let place = k.left(place, 2);
            let place = k.add(place, start);
            for (values, index) in values.chunks(4).zip(0..) {
                let packed = if values.len() == 1 { values[0] } else { k.pack(values) };
                k.store(at(k.lds(place), results + 16 * index), Width::Dwords(values.len() as u8), packed);
            }
        }
    }

    /// Score of a product, as a base-two logarithm.
    fn bend(self, k: &mut Builder, score: Value, scale: Value) -> Value {
        let score = k.fmul(score, scale);
        let cap = f32::from_bits(self.cap);
        let score = if cap == 0.0 { score } else { k.soft_cap(score, cap) };
        k.scaled(score, LOG2_E)
    }

    /// Products of the lane's key with every query of the workgroup.
    fn scores(self, k: &mut Builder, keys: Value, token: Value, queries: u32) -> Vec<Value> {
        let dim = self.dims[0];
        let start = k.times(token, dim * self.bytes);
        let most = if self.bytes == 2 { 32 } else { 16 };
        let step =
            [most, 16, 8].into_iter().find(|step| *step <= most && dim.is_multiple_of(*step)).unwrap_or(8);
        let initial: Vec<Value> = (0..self.tile()).map(|_| k.float(0.0)).collect();
        let body = |k: &mut Builder, element: Value, sums: &[Value]| {
            let bytes = k.times(element, self.bytes);
            let place = k.add(start, bytes);
            let mut sums = sums.to_vec();
            let mut key = Vec::new();
            for part in (0..step).step_by(8) {
                key.extend(eight(k, keys, place, part * self.bytes, self.bytes));
            }
            let from = k.left(element, 2);
            for (sum, head) in sums.iter_mut().zip(0..) {
                for (key, part) in key.chunks(4).zip(0..) {
                    let place = at(k.lds(from), queries + 4 * head * dim + 16 * part);
                    let query = k.load(place, Width::Dwords(4), Elem::Float);
                    for (key, query) in key.iter().zip(k.elements(query, 4)) {
                        *sum = k.fma(*key, query, *sum);
                    }
                }
            }
            sums
        };
        let (zero, end, step) = (k.int(0), k.int(dim), k.int(step));
        k.for_range([zero, end, step], &initial, body)
    }

    /// The lane's elements of the weighted values of every head, by head.
    fn weighted(
        self,
        k: &mut Builder,
        values: Value,
        [low, high]: [Value; 2],
        wave_row: Value,
        shares: u32,
    ) -> Vec<Value> {
        const TOKENS: u32 = 4;
        let (tile, width) = (self.tile() as usize, self.width() as usize);
        let element = self.element(k);
        let own = k.times(element, self.bytes);
        let first = k.mask(low, !(TOKENS - 1));
        let (end, step) = (k.plus(high, 1), k.int(TOKENS));
        let rows = k.times(wave_row, 4 * PAGE);
        let initial: Vec<Value> = (0..tile * width).map(|_| k.float(0.0)).collect();
        k.for_range([first, end, step], &initial, |k, begin, sums| {
            let mut loaded = Vec::new();
            for index in 0..TOKENS {
                // Positions that are not seen have no share; what they hold may be anything.
                let token = k.plus(begin, index);
                let token = k.max_u(token, low);
                let token = k.min_u(token, high);
                let place = k.times(token, self.dims[1] * self.bytes);
                let place = k.add(own, place);
                loaded.push(self.value(k, values, place));
            }
            let mut sums = sums.to_vec();
            let place = k.left(begin, 2);
            let place = k.add(place, rows);
            for (head, sums) in sums.chunks_mut(width).enumerate() {
                let from = at(k.lds(place), shares + 4 * PAGE * head as u32);
                let share = k.load(from, Width::Dwords(TOKENS as u8), Elem::Float);
                for (share, value) in k.elements(share, TOKENS as u8).into_iter().zip(&loaded) {
                    for (sum, value) in sums.iter_mut().zip(value) {
                        *sum = k.fma(share, *value, *sum);
                    }
                }
            }
            sums
        })
    }

    /// The lane's elements of one value.
    fn value(self, k: &mut Builder, values: Value, place: Value) -> Vec<Value> {
        let width = self.width();
        if self.bytes as usize == KvType::F32.block_bytes() {
            return wide_load(k, width, |k| k.global(values, place));
        }
        if width == 1 {
            let half = k.load(k.global(values, place), Width::U16, Elem::Int);
            let half = k.bits(half, Elem::HalfPair);
            return vec![k.cvt_f_h(half)];
        }
        let pairs = wide_load_as(k, width / 2, Elem::Int, |k| k.global(values, place));
        pairs.into_iter().flat_map(|pair| k.halves(pair)).collect()
    }

    /// Adds the virtual score of head `own`.
    fn with_sink(self, k: &mut Builder, running: &[Value], sinks: Option<Value>, own: Value) -> Running {
        let Some(sinks) = sinks else { return running.to_vec() };
        let place = k.left(own, 2);
        let sink = k.read(sinks, place);
        let sink = k.scaled(sink, LOG2_E);
        let mut part = vec![sink, k.float(1.0)];
        part.extend(running[2..].iter().map(|_| k.float(0.0)));
        merge(k, running, &part)
    }
}

/// Eight consecutive elements of a key as f32.
fn eight(k: &mut Builder, keys: Value, place: Value, constant: u32, bytes: u32) -> Vec<Value> {
    let address = at(k.global(keys, place), constant);
    if bytes == 2 {
        let pairs = k.load(address, Width::Dwords(4), Elem::Int);
        return k.elements(pairs, 4).into_iter().flat_map(|pair| k.halves(pair)).collect();
    }
    [0, 16]
        .into_iter()
        .flat_map(|place| {
            let four = k.load(at(address, place), Width::Dwords(4), Elem::Float);
            k.elements(four, 4)
        })
        .collect()
}

/// `count` dwords of a lane.
fn wide_load(k: &mut Builder, count: u32, from: impl Fn(&Builder) -> Address) -> Vec<Value> {
    wide_load_as(k, count, Elem::Float, from)
}

fn wide_load_as(k: &mut Builder, count: u32, elem: Elem, from: impl Fn(&Builder) -> Address) -> Vec<Value> {
    let mut values = Vec::new();
    for first in (0..count).step_by(4) {
        let dwords = (count - first).min(4) as u8;
        let address = at(from(k), 4 * first);
        let loaded = k.load(address, Width::Dwords(dwords), elem);
        values.extend(k.elements(loaded, dwords));
    }
    values
}

/// The softmax of both: `[maximum, sum, elements]`.
fn merge(k: &mut Builder, running: &[Value], part: &[Value]) -> Running {
    let largest = k.fmax(running[0], part[0]);
    let [old, new] = [running[0], part[0]].map(|maximum| {
        let below = k.fsub(maximum, largest);
        k.exp2(below)
    });
    let mut merged = vec![largest];
    for (running, part) in running.iter().zip(part).skip(1) {
        let kept = k.fmul(*running, old);
        merged.push(k.fma(*part, new, kept));
    }
    merged
}
