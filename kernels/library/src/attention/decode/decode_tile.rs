//! Half a page of attention, by one wave: scores, their maximum and sum, weighted values, all to LDS.

use super::lanes::{PartElements, SeenPart, TOGETHER, shared_sums};
use super::parts::{PART, WAVES};
use super::spec::DecodeAttention;
use crate::attention::kv_elements::row_bytes;
use crate::attention::shape::{AttentionInputs, PAGE};
use crate::attention::softmax::score_log2;
use crate::builder_ext::BuilderExt;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width, lds};

/// VGPRs of a part's keys and values, of queries and sums, up to which all is loaded at once.
const AT_ONCE: u32 = 176;

/// LDS of a workgroup: first bytes.
#[derive(Clone, Copy)]
pub(crate) struct DecodeLds {
    /// Shares of positions.
    pub(crate) shares: u32,
    /// Results of parts.
    pub(crate) results: u32,
    /// Their maxima and sums.
    pub(crate) sums: u32,
}

/// Arguments and values that all parts of the kernel use.
pub(crate) struct DecodeContext {
    pub(crate) inputs: AttentionInputs,
    /// First entry of the row's page table.
    pub(crate) table: Value,
    /// KV head.
    pub(crate) head: Value,
    /// Position of the row.
    pub(crate) position: Value,
    /// First position that it sees.
    pub(crate) first: Value,
    /// Factor on scores.
    pub(crate) scale: Value,
    /// The lane's elements of the workgroup's queries.
    pub(crate) queries: Vec<Vec<Value>>,
    pub(crate) lds: DecodeLds,
}

impl DecodeAttention {
    /// One part; `part` is its number in the sequence.
    pub(crate) fn decode_tile(self, k: &mut Builder, context: &DecodeContext, part: Value, wave: Value) {
        let bases = self.bases(k, context, part);
        let begin = k.eval(part * PART);
        let most = k.int(PART - 1);
        let high = k.eval((context.position - begin).min(most));
        let low = self.shape.window.map(|_| {
            let zero = k.int(0);
            let early = k.lt_u(context.first, begin);
            let low = k.sub(context.first, begin);
            k.select(early, zero, low)
        });
        let seen = SeenPart { low, high };
        let ty = self.shape.kv_type;
        let mut keys = PartElements::new(k, ty, self.key_lanes(), bases[0], seen);
        let mut values = PartElements::new(k, ty, self.value_lanes(), bases[1], seen);
        if self.registers() <= AT_ONCE {
            keys.load(k);
            values.load(k);
        }
        let scores = self.scores(k, &keys, &context.queries);
        let wave_row = k.eval(wave * self.tile());
        self.shares(k, context, &scores, seen, wave, wave_row);
        self.weighted(k, context.lds, &values, wave_row);
    }

    /// VGPRs that a wave would need to hold all at once.
    fn registers(self) -> u32 {
        let bytes: u32 = self.shape.dims.iter().map(|dim| row_bytes(self.shape.kv_type, *dim)).sum();
        let lanes = self.key_lanes();
        bytes * PART / (4 * 32) + self.tile() * (lanes.steps() + 8 * lanes.eights())
    }

