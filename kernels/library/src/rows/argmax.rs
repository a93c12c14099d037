//! The token of the largest logit of each output row, the lowest id on ties: one workgroup a row. In a chain of steps
//! the same workgroup makes the token its row's input of the next step and tells the host; logits that nothing can be
//! picked from are told as [`UNPICKED`], and the chain goes on with token 0.

use crate::builder_ext::{BuilderExt, at};
use alloc::format;
use alloc::string::String;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value, Width};
use doorbell_core::backend::UNPICKED;

/// Work items.
const WORKGROUP: u32 = 1024;

/// The largest of a row of logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArgMax {
    /// Logits of a row.
    pub cols: u32,
    /// Whether the token becomes the row's next input.
    pub feeds: bool,
}

/// Tokens of a row that the host can still look up: the newest.
pub const RING: u32 = 64;

/// The better of two pairs of value and number.
fn better(k: &mut Builder, a: [Value; 2], b: [Value; 2]) -> [Value; 2] {
    let above = k.fgt(b[0], a[0]);
    let equal = k.feq(b[0], a[0]);
    let earlier = k.lt_u(b[1], a[1]);
    let tie = k.both(equal, earlier);
    let wins = k.either(above, tie);
    [k.select(wins, b[0], a[0]), k.select(wins, b[1], a[1])]
}

impl ArgMax {
    /// Unique name.
    pub(crate) fn name(self) -> String {
        format!("largest_{}{}", self.cols, if self.feeds { "_feeds" } else { "" })
    }

    /// The function.
    pub(crate) fn function(self) -> Function {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (logits, out) = (k.buffer("logits"), k.buffer("out"));
        let next = self
            .feeds
            .then(|| ["tokens", "positions", "output_positions", "ring"].map(|name| k.buffer(name)));
        let slots = k.local(8 * WORKGROUP / 32);
        let row = k.workgroup_id(Axis::X);
        let item = k.workitem_id();
        let start = k.times(row, 4 * self.cols);
        let initial = [k.float(f32::NEG_INFINITY), k.int(0)];
        let (zero, end, step) = (k.int(0), k.int(self.cols), k.int(WORKGROUP));
        let own = k.for_range([zero, end, step], &initial, |k, begin, known| {
            // Work items beyond the end repeat the last logit.
            let number = k.add(begin, item);
            let last = k.int(self.cols - 1);
            let number = k.min_u(number, last);
            let place = k.left(number, 2);
            let place = k.add(place, start);
            let value = k.read(logits, place);
            let pair = if self.feeds { marked(k, [value, number]) } else { [value, number] };
            better(k, [known[0], known[1]], pair).to_vec()
        });
        let mut pair = [own[0], own[1]];
        for mask in [1, 2, 4, 8, 16] {
            let other = pair.map(|value| k.lane_xor(value, mask));
            pair = better(&mut k, pair, other);
        }
        let wave = k.right(item, 5);
        let slot = k.left(wave, 3);
        let value = k.bits(pair[0], Elem::Int);
        let packed = k.pack(&[value, pair[1]]);
        k.store(at(k.lds(slot), slots), Width::Dwords(2), packed);
        k.barrier(false);
        let lane = k.lane();
        let slot = k.left(lane, 3);
        let packed = k.load(at(k.lds(slot), slots), Width::Dwords(2), Elem::Int);
        let value = k.extract(packed, 0);
        let mut pair = [k.bits(value, Elem::Float), k.extract(packed, 1)];
        for mask in [1, 2, 4, 8, 16] {
            let other = pair.map(|value| k.lane_xor(value, mask));
            pair = better(&mut k, pair, other);
        }
        let none = k.int(0);
        let leader = k.eq(item, none);
        k.when(leader, |k| {
            let place = k.left(row, 2);
            let Some(next) = next else { return k.write(out, place, pair[1]) };
            let lowest = k.float(f32::NEG_INFINITY);
            let possible = k.fgt(pair[0], lowest);
            let unpicked = k.int(UNPICKED.0);
            let token = k.select(possible, pair[1], unpicked);
            k.write(out, place, token);
            feed(k, next, row, token);
        });
        k.finish()
    }
}

/// Lets logits that are NaN or plus infinity win, without a token.
fn marked(k: &mut Builder, [value, number]: [Value; 2]) -> [Value; 2] {
    let (highest, unpicked) = (k.float(f32::INFINITY), k.int(UNPICKED.0));
    let finite = k.flt(value, highest);
    [k.select(finite, value, highest), k.select(finite, number, unpicked)]
}

/// Makes `token` the input of `row` in the next step, and leaves it in the ring at its position.
fn feed(k: &mut Builder, [tokens, positions, output_positions, ring]: [Value; 4], row: Value, token: Value) {
    let place = k.left(row, 2);
    let position = k.load(k.global(positions, place), Width::Dwords(1), Elem::Int);
    let position = k.plus(position, 1);
    let (unpicked, first) = (k.int(UNPICKED.0), k.int(0));
    let none = k.eq(token, unpicked);
    let input = k.select(none, first, token);
    k.write(tokens, place, input);
    k.write(positions, place, position);
    k.write(output_positions, place, position);
    let slot = k.mask(position, RING - 1);
    let slot = k.left(slot, 2);
    let begin = k.times(row, 4 * RING);
    let slot = k.add(begin, slot);
    k.write(ring, slot, token);
}
