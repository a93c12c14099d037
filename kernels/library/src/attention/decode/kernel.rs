//! The kernel of attention row by row: grid X heads, Y splits, Z rows.

use super::arguments::{DecodeArguments, MergeSlot, RowHeads, Spread};
use super::decode_tile::{DecodeContext, DecodeLds};
use super::parts::{PART, WAVES};
use super::spec::DecodeAttention;
use crate::attention::shape::AttentionInputs;
use crate::attention::softmax::{RunningSoftmax, Window, combined, is_single, merge};
use crate::builder_ext::BuilderExt;
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value, Width, global, lds};
use doorbell_compiler::isa::Target;

/// The parts of a sequence that a row sees.
#[derive(Clone, Copy)]
struct VisibleParts {
    /// The first part.
    first: Value,
    /// The last part.
    last: Value,
}

impl Kernel for DecodeAttention {
    fn name(&self) -> String {
        let flags = [(self.spread, "_spread"), (self.single, "_single")];
        let flags: String = flags.iter().filter(|flag| flag.0).map(|flag| flag.1).collect();
        format!("attend_{}{flags}", self.shape.name())
    }

    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), 32 * WAVES);
        let arguments = self.arguments(&mut k);
        let lds = DecodeLds {
            shares: k.local(4 * WAVES * self.tile() * PART),
            results: k.local(4 * WAVES * self.elements()),
            sums: k.local(8 * WAVES * self.tile()),
        };
        let row = k.workgroup_id(Axis::Z);
        let table = k.read_uniform(arguments.inputs.tables, row << 2);
        match arguments.rows {
            Some(rows) => {
                let single = is_single(&mut k, arguments.inputs.tables, table, row, rows);
                k.when(single, |k| self.row(k, &arguments, table, lds));
            }
            None => self.row(&mut k, &arguments, table, lds),
        }
        Ok(k.finish())
    }
}

impl DecodeAttention {
    fn arguments(self, k: &mut Builder) -> DecodeArguments {
        let inputs = AttentionInputs::new(k);
        let sinks = self.shape.sinks.then(|| k.buffer("sinks"));
        let gate = self.shape.gated.then(|| k.buffer("gate"));
        let out = k.buffer("out");
        let buffers = self.spread.then(|| (k.buffer("counters"), k.buffer("partials")));
        let scale = k.scalar("scale", Elem::Float);
        let spread = buffers.map(|(counters, partials)| {
            let splits = k.scalar("splits", Elem::Int);
            Spread { counters, partials, splits }
        });
        let rows = self.single.then(|| k.scalar("rows", Elem::Int));
        DecodeArguments { inputs, sinks, gate, out, spread, scale, rows }
    }

    /// The workgroup's row, whose page table starts at entry `table`.
    fn row(self, k: &mut Builder, arguments: &DecodeArguments, table: Value, lds: DecodeLds) {
        let (number, row) = (k.workgroup_id(Axis::X), k.workgroup_id(Axis::Z));
        let head = k.eval(number / self.tiles());
        let own_tile = k.eval(number & (self.tiles() - 1));
        let group_head = k.eval(head * self.shape.group);
        let first_head = k.eval(group_head + own_tile * self.tile());
        let last_head = k.eval(group_head + (self.shape.group - 1));
        let heads_before = k.eval(row * self.shape.heads());
        let lane_position = k.read_int(arguments.inputs.positions, row << 2);
        let mut own = RowHeads { row, number, heads_before, first_head, last_head, slots: Vec::new() };
        let queries = self.queries(k, arguments.inputs.query, &own);
        let position = k.first_lane(lane_position);
        let first = Window(self.shape.window).first(k, position);
        let inputs = arguments.inputs;
        let scale = arguments.scale;
        let context = DecodeContext { inputs, table, head, position, first, scale, queries, lds };
        own.slots = self.merge_slots(k);
        let (part, last) = (k.eval(first / PART), k.eval(position / PART));
        let count = k.eval((last - part) / WAVES + 1);
        let visible = VisibleParts { first: part, last };
        let Some(spread) = &arguments.spread else {
            let (zero, one) = (k.int(0), k.int(1));
            let initial = self.initial(k);
            let running = k.for_range([zero, count, one], &initial, |k, split, running| {
                k.barrier(false);
                let part = self.split(k, &context, &own, split, visible);
                merge(k, running, &part)
            });
            self.finish(k, arguments, &own, &running);
            return;
        };
        let split = k.workgroup_id(Axis::Y);
        k.when(split.lt(count), |k| {
            let result = self.split(k, &context, &own, split, visible);
            self.gather(k, arguments, &own, spread, [split, count], &result);
        });
    }

