//! Rows by expert: slots (a row's chosen experts, one after the other) in the order of their experts, and tiles of them.

use crate::builder_ext::{BuilderExt, at};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Axis, Builder, Elem, Function, Value, Width};

const WORKGROUP: u32 = 256;
const WAVES: u32 = WORKGROUP / 32;

/// A workgroup for each expert finds the slots of its own, by ascending slot, and how many are those of lower experts.
/// None waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupRows {
    /// Experts.
    pub experts: u32,
    /// Chosen experts of a row.
    pub top_k: u32,
    /// Slots of a tile.
    pub tile: u32,
}

/// What a work item knows of its workgroup's expert.
struct ExpertSlots {
    /// Slots of lower experts, uniform.
    first: Value,
    /// Slots of the expert, uniform.
    count: Value,
    /// Those of them that earlier work items have.
    before: Value,
}

impl GroupRows {
    /// Tiles of so many slots. Those of an expert start where tiles would if every lower expert's last one were full,
    /// and one more for each of them: there is always room, and what is left over is empty.
    pub fn tiles(&self, slots: u32) -> u32 {
        slots / self.tile + self.experts
    }

    /// The kernel's name.
    pub(crate) fn name(&self) -> String {
        format!("group_{}of{}_{}", self.top_k, self.experts, self.tile)
    }

    /// Arguments: `ids` (u32 `[slots]`), `slots` (at least 4), `rows` and `places` (u32 `[slots]`: row and slot, sorted),
    /// `tiles` (u32 `[tiles, 4]`: expert, its first place, its slots, number of the tile among its own).
    pub fn function(&self) -> Function {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (ids, slots) = (k.buffer("ids"), k.scalar("slots", Elem::Int));
        let (rows, places, tiles) = (k.buffer("rows"), k.buffer("places"), k.buffer("tiles"));
        let expert = k.workgroup_id(Axis::X);
        let none = k.int(0);
        let counts = each_id(&mut k, [ids, slots], &[none, none], |k, counts, id, _| {
            let (none, one) = (k.int(0), k.int(1));
            [k.lt_u(id, expert), k.eq(id, expert)]
                .into_iter()
                .zip(counts)
                .map(|(counts_here, count)| {
                    let more = k.select(counts_here, one, none);
                    k.add(*count, more)
                })
                .collect()
        });
        let found = find(&mut k, [counts[0], counts[1]]);
        self.tile_table(&mut k, tiles, expert, &found);
        let next = k.add(found.first, found.before);
        let _ = each_id(&mut k, [ids, slots], &[next], |k, next, id, slot| {
            let mine = k.eq(id, expert);
            k.choose(
                mine,
                |k| {
                    let place = k.left(next[0], 2);
                    k.write(places, place, slot);
                    let row = self.row(k, slot);
                    k.write(rows, place, row);
                    let one = k.int(1);
                    vec![k.add(next[0], one)]
                },
                |_| vec![next[0]],
            )
        });
        k.finish()
    }

    /// The row of a slot; exact below 2^20 slots.
    fn row(&self, k: &mut Builder, slot: Value) -> Value {
        let number = k.cvt_f_u(slot);
        let half = k.float(0.5);
        let number = k.fadd(number, half);
        let row = k.scaled(number, 1.0 / self.top_k as f32);
        k.alu(Alu::cvt_u_f, &[row])
    }

    /// Writes the expert's tiles and the empty ones before the next expert's.
    fn tile_table(&self, k: &mut Builder, tiles: Value, expert: Value, found: &ExpertSlots) {
        let end = k.add(found.first, found.count);
        let [start, end] = [found.first, end].map(|slots| k.over(slots, self.tile));
        let count = k.sub(end, start);
        let count = k.plus(count, 1);
        let start = k.add(start, expert);
        let item = k.workitem_id();
        let (zero, step) = (k.int(0), k.int(WORKGROUP));
        let _ = k.for_range([zero, count, step], &[], |k, begin, _| {
            let number = k.add(begin, item);
            let inside = k.lt_u(number, count);
            k.when(inside, |k| {
                let entry = k.pack(&[expert, found.first, found.count, number]);
                let place = k.add(start, number);
                let place = k.left(place, 4);
                k.store(k.global(tiles, place), Width::Dwords(4), entry);
            });
            Vec::new()
        });
    }
}

/// Folds over the ids of the work item's slots in order: `step` gets the values, an id and its slot. Ids that are not
/// the work item's are no expert's.
fn each_id(
    k: &mut Builder,
    [ids, slots]: [Value; 2],
    initial: &[Value],
    mut step: impl FnMut(&mut Builder, &[Value], Value, Value) -> Vec<Value>,
) -> Vec<Value> {
    let item = k.workitem_id();
    // Fours of each work item.
    let fours = k.plus(slots, 4 * WORKGROUP - 1);
    let fours = k.right(fours, (4 * WORKGROUP).trailing_zeros());
    let own = k.mul(item, fours);
    let (zero, one, four) = (k.int(0), k.int(1), k.int(4));
    let least = k.sub(slots, four);
    k.for_range([zero, fours, one], initial, |k, number, carried| {
        let number = k.add(own, number);
        let start = k.left(number, 2);
        // The last four may have been seen in part.
        let from = k.min_u(start, least);
        let place = k.left(from, 2);
        let four = k.load(k.global(ids, place), Width::Dwords(4), Elem::Int);
        let mut values = carried.to_vec();
        for index in 0..4u8 {
            let id = k.extract(four, index);
            let slot = k.plus(from, index.into());
            let fresh = k.ge_u(slot, start);
            let none = k.int(u32::MAX);
            let id = k.select(fresh, id, none);
            values = step(k, &values, id, slot);
        }
        values
    })
}

/// From what each work item has of lower experts and of the workgroup's.
fn find(k: &mut Builder, [lower, own]: [Value; 2]) -> ExpertSlots {
    let pairs = k.local(8 * WAVES);
    let lower = k.reduce_wave(lower, Alu::add);
    let (lane, none) = (k.lane(), k.int(0));
    let (mut total, mut before) = (own, none);
    for bit in [1, 2, 4, 8, 16] {
        let other = k.lane_xor(total, bit);
        let upper = k.mask(lane, bit.into());
        let upper = k.ne(upper, none);
        let earlier = k.select(upper, other, none);
        before = k.add(before, earlier);
        total = k.add(total, other);
    }
    let wave = k.wave();
    let place = k.left(wave, 3);
    let pair = k.pack(&[lower, total]);
    k.store(at(k.lds(place), pairs), Width::Dwords(2), pair);
    k.barrier(false);
    let (mut first, mut count) = (none, none);
    for other in 0..WAVES {
        let pair = k.load(at(k.lds(none), pairs + 8 * other), Width::Dwords(2), Elem::Int);
        let [lower, own] = [0, 1].map(|index| k.extract(pair, index));
        first = k.add(first, lower);
        count = k.add(count, own);
        let number = k.int(other);
        let earlier = k.lt_u(number, wave);
        let earlier = k.select(earlier, own, none);
        before = k.add(before, earlier);
    }
    let [first, count] = [first, count].map(|value| k.first_lane(value));
    ExpertSlots { first, count, before }
}
