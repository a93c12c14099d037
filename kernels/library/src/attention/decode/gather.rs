//! What becomes of a running softmax: results, or parts that the last workgroup of a row merges.

use crate::attention::decode::kernel::{DecodeArguments, MergeSlot, RowHeads};
use crate::attention::decode::spec::DecodeAttention;
use crate::attention::softmax::{RunningSoftmax, merge};
use crate::builder_ext::{BuilderExt, LOG2_E};
use doorbell_compiler::ir::{Builder, Elem, Value, Width};

/// Splits whose loads are on their way together.
const AHEAD: u32 = 4;

impl DecodeAttention {
    /// Writes the running softmax of the workgroup's heads.
    pub(crate) fn finish(
        self,
        k: &mut Builder,
        arguments: &DecodeArguments,
        own: &RowHeads,
        running: &[Value],
    ) {
        let [row_heads, query_head, last_head] = own.heads;
        let first = k.add(row_heads, query_head);
        let first = k.times(first, 4 * self.shape.dims[1]);
        for (slot, running) in own.slots.iter().zip(running.chunks(3)) {
            let head = k.add(query_head, slot.head);
            let inside = k.le_u(head, last_head);
            let used = k.both(slot.used, inside);
            k.when(used, |k| {
                let running = with_sink(k, running, arguments.sinks, head);
                let inverse = k.rcp(running[1]);
                let value = k.fmul(running[2], inverse);
                let place = k.left(slot.element, 2);
                let place = k.add(place, first);
                k.write(arguments.out, place, value);
            });
        }
    }

    /// Hands a split's part over; the last workgroup of a row merges all. `[split, count]`: its number, splits of the row.
    pub(crate) fn gather(
        self,
        k: &mut Builder,
        arguments: &DecodeArguments,
        own: &RowHeads,
        ([counters, partials], splits): ([Value; 2], Value),
        [split, count]: [Value; 2],
        part: &[Value],
    ) {
        let arrival = k.local(4);
        let groups = self.shape.kv_heads * self.tiles();
        let group = k.times(own.row, groups);
        let group = k.add(group, own.number);
        // `[row and workgroup, split, element]`, maximum and sum of each head behind the elements.
        let bytes = self.tile() * self.head_bytes();
        let begin = k.mul(group, splits);
        let begin = k.times(begin, bytes);
        let at_split = |k: &mut Builder, split: Value| {
            let start = k.times(split, bytes);
            k.add(start, begin)
        };
        let start = at_split(k, split);
        for (slot, part) in own.slots.iter().zip(part.chunks(3)) {
            let [element, pair] = self.places(k, slot, start);
            k.when(slot.used, |k| {
                k.write(partials, element, part[2]);
                // All elements of a head have the same pair.
                let both = k.pack(&part[..2]);
                k.store(k.global(partials, pair), Width::Dwords(2), both);
            });
        }
        let counter = k.left(group, 2);
        let counter = k.global(counters, counter);
        let last = k.last_arrival(counter, count, arrival);
        let initial = self.initial(k);
        k.when(last, |k| {
            let zero = k.int(0);
            k.store(counter, Width::Dwords(1), zero);
            let (zero, step) = (k.int(0), k.int(AHEAD));
            let running = k.for_range([zero, count, step], &initial, |k, first, running| {
                let loaded: RunningSoftmax = (0..AHEAD)
                    .flat_map(|index| {
                        let split = k.plus(first, index);
                        let real = k.lt_u(split, count);
                        let one = k.int(1);
                        let most = k.sub(count, one);
                        let split = k.min_u(split, most);
                        let start = at_split(k, split);
                        self.partial(k, partials, own, [start, real])
                    })
                    .collect();
                let each = loaded.chunks(3 * own.slots.len());
                each.fold(running.to_vec(), |running, part| merge(k, &running, part))
            });
            self.finish(k, arguments, own, &running);
        });
    }

    /// The part of a split at byte `start`, of nothing unless it is `real`.
    fn partial(
        self,
        k: &mut Builder,
        partials: Value,
        own: &RowHeads,
        [start, real]: [Value; 2],
    ) -> RunningSoftmax {
        let mut part = RunningSoftmax::new();
        for slot in &own.slots {
            let [element, pair] = self.places(k, slot, start);
            let pair = k.load(k.global(partials, pair), Width::Dwords(2), Elem::Float);
            let element = k.read(partials, element);
            let (largest, lowest) = (k.extract(pair, 0), k.float(f32::NEG_INFINITY));
            part.extend([k.select(real, largest, lowest), k.extract(pair, 1), element]);
        }
        part
    }

    /// Byte offsets of a slot's element and of its head's pair, in a part at byte `start`.
    fn places(self, k: &mut Builder, slot: &MergeSlot, start: Value) -> [Value; 2] {
        let element = k.left(slot.element, 2);
        let pair = k.left(slot.head, 3);
        let pair = k.plus(pair, 4 * self.elements());
        [k.add(element, start), k.add(pair, start)]
    }
}

/// Adds the virtual score of head `own` to a slot's softmax.
fn with_sink(k: &mut Builder, running: &[Value], sinks: Option<Value>, own: Value) -> RunningSoftmax {
    let Some(sinks) = sinks else { return running.to_vec() };
    let place = k.left(own, 2);
    let sink = k.read(sinks, place);
    let part = [k.scaled(sink, LOG2_E), k.float(1.0), k.float(0.0)];
    merge(k, running, &part)
}
