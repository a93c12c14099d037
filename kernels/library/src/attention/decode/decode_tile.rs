//! Half a page of attention, by one wave: scores, their maximum and sum, weighted values, all to LDS.

use crate::attention::decode::kernel::DecodeContext;
use crate::attention::decode::lanes::{Lanes, PartElements, TOGETHER, shared_sums};
use crate::attention::decode::spec::{DecodeAttention, PART, WAVES};
use crate::attention::kv_elements::row_bytes;
use crate::attention::shape::PAGE;
use crate::attention::softmax::score_log2;
use crate::builder_ext::{BuilderExt, at};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width};

/// VGPRs of a part's keys and values, of queries and sums, up to which all is loaded at once.
const AT_ONCE: u32 = 176;

impl DecodeAttention {
    /// One part; `part` is its number in the sequence.
    pub(crate) fn page(self, k: &mut Builder, context: &DecodeContext, part: Value, wave: Value) {
        let bases = self.bases(k, context, part);
        // Positions of the part that the row sees: low ..= high.
        let begin = k.times(part, PART);
        let [position, first] = context.seen;
        let most = k.int(PART - 1);
        let high = k.sub(position, begin);
        let high = k.min_u(high, most);
        let low = self.shape.window.map(|_| {
            let zero = k.int(0);
            let early = k.lt_u(first, begin);
            let low = k.sub(first, begin);
            k.select(early, zero, low)
        });
        let [mut keys, mut values] = [0, 1].map(|which| {
            PartElements::new(k, self.shape.kv_type, self.lanes(which), bases[which], (low, high))
        });
        if self.registers() <= AT_ONCE {
            keys.load(k);
            values.load(k);
        }
        let scores = self.scores(k, &keys, &context.queries);
        let wave_row = k.times(wave, self.tile());
        self.shares(k, context, scores, (low, high), [wave, wave_row]);
        self.weighted(k, context, &values, wave_row);
    }

    /// VGPRs of all that a wave would have at once.
    fn registers(self) -> u32 {
        let bytes: u32 = self.shape.dims.iter().map(|dim| row_bytes(self.shape.kv_type, *dim)).sum();
        let lanes = self.lanes(0);
        bytes * PART / (4 * 32) + self.tile() * (lanes.steps() + 8 * lanes.eights())
    }

    /// Addresses of the part's keys and values of the head.
    fn bases(self, k: &mut Builder, context: &DecodeContext, part: Value) -> [Value; 2] {
        let page = k.right(part, (PAGE / PART).trailing_zeros());
        let entry = k.add(context.table, page);
        let entry = k.left(entry, 2);
        let id = k.load_uniform(k.global(context.pages, entry), Width::Dwords(1), Elem::Int);
        let within = k.mask(part, PAGE / PART - 1);
        [(context.keys, 0), (context.values, 1)].map(|(base, which)| {
            let row = row_bytes(self.shape.kv_type, self.shape.dims[which]);
            let bytes = k.int(self.shape.pages[which]);
            let offset = k.wide_mul(id, bytes);
            let page = k.wide_add(base, offset);
            let head = k.times(context.head, PAGE * row);
            let within = k.times(within, PART * row);
            let start = k.add(head, within);
            k.wide_add(page, start)
        })
    }

    /// Products of keys with every query of the workgroup. A lane has those of step `number / 2`, its number counted
    /// among the lanes of a position.
    fn scores(self, k: &mut Builder, keys: &PartElements, queries: &[Vec<Value>]) -> Vec<Value> {
        let mut lists: Vec<Vec<Value>> = queries.iter().map(|_| Vec::new()).collect();
        for first in (0..keys.starts.len()).step_by(TOGETHER) {
            let rows: Vec<Vec<Value>> =
                keys.steps(k, first).iter().map(|step| keys.floats(k, step).concat()).collect();
            let mut sums: Vec<Vec<Value>> = Vec::new();
            for query in queries {
                sums.push(rows.iter().map(|row| k.fmul(row[0], query[0])).collect());
            }
            for element in 1..rows[0].len() {
                for (query, sums) in queries.iter().zip(&mut sums) {
                    for (row, sum) in rows.iter().zip(sums) {
                        *sum = k.fma(row[element], query[element], *sum);
                    }
                }
            }
            lists.iter_mut().zip(sums).for_each(|(list, sums)| list.extend(sums));
        }
        shared_sums(k, &mut lists, &self.lanes(0).beside());
        lists.into_iter().map(|list| list[0]).collect()
    }

