//! Rows by expert: slots (a row's chosen experts, one after the other) in the order of their experts, and tiles of them.

use crate::idiom::{Idiom, at};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use doorbell_compiler::ir::{Builder, Elem, Function, Value, Width};

const GROUP: u32 = 256;

/// One workgroup sorts all slots, each expert's by ascending slot, whatever the timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// Experts, up to 256.
    pub experts: u32,
    /// Chosen experts of a row.
    pub top_k: u32,
    /// Slots of a tile.
    pub tile: u32,
}

impl Group {
    /// Experts that one workgroup can take.
    pub(crate) const MOST: u32 = GROUP;

    /// Tiles that so many slots have at most.
    pub fn tiles(&self, slots: u32) -> u32 {
        slots.div_ceil(self.tile) + self.experts.min(slots)
    }

    /// The kernel's name.
    pub(crate) fn name(&self) -> String {
        format!("group_{}of{}_{}", self.top_k, self.experts, self.tile)
    }

    /// Arguments: `ids` (u32 `[slots]`), `slots` (at least 4), `rows` and `places` (u32 `[slots]`: row and slot, sorted),
    /// `tiles` (u32 `[tile_count, 4]`: expert, first, count, 0; a count of 0 is no tile), `tile_count`.
    pub fn function(&self) -> Function {
        let mut k = Builder::new(&self.name(), GROUP);
        let (ids, slots) = (k.buffer("ids"), k.scalar("slots", Elem::Int));
        let (rows, places, tiles) = (k.buffer("rows"), k.buffer("places"), k.buffer("tiles"));
        let tile_count = k.scalar("tile_count", Elem::Int);
        let (counts, firsts, ends) = (k.local(4 * GROUP), k.local(4 * GROUP), k.local(4 * GROUP));
        let item = k.workitem_id();
        let own = k.left(item, 2);
        let none = k.int(0);
        let count = self.each_id(&mut k, [ids, slots], none, |k, count, _, mine| {
            let one = k.int(1);
            let more = k.add(count, one);
            k.select(mine, more, count)
        });
        k.store(at(k.lds(own), counts), Width::Dwords(1), count);
        k.barrier(false);
        let [first, before] = self.prefix(&mut k, counts);
        let tiles_of = self.tiles_of(&mut k, count);
        let end = k.add(before, tiles_of);
        k.store(at(k.lds(own), firsts), Width::Dwords(1), first);
        k.store(at(k.lds(own), ends), Width::Dwords(1), end);
        k.barrier(false);
        let _ = self.each_id(&mut k, [ids, slots], first, |k, next, slot, mine| {
            let moved = k.choose(
                mine,
                |k| {
                    let place = k.left(next, 2);
                    k.write(places, place, slot);
                    let number = k.cvt_f_u(slot);
                    let half = k.float(0.5);
                    let number = k.fadd(number, half);
                    // Exact below 2^20 slots.
                    let row = k.scaled(number, 1.0 / self.top_k as f32);
                    let row = k.alu(doorbell_compiler::ir::Alu::cvt_u_f, &[row]);
                    k.write(rows, place, row);
                    let one = k.int(1);
                    vec![k.add(next, one)]
                },
                |_| vec![next],
            );
            moved[0]
        });
        self.tile_table(&mut k, [counts, firsts, ends], [tiles, tile_count]);
        k.finish()
    }

    /// Folds over the ids in order: `step` gets the value, the slot's number and whether the work item's expert has it.
    fn each_id(
        &self,
        k: &mut Builder,
        [ids, slots]: [Value; 2],
        initial: Value,
        mut step: impl FnMut(&mut Builder, Value, Value, Value) -> Value,
    ) -> Value {
        let item = k.workitem_id();
        let (zero, four) = (k.int(0), k.int(4));
        let least = k.sub(slots, four);
        k.for_range([zero, slots, four], &[initial], |k, at_slot, carried| {
            // The last four may have been seen in part.
            let from = k.min_u(at_slot, least);
            let place = k.left(from, 2);
            let four = k.load_uniform(k.global(ids, place), Width::Dwords(4), Elem::Int);
            let mut value = carried[0];
            for index in 0..4u8 {
                let id = k.extract(four, index);
                let slot = k.plus(from, index.into());
                let fresh = k.ge_u(slot, at_slot);
                let own = k.eq(id, item);
                let mine = k.both(fresh, own);
                value = step(k, value, slot, mine);
            }
            vec![value]
        })[0]
    }

    /// Tiles that so many slots of one expert have; exact below 2^16 slots.
    fn tiles_of(&self, k: &mut Builder, count: Value) -> Value {
        let tiles = k.plus(count, self.tile - 1);
        k.over(tiles, self.tile)
    }

    /// Slots and tiles of the experts before the work item's.
    fn prefix(&self, k: &mut Builder, counts: u32) -> [Value; 2] {
        let item = k.workitem_id();
        let zero = k.int(0);
        let (start, end, step) = (k.int(0), k.int(self.experts), k.int(1));
        let found = k.for_range([start, end, step], &[zero, zero], |k, expert, carried| {
            let place = k.left(expert, 2);
            let count = k.load(at(k.lds(place), counts), Width::Dwords(1), Elem::Int);
            let before = k.lt_u(expert, item);
            let zero = k.int(0);
            let count = k.select(before, count, zero);
            let tiles = self.tiles_of(k, count);
            vec![k.add(carried[0], count), k.add(carried[1], tiles)]
        });
        [found[0], found[1]]
    }

    fn tile_table(&self, k: &mut Builder, [counts, firsts, ends]: [u32; 3], [tiles, tile_count]: [Value; 2]) {
        let item = k.workitem_id();
        let (zero, step) = (k.int(0), k.int(GROUP));
        let _ = k.for_range([zero, tile_count, step], &[zero], |k, begin, carried| {
            let tile = k.add(begin, item);
            let (zero, end, one) = (k.int(0), k.int(self.experts), k.int(1));
            let expert = k.for_range([zero, end, one], &[zero], |k, expert, carried| {
                let place = k.left(expert, 2);
                let end = k.load(at(k.lds(place), ends), Width::Dwords(1), Elem::Int);
                let passed = k.le_u(end, tile);
                let one = k.int(1);
                let more = k.add(carried[0], one);
                vec![k.select(passed, more, carried[0])]
            })[0];
            let last = k.int(self.experts - 1);
            let own = k.min_u(expert, last);
            let place = k.left(own, 2);
            let [count, first, end] = [counts, firsts, ends]
                .map(|table| k.load(at(k.lds(place), table), Width::Dwords(1), Elem::Int));
            let tiles_of = self.tiles_of(k, count);
            let start = k.sub(end, tiles_of);
            let within = k.sub(tile, start);
            let ahead = k.times(within, self.tile);
            let left = k.sub(count, ahead);
            let most = k.int(self.tile);
            let left = k.min_u(left, most);
            let real = k.le_u(expert, last);
            let left = k.select(real, left, zero);
            let first = k.add(first, ahead);
            let entry = k.pack(&[own, first, left, zero]);
            let inside = k.lt_u(tile, tile_count);
            k.when(inside, |k| {
                let place = k.left(tile, 4);
                k.store(k.global(tiles, place), Width::Dwords(4), entry);
            });
            vec![carried[0]]
        });
    }
}