    /// Addresses of the part's keys and values of the head.
    fn bases(self, k: &mut Builder, context: &DecodeContext, part: Value) -> [Value; 2] {
        let page = k.eval(part / (PAGE / PART));
        let id = k.read_uniform(context.inputs.pages, (context.table + page) << 2);
        let within = k.eval(part & (PAGE / PART - 1));
        [(context.inputs.keys, 0), (context.inputs.values, 1)].map(|(base, which)| {
            let row = row_bytes(self.shape.kv_type, self.shape.dims[which]);
            let bytes = k.int(self.shape.pages[which]);
            let offset = k.wide_mul(id, bytes);
            let page = k.wide_add(base, offset);
            k.wide_add(page, context.head * (PAGE * row) + within * (PART * row))
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
        shared_sums(k, &mut lists, &self.key_lanes().beside());
        lists.into_iter().map(|list| list[0]).collect()
    }

    /// Shares of the positions, their maximum and sum, to LDS; `wave_row` is the wave's first head there.
    fn shares(
        self,
        k: &mut Builder,
        context: &DecodeContext,
        scores: &[Value],
        SeenPart { low, high }: SeenPart,
        wave: Value,
        wave_row: Value,
    ) {
        let lanes = self.key_lanes();
        let row = lanes.row(k);
        let number = lanes.number(k, 0);
        let step = k.eval(number / (lanes.each() / lanes.steps()));
        let token = k.eval(step * lanes.rows() + row);
        let mut seen = k.le_u(token, high);
        if let Some(low) = low {
            let late = k.ge_u(token, low);
            seen = k.both(seen, late);
        }
        // In the order in which values need them: those of a row's steps side by side.
        let lanes = self.value_lanes();
        let row = k.eval((token & (lanes.rows() - 1)) * lanes.steps());
        let own = k.eval((row + token / lanes.rows()) << 2);
        for (product, index) in scores.iter().zip(0..) {
            let visible = score_log2(k, *product, context.scale, self.shape.cap);
            let lowest = k.float(f32::NEG_INFINITY);
            let score = k.select(seen, visible, lowest);
            let largest = over_positions(k, score, Alu::fmax);
            let share = k.exp2(score - largest);
            let sum = over_positions(k, share, Alu::fadd);
            let offset = k.eval((wave_row + index) * (4 * PART) + own);
            k.store(lds(offset).plus(context.lds.shares), Width::Dwords(1), share);
            let offset = k.eval(wave << 3);
            let pair = k.pack(&[largest, sum]);
            k.store(lds(offset).plus(context.lds.sums + 8 * WAVES * index), Width::Dwords(2), pair);
        }
    }

    /// The weighted values of every head, to LDS.
    fn weighted(self, k: &mut Builder, local: DecodeLds, values: &PartElements, wave_row: Value) {
        let lanes = self.value_lanes();
        let row = lanes.row(k);
        let own = k.eval(row * (4 * lanes.steps()));
        let start = k.eval(wave_row * (4 * PART));
        let offset = k.add(own, start);
        let weights: Vec<Vec<Value>> = (0..self.tile())
            .map(|head| loads(k, offset, local.shares + 4 * PART * head, lanes.steps()))
            .collect();
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
        self.store_results(k, local.results, &sums, wave_row);
    }

    /// Stores the sums of every head to LDS at `results`.
    fn store_results(self, k: &mut Builder, results: u32, sums: &[Vec<Value>], wave_row: Value) {
        let lanes = self.value_lanes();
        // Three differences halve eight values at most.
        let lane = k.lane();
        let halved: u32 = lanes.across().iter().take(3).map(|mask| u32::from(*mask)).sum();
        let ahead = k.eval((lane & halved) >> 2);
        for index in 0..lanes.eights() {
            let element = lanes.element(k, index);
            let within = k.eval((element + ahead) << 2);
            let start = k.eval(wave_row * (4 * lanes.dim));
            let offset = k.add(within, start);
            for head in 0..self.tile() {
                let sums = &sums[(head * lanes.eights() + index) as usize];
                for (values, number) in sums.chunks(4).zip(0..) {
                    let packed = if values.len() == 1 { values[0] } else { k.pack(values) };
                    let ahead = results + 4 * lanes.dim * head + 16 * number;
                    k.store(lds(offset).plus(ahead), Width::Dwords(values.len() as u8), packed);
                }
            }
        }
    }
}

/// `count` dwords of LDS from byte `offset + constant` on.
fn loads(k: &mut Builder, offset: Value, constant: u32, count: u32) -> Vec<Value> {
    let width = count.min(4) as u8;
    let mut loaded = Vec::new();
    for first in (0..count).step_by(4) {
        let dwords = k.load(lds(offset).plus(constant + 4 * first), Width::Dwords(width), Elem::Float);
        loaded.extend(k.elements(dwords, width));
    }
    loaded
}

/// Combines the values of a part's positions, each of which two neighboring lanes have.
fn over_positions(k: &mut Builder, mut value: Value, combine: Alu) -> Value {
    for mask in [2, 4, 8, 16] {
        let other = k.lane_xor(value, mask);
        value = k.alu(combine, &[value, other]);
    }
    value
}