    /// Shares of the positions, their maximum and sum, to LDS. `[wave, row]`: the wave, and its first head in LDS.
    fn shares(
        self,
        k: &mut Builder,
        context: &DecodeContext,
        scores: Vec<Value>,
        (low, high): (Option<Value>, Value),
        [wave, wave_row]: [Value; 2],
    ) {
        let [shares, _, sums] = context.local;
        let lanes = self.lanes(0);
        let row = lanes.row(k);
        let number = lanes.number(k, 0);
        let step = k.right(number, (lanes.each() / lanes.steps()).trailing_zeros());
        let token = k.times(step, lanes.rows());
        let token = k.add(token, row);
        let mut seen = k.le_u(token, high);
        if let Some(low) = low {
            let late = k.ge_u(token, low);
            seen = k.both(seen, late);
        }
        // As values want them: those of a row's steps side by side.
        let lanes = self.lanes(1);
        let row = k.mask(token, lanes.rows() - 1);
        let row = k.times(row, lanes.steps());
        let step = k.right(token, lanes.rows().trailing_zeros());
        let own = k.add(row, step);
        let own = k.left(own, 2);
        for (score, index) in scores.into_iter().zip(0..) {
            let score = score_log2(k, score, context.scale, self.shape.cap);
            let lowest = k.float(f32::NEG_INFINITY);
            let score = k.select(seen, score, lowest);
            let largest = over_positions(k, score, Alu::fmax);
            let below = k.fsub(score, largest);
            let share = k.exp2(below);
            let sum = over_positions(k, share, Alu::fadd);
            let row = k.plus(wave_row, index);
            let place = k.times(row, 4 * PART);
            let place = k.add(place, own);
            k.store(at(k.lds(place), shares), Width::Dwords(1), share);
            let place = k.left(wave, 3);
            let pair = k.pack(&[largest, sum]);
            k.store(at(k.lds(place), sums + 8 * WAVES * index), Width::Dwords(2), pair);
        }
    }

    /// The weighted values of every head, to LDS.
    fn weighted(self, k: &mut Builder, context: &DecodeContext, values: &PartElements, wave_row: Value) {
        let [shares, results, _] = context.local;
        let lanes = self.lanes(1);
        let row = lanes.row(k);
        let place = k.times(row, 4 * lanes.steps());
        let start = k.times(wave_row, 4 * PART);
        let place = k.add(place, start);
        let weights: Vec<Vec<Value>> =
            (0..self.tile()).map(|head| loads(k, place, [shares + 4 * PART * head, lanes.steps()])).collect();
        let heads = self.tile() as usize;
        let mut sums: Vec<Vec<Value>> = Vec::new();
        for first in (0..values.starts.len()).step_by(TOGETHER) {
            for (number, step) in values.steps(k, first).iter().enumerate() {
                let eights = values.floats(k, step);
                let each =
                    weights.iter().flat_map(|weights| eights.iter().map(move |eight| (weights, eight)));
                let each = each.map(|(weights, eight)| (weights[first + number], eight));
                if sums.is_empty() {
                    let times = |(weight, eight): (Value, &Vec<Value>)| -> Vec<Value> {
                        eight.iter().map(|value| k.fmul(weight, *value)).collect()
                    };
                    sums = each.map(times).collect();
                    continue;
                }
                for (sums, (weight, eight)) in sums.iter_mut().zip(each) {
                    for (sum, value) in sums.iter_mut().zip(eight) {
                        *sum = k.fma(weight, *value, *sum);
                    }
                }
            }
        }
        shared_sums(k, &mut sums, &lanes.across());
        // Three differences halve eight values at most.
        let lane = k.lane();
        let halved: u32 = lanes.across().iter().take(3).map(|mask| u32::from(*mask)).sum();
        let ahead = k.mask(lane, halved);
        let ahead = k.right(ahead, 2);
        for index in 0..lanes.eights() {
            let element = lanes.element(k, index);
            let element = k.add(element, ahead);
            let place = k.left(element, 2);
            let start = k.times(wave_row, 4 * lanes.dim);
            let place = k.add(place, start);
            for head in 0..heads {
                let sums = &sums[head * lanes.eights() as usize + index as usize];
                for (values, number) in sums.chunks(4).zip(0..) {
                    let packed = if values.len() == 1 { values[0] } else { k.pack(values) };
                    let offset = results + 4 * lanes.dim * head as u32 + 16 * number;
                    k.store(at(k.lds(place), offset), Width::Dwords(values.len() as u8), packed);
                }
            }
        }
    }

    /// How lanes share keys (0) or values (1).
    pub(crate) fn lanes(self, which: usize) -> Lanes {
        Lanes { dim: self.shape.dims[which] }
    }
}

/// `count` dwords of LDS from byte `place + constant` on.
fn loads(k: &mut Builder, place: Value, [constant, count]: [u32; 2]) -> Vec<Value> {
    let width = count.min(4) as u8;
    let starts = (0..count).step_by(4);
    let loaded = starts.map(|first| {
        let loaded = k.load(at(k.lds(place), constant + 4 * first), Width::Dwords(width), Elem::Float);
        k.elements(loaded, width)
    });
    loaded.collect::<Vec<_>>().concat()
}

/// Combines the values of a part's positions, each of which two neighboring lanes have.
fn over_positions(k: &mut Builder, mut value: Value, combine: Alu) -> Value {
    for mask in [2, 4, 8, 16] {
        let other = k.lane_xor(value, mask);
        value = k.alu(combine, &[value, other]);
    }
    value
}
