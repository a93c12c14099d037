//! The lanes of a wave over keys or values of some positions: neighbors take neighboring elements, eight each, so that
//! every load is of whole lines. Sums over lanes.

use super::parts::PART;
use crate::attention::kv_elements::{Row, eight, floats, offsets, row_bytes};
use crate::builder_ext::BuilderExt;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Value};
use doorbell_core::quant::Type;

/// Lanes over rows of `dim` elements.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    pub(crate) dim: u32,
}

impl Lanes {
    /// Lanes of a position.
    pub(crate) fn each(self) -> u32 {
        self.dim.div_ceil(8).next_power_of_two().clamp(32 / PART, 32)
    }

    /// Positions at a time.
    pub(crate) fn rows(self) -> u32 {
        32 / self.each()
    }

    /// Steps through a part's positions.
    pub(crate) fn steps(self) -> u32 {
        PART / self.rows()
    }

    /// Groups of eight elements that a lane has of a position.
    pub(crate) fn eights(self) -> u32 {
        self.dim.div_ceil(8 * self.each())
    }

    /// True if lanes are left over.
    pub(crate) fn ragged(self) -> bool {
        self.dim != 8 * self.each() * self.eights()
    }

    /// Number of the lane's eight in its row: beyond the row where lanes are left over.
    pub(crate) fn number(self, k: &mut Builder, index: u32) -> Value {
        let lane = k.lane();
        k.eval((lane & (self.each() - 1)) + index * self.each())
    }

    /// The first element of the lane's eight; lanes that are left over repeat the row's last.
    pub(crate) fn element(self, k: &mut Builder, index: u32) -> Value {
        let mut number = self.number(k, index);
        if self.ragged() {
            number = k.min_u(number, self.dim / 8 - 1);
        }
        k.eval(number << 3)
    }

    /// The lane's row of a step.
    pub(crate) fn row(self, k: &mut Builder) -> Value {
        let lane = k.lane();
        k.eval(lane / self.each())
    }

    /// Differences of lanes of one position, the largest first.
    pub(crate) fn beside(self) -> Vec<u8> {
        masks(self.each() / 2, 1)
    }

    /// Differences of lanes with the same elements, the largest first.
    pub(crate) fn across(self) -> Vec<u8> {
        masks(16, self.each())
    }
}

/// Positions of a part that the row sees: `low ..= high`, counted in the part.
#[derive(Clone, Copy)]
pub(crate) struct SeenPart {
    /// The first, if the row has a window.
    pub(crate) low: Option<Value>,
    /// The last.
    pub(crate) high: Value,
}

/// Steps whose sums go side by side, and that are loaded together at least.
pub(crate) const TOGETHER: usize = 4;

/// A lane's keys or values of a part.
pub(crate) struct PartElements {
    ty: Type,
    base: Value,
    /// Byte of each step's row.
    pub(crate) starts: Vec<Value>,
    /// Byte offsets in a row, by eight.
    offsets: Vec<Vec<Value>>,
    /// Loaded values, by step and eight.
    loaded: Vec<Vec<Vec<Value>>>,
}

impl PartElements {
    /// Elements of a part. Positions that are not seen may hold anything: seen ones stand for them.
    pub(crate) fn new(k: &mut Builder, ty: Type, lanes: Lanes, base: Value, seen: SeenPart) -> Self {
        let row = lanes.row(k);
        let starts = (0..lanes.steps())
            .map(|step| {
                let mut token = k.eval(row + step * lanes.rows());
                if let Some(low) = seen.low {
                    token = k.max_u(token, low);
                }
                k.eval(token.min(seen.high) * row_bytes(ty, lanes.dim))
            })
            .collect();
        let offsets = (0..lanes.eights())
            .map(|index| {
                let element = lanes.element(k, index);
                offsets(k, ty, element)
            })
            .collect();
        Self { ty, base, starts, offsets, loaded: Vec::new() }
    }

    /// A step's eights, as they lie in the cache.
    fn step(&self, k: &mut Builder, step: usize) -> Vec<Vec<Value>> {
        self.loaded.get(step).cloned().unwrap_or_else(|| {
            let row = Row { base: self.base, start: self.starts[step] };
            self.offsets.iter().map(|offsets| eight(k, self.ty, row, offsets)).collect()
        })
    }

    /// Some steps from one on.
    pub(crate) fn steps(&self, k: &mut Builder, first: usize) -> Vec<Vec<Vec<Value>>> {
        let end = self.starts.len().min(first + TOGETHER);
        (first..end).map(|step| self.step(k, step)).collect()
    }

    /// The elements of a step, by eight.
    pub(crate) fn floats(&self, k: &mut Builder, step: &[Vec<Value>]) -> Vec<Vec<Value>> {
        step.iter().map(|raw| floats(k, self.ty, raw)).collect()
    }

    /// Loads all.
    pub(crate) fn load(&mut self, k: &mut Builder) {
        self.loaded = (0..self.starts.len()).map(|step| self.step(k, step)).collect();
    }
}

/// Powers of two from `first` down to `last`.
fn masks(first: u32, last: u32) -> Vec<u8> {
    let each = core::iter::successors(Some(first), |mask| Some(mask / 2));
    each.take_while(|mask| *mask >= last.max(1)).map(|mask| mask as u8).collect()
}

/// Sums of each list's values over lanes that differ in `masks`, a power of two of them. Each difference halves the
/// lists while they have several values: the lane without the bit keeps the first half.
pub(crate) fn shared_sums(k: &mut Builder, lists: &mut [Vec<Value>], masks: &[u8]) {
    let lane = k.lane();
    for mask in masks {
        let zero = k.int(0);
        let upper = k.ne(lane & u32::from(*mask), zero);
        for list in lists.iter_mut() {
            if let [one] = list[..] {
                let other = k.lane_xor(one, *mask);
                list[0] = k.fadd(one, other);
                continue;
            }
            let second = list.split_off(list.len() / 2);
            for (first, second) in list.iter_mut().zip(second) {
                let given = k.select(upper, *first, second);
                let kept = k.select(upper, second, *first);
                let received = k.lane_xor(given, *mask);
                *first = k.fadd(kept, received);
            }
        }
    }
}
