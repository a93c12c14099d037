//! The running softmax of matrix attention: scores of a step, their weights, sums over values.

use super::query::{LaneQuery, QueryOperands};
use super::spec::PrefillAttention;
use super::tiles::{KvTiles, PositionRange};
use crate::attention::softmax::capped_log2;
use crate::builder_ext::{BuilderExt, LOG2_E, fragment};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Fragment, MatrixOp, Value, Width, global};

/// Everything that a workgroup works with.
pub(crate) struct PrefillWork {
    pub(crate) spec: PrefillAttention,
    pub(crate) tiles: KvTiles,
    pub(crate) own: LaneQuery,
    pub(crate) operands: QueryOperands,
    pub(crate) gfx12: bool,
}

/// Less than any score, but finite: differences stay numbers.
const LEAST: f32 = -1e30;

impl PrefillWork {
    /// Maximum (base-two logarithm), the lane's share of the sum, accumulators of the values: nothing seen but the sink.
    pub(crate) fn initial(&self, k: &mut Builder, sinks: Option<Value>) -> Vec<Value> {
        let (least, none) = (k.float(LEAST), k.float(0.0));
        let mut running = alloc::vec![least, none];
        if let Some(sinks) = sinks {
            let sink = k.read(sinks, self.own.head << 2);
            let one = k.float(1.0);
            let zero = k.int(0);
            let lower = k.eq(self.own.half, zero);
            running = alloc::vec![k.eval(sink * LOG2_E), k.select(lower, one, none)];
        }
        running.extend((0..self.spec.shape.dims[1] / 16).map(|_| k.zero_fragment(Fragment::FloatAcc)));
        running
    }

    /// All steps of the rows that share a page table.
    pub(crate) fn steps(&self, k: &mut Builder, range: &PositionRange, initial: &[Value]) -> Vec<Value> {
        let step_size = self.spec.step();
        let (first, last) = (k.eval(range.low / step_size), k.eval(range.last / step_size));
        let (end, one) = (k.eval(last + 1), k.int(1));
        let count = initial.len();
        let mut carried = initial.to_vec();
        carried.extend(self.tiles.fetch(k, range, first));
        let mut carried = k.for_range([first, end, one], &carried, |k, step, carried| {
            let (running, fetched) = carried.split_at(count);
            self.tiles.keep(k, fetched);
            k.barrier(false);
            let following = k.eval((step + 1).min(last));
            let fetched = self.tiles.fetch(k, range, following);
            let begin = k.eval(step * step_size);
            let scores = self.scores(k);
            let mut next = self.add(k, &scores, begin, running);
            k.barrier(false);
            next.extend(fetched);
            next
        });
        carried.truncate(count);
        carried
    }

    /// The lane's half of a row in LDS that starts at byte `start`: on gfx11 the whole row.
    fn own_half(&self, k: &mut Builder, start: Value) -> Value {
        let ahead = k.eval(self.own.half << 4);
        if self.gfx12 { k.add(start, ahead) } else { start }
    }

    /// Products of the step's keys with the lane's query: sixteen positions a fragment.
    fn scores(&self, k: &mut Builder) -> Vec<Value> {
        let row = self.tiles.key_row(k, self.own.fragment_row);
        let start = self.own_half(k, row);
        let blocks = 0..self.spec.step() / 16;
        blocks
            .map(|block| {
                let mut sum = k.zero_fragment(Fragment::FloatAcc);
                for number in 0..self.spec.shape.dims[0] / 16 {
                    let left = fragment(k, start, self.tiles.key_block(block) + 32 * number, self.gfx12);
                    let right = match &self.operands {
                        QueryOperands::Kept(fragments) => fragments[number as usize],
                        QueryOperands::Local(row) => fragment(k, *row, 32 * number, self.gfx12),
                    };
                    sum = k.matrix(MatrixOp::Half, left, right, sum);
                }
                sum
            })
            .collect()
    }

    /// Logarithms of a step's scores; `begin` is the step's first position.
    fn logits(&self, k: &mut Builder, scores: &[Value], begin: Value) -> Vec<Value> {
        // Positions from the first one that the query sees on; earlier ones wrap around.
        let offset = k.eval((self.own.half << 3) + begin - self.own.first);
        let lowest = k.float(f32::NEG_INFINITY);
        let mut logits = Vec::new();
        for (block, sum) in (0u32..).zip(scores) {
            for register in 0..8u8 {
                let product = k.accumulator(*sum, register);
                let score = capped_log2(k, product, self.spec.shape.cap);
                let position = offset + (16 * block + u32::from(register));
                logits.push(k.eval(position.le(self.own.span).select(score, lowest)));
            }
        }
        logits
    }

