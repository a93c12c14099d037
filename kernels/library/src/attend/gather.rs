//! What becomes of a running softmax: results, or parts that the last workgroup of a row merges.

use super::cells::wide_load;
use super::kernel::{Arguments, Place};
use super::softmax::{Running, merge};
use super::{Attention, LOG2_E};
use crate::idiom::{Idiom, at};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width};

impl Attention {
    /// Writes the running softmax of the wave's head.
    pub(super) fn finish(self, k: &mut Builder, arguments: &Arguments, own: &Place, running: &[Value]) {
        let [row_heads, query_head, last_head] = own.heads;
        let limit = k.int(self.tile());
        let head = k.add(query_head, own.wave);
        let used = k.lt_u(own.wave, limit);
        let inside = k.le_u(head, last_head);
        let used = k.both(used, inside);
        k.when(used, |k| {
            let running = self.with_sink(k, running, arguments.sinks, head);
            let head = k.add(row_heads, head);
            let start = k.times(head, 4 * self.shape.dims[1]);
            let inverse = k.rcp(running[1]);
            let values: Vec<Value> = running[2..].iter().map(|value| k.fmul(*value, inverse)).collect();
            self.store(k, arguments.out, start, &values);
        });
    }

    /// Hands a split's part over; the last workgroup of a row merges all. `[split, count]`: its number, splits of the row.
    pub(super) fn gather(
        self,
        k: &mut Builder,
        arguments: &Arguments,
        own: &Place,
        ([counters, partials], splits): ([Value; 2], Value),
        [split, count]: [Value; 2],
        part: &[Value],
    ) {
        let slot = k.local(4);
        let groups = self.shape.kv_heads * self.tiles();
        let group = k.times(own.row, groups);
        let group = k.add(group, own.number);
        // `[row and workgroup, split, head, element]`, maximum and sum behind the elements.
        let head_bytes = self.head_bytes();
        let begin = k.mul(group, splits);
        let begin = k.times(begin, self.tile() * head_bytes);
        let at_split = |k: &mut Builder, split: Value| {
            let start = k.times(split, self.tile() * head_bytes);
            let start = k.add(start, begin);
            let head = k.times(own.wave, head_bytes);
            k.add(start, head)
        };
        let limit = k.int(self.tile());
        let used = k.lt_u(own.wave, limit);
        k.when(used, |k| {
            let start = at_split(k, split);
            self.store(k, partials, start, &part[2..]);
            let pair = k.pack(&part[..2]);
            k.store(at(k.global(partials, start), 4 * self.shape.dims[1]), Width::Dwords(2), pair);
        });
        let counter = k.left(group, 2);
        let counter = k.global(counters, counter);
        let last = k.last_arrival(counter, count, slot);
        let initial = self.initial(k);
        let both = k.both(last, used);
        k.when(both, |k| {
            let zero = k.int(0);
            k.store(counter, Width::Dwords(1), zero);
            let (zero, one) = (k.int(0), k.int(1));
            let running = k.for_range([zero, count, one], &initial, |k, split, running| {
                let start = at_split(k, split);
                let pair = at(k.global(partials, start), 4 * self.shape.dims[1]);
                let pair = k.load(pair, Width::Dwords(2), Elem::Float);
                let mut part = k.elements(pair, 2);
                let place = self.element(k);
                let place = k.left(place, 2);
                let place = k.add(place, start);
                part.extend(wide_load(k, self.width(), |k| k.global(partials, place)));
                merge(k, running, &part)
            });
            self.finish(k, arguments, own, &running);
        });
    }

    /// Writes the lane's elements of a head that starts at byte `start`.
    fn store(self, k: &mut Builder, base: Value, start: Value, values: &[Value]) {
        let place = self.element(k);
        let place = k.left(place, 2);
        let place = k.add(place, start);
        for (values, index) in values.chunks(4).zip(0..) {
            let packed = if values.len() == 1 { values[0] } else { k.pack(values) };
            k.store(at(k.global(base, place), 16 * index), Width::Dwords(values.len() as u8), packed);
        }
    }

    /// Adds the virtual score of head `own`.
    fn with_sink(self, k: &mut Builder, running: &[Value], sinks: Option<Value>, own: Value) -> Running {
        let Some(sinks) = sinks else { return running.to_vec() };
        let place = k.left(own, 2);
        let sink = k.read(sinks, place);
        let sink = k.scaled(sink, LOG2_E);
        let mut part = vec![sink, k.float(1.0)];
        part.extend(running[2..].iter().map(|_| k.float(0.0)));
        merge(k, running, &part)
    }
}
