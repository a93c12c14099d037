//! The end of a running softmax: results, or parts that the last workgroup of a row merges.

use super::arguments::{DecodeArguments, MergeSlot, RowHeads, Spread};
use super::spec::DecodeAttention;
use crate::attention::softmax::{RunningSoftmax, merge};
use crate::builder_ext::{BuilderExt, LOG2_E};
use doorbell_compiler::ir::{Builder, Elem, Value, Width, global};

/// Splits whose loads are on their way together.
const AHEAD: u32 = 4;

/// Byte offsets of a slot in a split's part.
struct SlotOffsets {
    element: Value,
    /// Maximum and sum of its head.
    pair: Value,
}

impl DecodeAttention {
    /// Nothing seen yet.
    pub(crate) fn initial(self, k: &mut Builder) -> RunningSoftmax {
        let none = [k.float(f32::NEG_INFINITY), k.float(0.0), k.float(0.0)];
        none.repeat(self.slots() as usize)
    }

    /// Writes the running softmax of the workgroup's heads.
    pub(crate) fn finish(
        self,
        k: &mut Builder,
        arguments: &DecodeArguments,
        own: &RowHeads,
        running: &[Value],
    ) {
        let first = k.eval((own.heads_before + own.first_head) * (4 * self.shape.dims[1]));
        for (slot, running) in own.slots.iter().zip(running.chunks(3)) {
            let head = k.add(own.first_head, slot.head);
            let inside = k.le_u(head, own.last_head);
            k.when(slot.used & inside, |k| {
                let running = with_sink(k, running, arguments.sinks, head);
                let mut value = k.eval(running[2] * running[1].rcp());
                let offset = k.eval((slot.element << 2) + first);
                if let Some(gate) = arguments.gate {
                    let gate = k.read(gate, offset);
                    let share = k.sigmoid(gate, 1.0);
                    value = k.fmul(value, share);
                }
                k.write(arguments.out, offset, value);
            });
        }
    }

    /// Writes the part of split `split` of `count`; the last workgroup of a row merges all.
    pub(crate) fn gather(
        self,
        k: &mut Builder,
        arguments: &DecodeArguments,
        own: &RowHeads,
        spread: &Spread,
        [split, count]: [Value; 2],
        part: &[Value],
    ) {
        let arrival = k.local(4);
        let groups = self.shape.kv_heads * self.tiles();
        let group = k.eval(own.row * groups + own.number);
        // `[row and workgroup, split, element]`, maximum and sum of each head behind the elements.
        let bytes = self.tile() * self.head_bytes();
        let begin = k.eval(group * spread.splits * bytes);
        let start = k.eval(split * bytes + begin);
        for (slot, part) in own.slots.iter().zip(part.chunks(3)) {
            let offsets = self.offsets(k, slot, start);
            k.when(slot.used, |k| {
                k.write(spread.partials, offsets.element, part[2]);
                // All elements of a head have the same pair.
                let both = k.pack(&part[..2]);
                k.store(global(spread.partials, offsets.pair), Width::Dwords(2), both);
            });
        }
        let counter = k.eval(group << 2);
        let counter = k.global(spread.counters, counter);
        let last = k.last_arrival(counter, count, arrival);
        let initial = self.initial(k);
        k.when(last, |k| {
            k.store(counter, Width::Dwords(1), 0);
            let (zero, step) = (k.int(0), k.int(AHEAD));
            let running = k.for_range([zero, count, step], &initial, |k, first, running| {
                let loaded: RunningSoftmax = (0..AHEAD)
                    .flat_map(|index| {
                        let number = k.eval(first + index);
                        let real = k.lt_u(number, count);
                        let most = k.eval(count - 1);
                        let start = k.eval(number.min(most) * bytes + begin);
                        self.partial(k, spread.partials, own, start, real)
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
        start: Value,
        real: Value,
    ) -> RunningSoftmax {
        let mut part = RunningSoftmax::new();
        for slot in &own.slots {
            let offsets = self.offsets(k, slot, start);
            let pair = k.load(global(partials, offsets.pair), Width::Dwords(2), Elem::Float);
            let element = k.read(partials, offsets.element);
            let (largest, lowest) = (k.extract(pair, 0), k.float(f32::NEG_INFINITY));
            part.extend([k.select(real, largest, lowest), k.extract(pair, 1), element]);
        }
        part
    }

    /// Byte offsets of a slot in a part at byte `start`.
    fn offsets(self, k: &mut Builder, slot: &MergeSlot, start: Value) -> SlotOffsets {
        let element = k.eval(slot.element << 2);
        let pair = k.eval((slot.head << 3) + 4 * self.elements());
        SlotOffsets { element: k.add(element, start), pair: k.add(pair, start) }
    }
}

/// Adds the virtual score of head `own` to a slot's softmax.
fn with_sink(k: &mut Builder, running: &[Value], sinks: Option<Value>, own: Value) -> RunningSoftmax {
    let Some(sinks) = sinks else { return running.to_vec() };
    let sink = k.read(sinks, own << 2);
    let part = [k.eval(sink * LOG2_E), k.float(1.0), k.float(0.0)];
    merge(k, running, &part)
}
