//! The token of the largest logit of each output row, the lowest id on ties: one workgroup a row.

use super::idiom::{Idiom, at};
use super::{Cost, Launch, Recipe};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value, Width};
use doorbell_compiler::object::ArgumentValue;

/// Work items.
const GROUP: u32 = 1024;

/// The largest of a row of logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Largest {
    /// Logits of a row.
    pub cols: u32,
}

/// The launch over `rows` rows of logits.
pub(crate) fn largest(logits: u64, cols: u32, rows: u32, out: u64) -> Launch {
    Launch {
        recipe: Recipe::Largest(Largest { cols }),
        groups: [rows, 1, 1],
        arguments: vec![ArgumentValue::Buffer(logits), ArgumentValue::Buffer(out)],
        waits: true,
        cost: Cost { read: 4 * u64::from(cols) * u64::from(rows), written: 4 * u64::from(rows), products: 0 },
    }
}

/// The better of two pairs of value and number.
fn better(k: &mut Builder, a: [Value; 2], b: [Value; 2]) -> [Value; 2] {
    let above = k.fgt(b[0], a[0]);
    let equal = k.feq(b[0], a[0]);
    let earlier = k.lt_u(b[1], a[1]);
    let tie = k.both(equal, earlier);
    let wins = k.either(above, tie);
    [k.select(wins, b[0], a[0]), k.select(wins, b[1], a[1])]
}

impl Largest {
    /// Unique name.
    pub(crate) fn name(self) -> String {
        format!("largest_{}", self.cols)
    }

    /// The function.
    pub(crate) fn function(self) -> Function {
        let mut k = Builder::new(&self.name(), GROUP);
        let (logits, out) = (k.buffer("logits"), k.buffer("out"));
        let slots = k.local(8 * GROUP / 32);
        let row = k.workgroup_id(Axis::X);
        let item = k.workitem_id();
        let start = k.times(row, 4 * self.cols);
        let initial = [k.float(f32::NEG_INFINITY), k.int(0)];
        let (zero, end, step) = (k.int(0), k.int(self.cols), k.int(GROUP));
        let own = k.for_range([zero, end, step], &initial, |k, begin, known| {
            // Work items beyond the end repeat the last logit.
            let number = k.add(begin, item);
            let last = k.int(self.cols - 1);
            let number = k.min_u(number, last);
            let place = k.left(number, 2);
            let place = k.add(place, start);
            let value = k.read(logits, place);
            better(k, [known[0], known[1]], [value, number]).to_vec()
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
            k.write(out, place, pair[1]);
        });
        k.finish()
    }
}