    /// The elements that the work item merges.
    fn merge_slots(self, k: &mut Builder) -> Vec<MergeSlot> {
        let item = k.workitem_id();
        let all = k.int(self.elements());
        (0..self.slots())
            .map(|slot| {
                let number = k.eval(item + 32 * WAVES * slot);
                let used = k.lt_u(number, all);
                let element = k.min_u(number, self.elements() - 1);
                let head = k.eval(element / self.shape.dims[1]);
                MergeSlot { element, used, head }
            })
            .collect()
    }

    /// The lane's elements of queries, by head; zeros in lanes that are left over.
    fn queries(self, k: &mut Builder, query: Value, own: &RowHeads) -> Vec<Vec<Value>> {
        let lanes = self.key_lanes();
        let mut queries: Vec<Vec<Value>> = (0..self.tile()).map(|_| Vec::new()).collect();
        for index in 0..lanes.eights() {
            let element = lanes.element(k, index);
            let within = k.eval(element << 2);
            for (loaded, number) in queries.iter_mut().zip(0..) {
                let head = k.eval((own.first_head + number).min(own.last_head) + own.heads_before);
                let ahead = k.eval(head * (4 * lanes.dim));
                let start = k.add(within, ahead);
                for half in 0..2 {
                    let four = k.load(global(query, start).plus(16 * half), Width::Dwords(4), Elem::Float);
                    loaded.extend(k.elements(four, 4));
                }
            }
            if lanes.ragged() {
                let (number, end) = (lanes.number(k, index), k.int(lanes.dim / 8));
                let (inside, zero) = (k.lt_u(number, end), k.float(0.0));
                for value in queries.iter_mut().flat_map(|own| own.iter_mut().skip(8 * index as usize)) {
                    *value = k.select(inside, *value, zero);
                }
            }
        }
        queries
    }

    /// Eight parts of a row, combined: of each slot maximum, sum, element. Ends with LDS still being read.
    fn split(
        self,
        k: &mut Builder,
        context: &DecodeContext,
        own: &RowHeads,
        split: Value,
        visible: VisibleParts,
    ) -> RunningSoftmax {
        let wave = k.wave();
        let first = k.eval(split * WAVES + visible.first);
        let mine = k.add(first, wave);
        k.when(mine.le(visible.last), |k| self.decode_tile(k, context, mine, wave));
        k.barrier(false);
        let left = k.sub(visible.last, first);
        // Where there is no part, the last one stands with no share.
        let parts: Vec<(Value, Value)> = (0..WAVES)
            .map(|wave| {
                let wave = k.int(wave);
                (k.le_u(wave, left), k.min_u(wave, left))
            })
            .collect();
        own.slots.iter().flat_map(|slot| self.slot(k, context.lds, slot, &parts)).collect()
    }

    /// A slot of all parts of a split, combined. For each part: true if there is one, and the wave that made it.
    fn slot(
        self,
        k: &mut Builder,
        local: DecodeLds,
        slot: &MergeSlot,
        parts: &[(Value, Value)],
    ) -> [Value; 3] {
        let within = k.eval(slot.element << 2);
        let head = k.eval(slot.head * (8 * WAVES));
        let mut loaded = Vec::new();
        for (real, wave) in parts {
            let ahead = k.eval(*wave * (4 * self.elements()));
            let element = lds(within + ahead).plus(local.results);
            let element = k.load(element, Width::Dwords(1), Elem::Float);
            let ahead = k.eval(*wave << 3);
            let pair = k.load(lds(head + ahead).plus(local.sums), Width::Dwords(2), Elem::Float);
            loaded.push((*real, pair, element));
        }
        let lowest = k.float(f32::NEG_INFINITY);
        let parts: Vec<[Value; 3]> = loaded
            .into_iter()
            .map(|(real, pair, element)| {
                let largest = k.extract(pair, 0);
                [k.select(real, largest, lowest), k.extract(pair, 1), element]
            })
            .collect();
        combined(k, &parts)
    }
}
