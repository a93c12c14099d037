//! Rows by expert: slots (a row's chosen experts, one after the other) in the order of their experts, and tiles of them.

use crate::builder_ext::BuilderExt;
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Axis, Builder, Elem, Function, Value, Width, global, lds};
use doorbell_compiler::isa::Target;

const WORKGROUP: u32 = 256;
const WAVES: u32 = WORKGROUP / 32;

/// A workgroup for each expert finds the expert's slots, by ascending slot, and counts those of lower experts. None
/// waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupRows {
    /// Experts.
    pub experts: u32,
    /// Chosen experts of a row.
    pub top_k: u32,
    /// Slots of a tile.
    pub tile: u32,
}

/// The slots of the workgroup's expert.
struct ExpertSlots {
    /// Slots of lower experts, uniform.
    first: Value,
    /// Slots of the expert, uniform.
    count: Value,
    /// Those of them that earlier work items have.
    before: Value,
}

impl GroupRows {
    /// Tiles for a number of slots. An expert's tiles start after the full tiles of all lower experts and one more for
    /// each of them: there is always room, and the tiles left over are empty.
    pub fn tiles(&self, slots: u32) -> u32 {
        slots / self.tile + self.experts
    }

    /// The row of a slot; exact below 2^20 slots.
    fn row(&self, k: &mut Builder, slot: Value) -> Value {
        k.eval(((slot.u32_to_f32() + 0.5) * (1.0 / self.top_k as f32)).f32_to_u32())
    }

    /// Writes the expert's tiles and the empty ones before the next expert's.
    fn tile_table(&self, k: &mut Builder, tiles: Value, expert: Value, found: &ExpertSlots) {
        let end_slot = k.add(found.first, found.count);
        let [first, end] = [found.first, end_slot].map(|slots| k.eval(slots / self.tile));
        let count = k.eval(end - first + 1);
        let start = k.add(first, expert);
        let item = k.workitem_id();
        let (zero, step) = (k.int(0), k.int(WORKGROUP));
        let _ = k.for_range([zero, count, step], &[], |k, begin, _| {
            let number = k.add(begin, item);
            k.when(number.lt(count), |k| {
                let entry = k.pack(&[expert, found.first, found.count, number]);
                k.store(global(tiles, (start + number) << 4), Width::Dwords(4), entry);
            });
            Vec::new()
        });
    }
}

impl Kernel for GroupRows {
    fn name(&self) -> String {
        format!("group_{}of{}_{}", self.top_k, self.experts, self.tile)
    }

    /// Arguments: `ids` (u32 `[slots]`), `slots` (at least 4), `rows` and `places` (u32 `[slots]`: row and slot, sorted),
    /// `tiles` (u32 `[tiles, 4]`: expert, its first sorted slot, its slots, number of the tile among its own).
    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (ids, slots) = (k.buffer("ids"), k.scalar("slots", Elem::Int));
        let (rows, sorted, tiles) = (k.buffer("rows"), k.buffer("places"), k.buffer("tiles"));
        let expert = k.workgroup_id(Axis::X);
        let none = k.int(0);
        let counts = each_id(&mut k, ids, slots, &[none, none], |k, counts, id, _| {
            let (none, one) = (k.int(0), k.int(1));
            [k.lt_u(id, expert), k.eq(id, expert)]
                .into_iter()
                .zip(counts)
                .map(|(counted, count)| {
                    let more = k.select(counted, one, none);
                    k.add(*count, more)
                })
                .collect()
        });
        let found = find(&mut k, counts[0], counts[1]);
        self.tile_table(&mut k, tiles, expert, &found);
        let next = k.add(found.first, found.before);
        let _ = each_id(&mut k, ids, slots, &[next], |k, next, id, slot| {
            k.choose(
                id.eq(expert),
                |k| {
                    let offset = k.eval(next[0] << 2);
                    k.write(sorted, offset, slot);
                    let row = self.row(k, slot);
                    k.write(rows, offset, row);
                    vec![k.eval(next[0] + 1)]
                },
                |_| vec![next[0]],
            )
        });
        Ok(k.finish())
    }
}

/// Folds over the ids of the work item's slots in order: `step` gets the values, an id and its slot. Ids that belong to
/// another work item become no expert's.
fn each_id(
    k: &mut Builder,
    ids: Value,
    slots: Value,
    initial: &[Value],
    mut step: impl FnMut(&mut Builder, &[Value], Value, Value) -> Vec<Value>,
) -> Vec<Value> {
    let item = k.workitem_id();
    // Groups of four slots of each work item.
    let fours = k.eval((slots + (4 * WORKGROUP - 1)) / (4 * WORKGROUP));
    let own = k.mul(item, fours);
    let (zero, one, four) = (k.int(0), k.int(1), k.int(4));
    let least = k.sub(slots, four);
    k.for_range([zero, fours, one], initial, |k, number, carried| {
        let start = k.eval((own + number) << 2);
        // The last four may have been seen in part.
        let from = k.min_u(start, least);
        let four = k.load(global(ids, from << 2), Width::Dwords(4), Elem::Int);
        let mut values = carried.to_vec();
        for index in 0..4u8 {
            let id = k.extract(four, index);
            let slot = k.eval(from + u32::from(index));
            let own_id = k.eval(slot.ge(start).select(id, u32::MAX));
            values = step(k, &values, own_id, slot);
        }
        values
    })
}

/// The expert's slots, from each work item's counts of lower experts' slots and of the expert's own.
fn find(k: &mut Builder, lower: Value, own: Value) -> ExpertSlots {
    let pairs = k.local(8 * WAVES);
    let lower = k.reduce_wave(lower, Alu::add);
    let (lane, none) = (k.lane(), k.int(0));
    let (mut total, mut before) = (own, none);
    for bit in [1, 2, 4, 8, 16] {
        let other = k.lane_xor(total, bit);
        let earlier = k.eval((lane & u32::from(bit)).ne(none).select(other, none));
        before = k.add(before, earlier);
        total = k.add(total, other);
    }
    let wave = k.wave();
    let offset = k.eval(wave << 3);
    let pair = k.pack(&[lower, total]);
    k.store(lds(offset).plus(pairs), Width::Dwords(2), pair);
    k.barrier(false);
    let (mut first, mut count) = (none, none);
    for other in 0..WAVES {
        let pair = k.load(lds(none).plus(pairs + 8 * other), Width::Dwords(2), Elem::Int);
        let [lower, own] = [0, 1].map(|index| k.extract(pair, index));
        first = k.add(first, lower);
        count = k.add(count, own);
        let number = k.int(other);
        let earlier = k.eval(number.lt(wave).select(own, none));
        before = k.add(before, earlier);
    }
    let [first, count] = [first, count].map(|value| k.first_lane(value));
    ExpertSlots { first, count, before }
}
