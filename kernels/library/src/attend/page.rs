//! One page of attention, by one wave: lanes are positions for the scores and elements for the values.

use super::cells::{row_bytes, some};
use super::kernel::Known;
use super::softmax::bend;
use super::{Attention, PAGE};
use crate::idiom::{Idiom, at};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width};
use doorbell_core::quant::Type;

impl Attention {
    /// One page: scores, their maximum and sum, weighted values, all to LDS.
    pub(super) fn page(self, k: &mut Builder, known: &Known, page: Value, wave: Value) {
        let [queries, shares, results, sums] = known.local;
        let entry = k.add(known.table, page);
        let entry = k.left(entry, 2);
        let id = k.load_uniform(k.global(known.pages, entry), Width::Dwords(1), Elem::Int);
        let bases = [(known.keys, 0), (known.values, 1)].map(|(base, which)| {
            let bytes = k.int(self.shape.pages[which]);
            let offset = k.wide_mul(id, bytes);
            let page = k.wide_add(base, offset);
            let head = k.times(known.head, PAGE * row_bytes(self.shape.cells, self.shape.dims[which]));
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
            let score = bend(k, score, known.scale, self.shape.cap);
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
            let start = k.times(row, 4 * self.shape.dims[1]);
            let place = self.element(k);
            let place = k.left(place, 2);
            let place = k.add(place, start);
            for (values, index) in values.chunks(4).zip(0..) {
                let packed = if values.len() == 1 { values[0] } else { k.pack(values) };
                k.store(at(k.lds(place), results + 16 * index), Width::Dwords(values.len() as u8), packed);
            }
        }
    }

    /// Products of the lane's key with every query of the workgroup.
    fn scores(self, k: &mut Builder, keys: Value, token: Value, queries: u32) -> Vec<Value> {
        let dim = self.shape.dims[0];
        let row = k.times(token, row_bytes(self.shape.cells, dim));
        let most = if self.shape.cells == Type::F32 { 16 } else { 32 };
        let step =
            [most, 16, 8].into_iter().find(|step| *step <= most && dim.is_multiple_of(*step)).unwrap_or(8);
        let initial: Vec<Value> = (0..self.tile()).map(|_| k.float(0.0)).collect();
        let body = |k: &mut Builder, element: Value, sums: &[Value]| {
            let mut sums = sums.to_vec();
            let key = some(k, self.shape.cells, [keys, row, element], step);
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
                let row = k.times(token, row_bytes(self.shape.cells, self.shape.dims[1]));
                loaded.push(some(k, self.shape.cells, [values, row, element], self.width()));
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
}
