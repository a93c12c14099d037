//! The token of the largest logit of each output row, the lowest id on ties: one workgroup a row.
//!
//! In a chain of steps the same workgroup makes the token its row's input of the next step and stores it for the host;
//! a row without a finite logit gives [`UNPICKED`], and the chain goes on with token 0.

use crate::builder_ext::BuilderExt;
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value, Width, lds};
use doorbell_compiler::isa::Target;
use doorbell_core::backend::UNPICKED;

/// Work items.
const WORKGROUP: u32 = 1024;

/// The largest of a row of logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArgMax {
    /// Logits of a row.
    pub cols: u32,
    /// True if the token becomes the row's next input.
    pub feeds: bool,
}

/// Tokens of a row that the host can still look up: the newest.
pub const RING: u32 = 64;

/// A logit and its number.
#[derive(Clone, Copy)]
struct Candidate {
    value: Value,
    number: Value,
}

/// The inputs of the next step.
struct NextInputs {
    tokens: Value,
    positions: Value,
    output_positions: Value,
    ring: Value,
}

impl Candidate {
    /// The better of two.
    fn better(self, k: &mut Builder, other: Self) -> Self {
        let above = k.fgt(other.value, self.value);
        let equal = k.feq(other.value, self.value);
        let earlier = k.lt_u(other.number, self.number);
        let wins = k.eval(above | (equal & earlier));
        Self {
            value: k.select(wins, other.value, self.value),
            number: k.select(wins, other.number, self.number),
        }
    }

    /// The best of all lanes.
    fn best_of_wave(self, k: &mut Builder) -> Self {
        let mut best = self;
        for mask in [1, 2, 4, 8, 16] {
            let other = Self { value: k.lane_xor(best.value, mask), number: k.lane_xor(best.number, mask) };
            best = best.better(k, other);
        }
        best
    }

    /// Lets logits that are NaN or plus infinity win, without a token.
    fn marked(self, k: &mut Builder) -> Self {
        let (highest, unpicked) = (k.float(f32::INFINITY), k.int(UNPICKED.0));
        let finite = k.flt(self.value, highest);
        Self { value: k.select(finite, self.value, highest), number: k.select(finite, self.number, unpicked) }
    }
}

impl Kernel for ArgMax {
    fn name(&self) -> String {
        format!("largest_{}{}", self.cols, if self.feeds { "_feeds" } else { "" })
    }

    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (logits, out) = (k.buffer("logits"), k.buffer("out"));
        let next = self.feeds.then(|| NextInputs {
            tokens: k.buffer("tokens"),
            positions: k.buffer("positions"),
            output_positions: k.buffer("output_positions"),
            ring: k.buffer("ring"),
        });
        let slots = k.local(8 * WORKGROUP / 32);
        let row = k.workgroup_id(Axis::X);
        let item = k.workitem_id();
        let start = k.eval(row * (4 * self.cols));
        let initial = [k.float(f32::NEG_INFINITY), k.int(0)];
        let range = k.range(0, self.cols, WORKGROUP);
        let own = k.for_range(range, &initial, |k, begin, best| {
            // Work items beyond the end repeat the last logit.
            let number = k.eval((begin + item).min(self.cols - 1));
            let value = k.read(logits, (number << 2) + start);
            let read = Candidate { value, number };
            let candidate = if self.feeds { read.marked(k) } else { read };
            let best = Candidate { value: best[0], number: best[1] }.better(k, candidate);
            alloc::vec![best.value, best.number]
        });
        let own = Candidate { value: own[0], number: own[1] };
        let best = best_of_workgroup(&mut k, own, item, slots);
        let leader = k.eq(item, 0);
        k.when(leader, |k| {
            let offset = k.eval(row << 2);
            let Some(next) = next else { return k.write(out, offset, best.number) };
            let lowest = k.float(f32::NEG_INFINITY);
            let possible = k.fgt(best.value, lowest);
            let token = k.select(possible, best.number, UNPICKED.0);
            k.write(out, offset, token);
            next.feed(k, row, token);
        });
        Ok(k.finish())
    }
}

/// The best of all work items, through LDS at `slots`.
fn best_of_workgroup(k: &mut Builder, own: Candidate, item: Value, slots: u32) -> Candidate {
    let best = own.best_of_wave(k);
    let slot = k.eval((item >> 5) << 3);
    let bits = k.bits(best.value, Elem::Int);
    let pair = k.pack(&[bits, best.number]);
    k.store(lds(slot).plus(slots), Width::Dwords(2), pair);
    k.barrier(false);
    let lane = k.lane();
    let pair = k.load(lds(lane << 3).plus(slots), Width::Dwords(2), Elem::Int);
    let bits = k.extract(pair, 0);
    let of_wave = Candidate { value: k.bits(bits, Elem::Float), number: k.extract(pair, 1) };
    of_wave.best_of_wave(k)
}

impl NextInputs {
    /// Makes `token` the input of `row` in the next step, and leaves it in the ring at its position.
    fn feed(&self, k: &mut Builder, row: Value, token: Value) {
        let offset = k.eval(row << 2);
        let old = k.read_int(self.positions, offset);
        let position = k.eval(old + 1);
        let (unpicked, first) = (k.int(UNPICKED.0), k.int(0));
        let input = k.eval(token.eq(unpicked).select(first, token));
        k.write(self.tokens, offset, input);
        k.write(self.positions, offset, position);
        k.write(self.output_positions, offset, position);
        let slot = k.eval((position & (RING - 1)) << 2);
        let begin = k.eval(row * (4 * RING));
        k.write(self.ring, begin + slot, token);
    }
}
