//! Computations that both attentions share: visible positions, scores, merging of softmaxes.

use crate::builder_ext::{BuilderExt, LOG2_E};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Value};

/// Positions that a row sees up to its own; `None` for all.
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
pub(crate) fn score_log2(k: &mut Builder, product: Value, scale: Value, cap: u32) -> Value {
    let score = k.fmul(product, scale);
    let capped = if cap == 0 { score } else { k.soft_cap(score, f32::from_bits(cap)) };
    k.eval(capped * LOG2_E)
}

/// The part of [`score_log2`] by which queries can be multiplied beforehand.
pub(crate) fn score_factor(k: &mut Builder, scale: Value, cap: u32) -> Value {
    if cap == 0 { k.eval(scale * LOG2_E) } else { scale }
}

/// The rest of [`score_log2`].
pub(crate) fn capped_log2(k: &mut Builder, score: Value, cap: u32) -> Value {
    if cap == 0 {
        return score;
    }
    let capped = k.soft_cap(score, f32::from_bits(cap));
    k.eval(capped * LOG2_E)
}

/// True if neither neighbor of `row` shares its page table `table`, all uniform. Runs of a batch have one table each.
pub(crate) fn is_single(k: &mut Builder, tables: Value, table: Value, row: Value, rows: Value) -> Value {
    let one = k.int(1);
    let before = k.eval(row.max(one) - one);
    let last = k.sub(rows, one);
    let after = k.eval((row + 1).min(last));
    let [before, after] = [before, after].map(|other| {
        let start = k.read_uniform(tables, other << 2);
        k.eval(start.eq(table) & other.ne(row))
    });
    k.eval(!(before | after))
}

/// Softmaxes in progress: maximum (base-two logarithm), sum, element of each slot.
pub(crate) type RunningSoftmax = Vec<Value>;

/// The softmax of both, slot by slot.
pub(crate) fn merge(k: &mut Builder, running: &[Value], part: &[Value]) -> RunningSoftmax {
    let mut merged = Vec::new();
    for (running, part) in running.chunks(3).zip(part.chunks(3)) {
        let largest = k.fmax(running[0], part[0]);
        let [old, new] = [running[0], part[0]].map(|maximum| k.exp2(maximum - largest));
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
        let weight = k.exp2(part[0] - largest);
        for (sum, value) in sums.iter_mut().zip(&part[1..]) {
            *sum = k.fma(*value, weight, *sum);
        }
    }
    [largest, sums[0], sums[1]]
}
