//! What both attentions compute alike: what a row sees, scores, merging of softmaxes.

use crate::builder_ext::{BuilderExt, LOG2_E};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width};

/// Positions that a row sees up to its own, all of them without a number.
#[derive(Clone, Copy)]
pub(crate) struct Window(pub(crate) Option<u32>);

impl Window {
    /// The first position that a row at `position` sees.
    pub(crate) fn first(self, k: &mut Builder, position: Value) -> Value {
        let zero = k.int(0);
        let Some(window) = self.0 else { return zero };
        let back = k.int(window.saturating_sub(1));
        let start = k.sub(position, back);
        let far = k.lt_u(position, back);
        k.select(far, zero, start)
    }
}

/// Score of a product, as a base-two logarithm; `cap` are the bits of the soft cap.
pub(crate) fn score_log2(k: &mut Builder, score: Value, scale: Value, cap: u32) -> Value {
    let score = k.fmul(score, scale);
    let score = if cap == 0 { score } else { k.soft_cap(score, f32::from_bits(cap)) };
    k.scaled(score, LOG2_E)
}

/// The part of [`score_log2`] that queries can be multiplied with beforehand.
pub(crate) fn score_factor(k: &mut Builder, scale: Value, cap: u32) -> Value {
    if cap == 0 { k.scaled(scale, LOG2_E) } else { scale }
}

/// The rest of [`score_log2`].
pub(crate) fn capped_log2(k: &mut Builder, score: Value, cap: u32) -> Value {
    if cap == 0 {
        return score;
    }
    let score = k.soft_cap(score, f32::from_bits(cap));
    k.scaled(score, LOG2_E)
}

/// Whether neither neighbor of `row` shares its page table, all uniform. Runs of a batch have one table each.
pub(crate) fn is_single(k: &mut Builder, tables: Value, [table, row, rows]: [Value; 3]) -> Value {
    let one = k.int(1);
    let before = k.max_u(row, one);
    let before = k.sub(before, one);
    let last = k.sub(rows, one);
    let after = k.plus(row, 1);
    let after = k.min_u(after, last);
    let [before, after] = [before, after].map(|other| {
        let place = k.left(other, 2);
        let start = k.load_uniform(k.global(tables, place), Width::Dwords(1), Elem::Int);
        let same = k.eq(start, table);
        let another = k.ne(other, row);
        k.both(same, another)
    });
    let either = k.either(before, after);
    k.negate(either)
}

/// Softmaxes in progress: maximum (base-two logarithm), sum, element of each slot.
pub(crate) type RunningSoftmax = Vec<Value>;

/// The softmax of both, slot by slot.
pub(crate) fn merge(k: &mut Builder, running: &[Value], part: &[Value]) -> RunningSoftmax {
    let mut merged = Vec::new();
    for (running, part) in running.chunks(3).zip(part.chunks(3)) {
        let largest = k.fmax(running[0], part[0]);
        let [old, new] = [running[0], part[0]].map(|maximum| {
            let below = k.fsub(maximum, largest);
            k.exp2(below)
        });
        merged.push(largest);
        for (running, part) in running.iter().zip(part).skip(1) {
            let kept = k.fmul(*running, old);
            merged.push(k.fma(*part, new, kept));
        }
    }
    merged
}

/// The softmax of several parts, `[maximum, sum, element]` each.
pub(crate) fn combined(k: &mut Builder, parts: &[[Value; 3]]) -> [Value; 3] {
    let mut largest = parts[0][0];
    for part in &parts[1..] {
        largest = k.fmax(largest, part[0]);
    }
    let mut sums = [k.float(0.0); 2];
    for part in parts {
        let below = k.fsub(part[0], largest);
        let weight = k.exp2(below);
        for (sum, value) in sums.iter_mut().zip(&part[1..]) {
            *sum = k.fma(*value, weight, *sum);
        }
    }
    [largest, sums[0], sums[1]]
}
