//! How the lanes of a wave share keys or values of some positions: neighbors take neighboring elements, eight each, so
//! that every load is of whole lines. Sums over lanes that are asked for one by one.

use crate::attention::decode::spec::PART;
use crate::attention::kv_elements::{eight, floats, place, row_bytes};
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

    /// Eights of elements that a lane has of a position.
    pub(crate) fn eights(self) -> u32 {
        self.dim.div_ceil(8 * self.each())
    }

    /// Whether lanes are left over.
    pub(crate) fn ragged(self) -> bool {
        self.dim != 8 * self.each() * self.eights()
    }

    /// Number of the lane's eight in its row: beyond the row where lanes are left over.
    pub(crate) fn number(self, k: &mut Builder, index: u32) -> Value {
        let lane = k.lane();
        let within = k.mask(lane, self.each() - 1);
        k.plus(within, index * self.each())
    }

    /// The first element of the lane's eight; lanes that are left over repeat the row's last.
    pub(crate) fn element(self, k: &mut Builder, index: u32) -> Value {
        let mut number = self.number(k, index);
        if self.ragged() {
            let last = k.int(self.dim / 8 - 1);
            number = k.min_u(number, last);
        }
        k.left(number, 3)
    }

    /// The lane's row of a step.
    pub(crate) fn row(self, k: &mut Builder) -> Value {
        let lane = k.lane();
        k.right(lane, self.each().trailing_zeros())
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

/// Steps whose sums go side by side, and that are loaded together at least.
pub(crate) const TOGETHER: usize = 4;
/// A lane's keys or values of a part.
pub(crate) struct PartElements {
    ty: Type,
    base: Value,
    /// Byte of each step's row.
    pub(crate) starts: Vec<Value>,
    /// Byte offsets in a row, by eight.
    places: Vec<Vec<Value>>,
    /// What is loaded, by step and eight.
    loaded: Vec<Vec<Vec<Value>>>,
}

impl PartElements {
    /// PartElements of a part of which positions `low ..= high` are seen. Others may hold anything: those stand for them.
    pub(crate) fn new(
        k: &mut Builder,
        ty: Type,
        lanes: Lanes,
        base: Value,
        (low, high): (Option<Value>, Value),
    ) -> Self {
        let row = lanes.row(k);
        let starts = (0..lanes.steps())
            .map(|step| {
                let mut token = k.plus(row, step * lanes.rows());
                if let Some(low) = low {
                    token = k.max_u(token, low);
                }
                token = k.min_u(token, high);
                k.times(token, row_bytes(ty, lanes.dim))
            })
            .collect();
        let places = (0..lanes.eights())
            .map(|index| {
                let element = lanes.element(k, index);
                place(k, ty, element)
            })
            .collect();
        Self { ty, base, starts, places, loaded: Vec::new() }
    }

    /// A step's eights, as they lie in the cache.
    fn step(&self, k: &mut Builder, step: usize) -> Vec<Vec<Value>> {
        self.loaded.get(step).cloned().unwrap_or_else(|| {
            let row = [self.base, self.starts[step]];
            self.places.iter().map(|place| eight(k, self.ty, row, place)).collect()
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
        let bit = k.mask(lane, u32::from(*mask));
        let upper = k.ne(bit, zero);
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
                let got = k.lane_xor(given, *mask);
                *first = k.fadd(kept, got);
            }
        }
    }
}