    /// Takes a step's scores into the running softmax. `begin` is the step's first position.
    fn add(&self, k: &mut Builder, scores: &[Value], begin: Value, running: &[Value]) -> Vec<Value> {
        let logits = self.logits(k, scores, begin);
        let own_largest = folded(k, &logits, Alu::fmax);
        let other = k.lane_xor(own_largest, 16);
        let largest = k.eval(own_largest.max(other).max(running[0]));
        let change = k.exp2(running[0] - largest);
        let shares: Vec<Value> = logits.into_iter().map(|score| k.exp2(score - largest)).collect();
        let step_sum = folded(k, &shares, Alu::fadd);
        let sum = k.fma(running[1], change, step_sum);
        let weights: Vec<Value> =
            shares.chunks(8).map(|shares| weights(k, self.own.half, shares, self.gfx12)).collect();
        let row = self.tiles.value_row(k, self.own.fragment_row);
        let start = self.own_half(k, row);
        let mut next = alloc::vec![largest, sum];
        for (number, old) in (0u32..).zip(&running[2..]) {
            let scaled: Vec<Value> = (0..8)
                .map(|register| {
                    let value = k.accumulator(*old, register);
                    k.fmul(value, change)
                })
                .collect();
            let mut sum = k.fragment(&scaled, Fragment::FloatAcc);
            for (block, weights) in (0u32..).zip(&weights) {
                let left = fragment(k, start, self.tiles.value_block(number) + 32 * block, self.gfx12);
                sum = k.matrix(MatrixOp::Half, left, *weights, sum);
            }
            next.push(sum);
        }
        next
    }

    /// Writes the results of the lanes where `inside` holds.
    pub(crate) fn write(
        &self,
        k: &mut Builder,
        inside: Value,
        gate: Option<Value>,
        out: Value,
        running: &[Value],
    ) {
        let other = k.lane_xor(running[1], 16);
        let inverse = k.eval((running[1] + other).rcp());
        let head = self.own.row * self.spec.shape.heads() + self.own.head;
        let start = k.eval(head * (4 * self.spec.shape.dims[1]) + (self.own.half << 5));
        k.when(inside, |k| {
            for (number, sums) in (0u32..).zip(&running[2..]) {
                for quad in 0..2u8 {
                    let ahead = 64 * number + 16 * u32::from(quad);
                    let mut values: Vec<Value> = (4 * quad..4 * quad + 4)
                        .map(|register| {
                            let value = k.accumulator(*sums, register);
                            k.fmul(value, inverse)
                        })
                        .collect();
                    if let Some(gate) = gate {
                        let four = k.load(global(gate, start).plus(ahead), Width::Dwords(4), Elem::Float);
                        for (value, gate) in values.iter_mut().zip(k.elements(four, 4)) {
                            let share = k.sigmoid(gate, 1.0);
                            *value = k.fmul(*value, share);
                        }
                    }
                    let packed = k.pack(&values);
                    k.store(global(out, start).plus(ahead), Width::Dwords(4), packed);
                }
            }
        });
    }
}

/// The lane's eight weights, and on gfx11 the other half's, as a fragment.
fn weights(k: &mut Builder, half: Value, shares: &[Value], gfx12: bool) -> Value {
    let own: Vec<Value> = shares.chunks(2).map(|pair| k.half_bits(pair[0], pair[1])).collect();
    if gfx12 {
        return k.fragment(&own, Fragment::Half);
    }
    let zero = k.int(0);
    let lower = k.eq(half, zero);
    let other: Vec<Value> = own.iter().map(|pair| k.lane_xor(*pair, 16)).collect();
    let mut all: Vec<Value> =
        own.iter().zip(&other).map(|(own, other)| k.select(lower, *own, *other)).collect();
    all.extend(own.iter().zip(&other).map(|(own, other)| k.select(lower, *other, *own)));
    k.fragment(&all, Fragment::Half)
}

/// All values combined, as a tree.
fn folded(k: &mut Builder, values: &[Value], combine: Alu) -> Value {
    let mut values = values.to_vec();
    while values.len() > 1 {
        let pairs = values.chunks(2);
        values = pairs
            .map(|pair| match pair {
                [a, b] => k.alu(combine, &[*a, *b]),
                _ => pair[0],
            })
            .collect();
    }
    values[0]
}
