//! One head of a row, by one wave.

use crate::builder_ext::BuilderExt;
use crate::layout::RopeTable;
use crate::rope::cache::CacheTarget;
use crate::rope::lane_elements::LaneElement;
use crate::rope::spec::{HeadArguments, HeadPart};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width};
use doorbell_core::quant::Type;

impl HeadPart {
    /// Finishes one head of a row, by one wave. `[positions, tables, pages]` are the batch's buffers.
    pub(crate) fn body(
        self,
        k: &mut Builder,
        input: Value,
        arguments: &HeadArguments,
        [positions, tables, pages]: [Value; 3],
        [row, head]: [Value; 2],
    ) {
        let place = k.left(row, 2);
        let position = k.read_same(positions, place);
        let start = k.times(row, self.heads);
        let start = k.add(start, head);
        let start = k.times(start, 4 * self.dim);
        let lane_elements = self.lane_elements(k);
        let mut values: Vec<Value> = lane_elements
            .iter()
            .map(|slot| {
                let place = k.left(slot.element, 2);
                let place = k.add(place, start);
                k.read(input, place)
            })
            .collect();
        if let Some((weight, eps)) = arguments.norm {
            self.normalize(k, &lane_elements, &mut values, [weight, eps]);
        }
        if let Some((pairs, table)) = self.rope.map(|rope| rope.0).zip(arguments.rope) {
            let bytes = RopeTable { pairs }.position_bytes() as u32;
            let entry = k.times(position, bytes);
            turn(k, &lane_elements, &mut values, [table, entry]);
        }
        let own = CacheTarget { base: input, start, kv_type: Type::F32 };
        let target = self.target(k, arguments, [tables, pages], [row, head, position]).unwrap_or(own);
        match arguments.staged {
            Some(staged) => self.quantize(k, &lane_elements, &values, &target, staged),
            None => store(k, &lane_elements, &values, &target),
        }
    }

    /// Root mean square norm.
    fn normalize(
        self,
        k: &mut Builder,
        lane_elements: &[LaneElement],
        values: &mut [Value],
        [weight, eps]: [Value; 2],
    ) {
        let mut sum = k.float(0.0);
        for (value, slot) in values.iter().zip(lane_elements) {
            let next = k.fma(*value, *value, sum);
            sum = slot.inside.map_or(next, |inside| k.select(inside, next, sum));
        }
        let total = k.reduce_wave(sum, Alu::fadd);
        let share = k.float(1.0 / self.dim as f32);
        let mean = k.fma(total, share, eps);
        let factor = k.rsq(mean);
        for (value, slot) in values.iter_mut().zip(lane_elements) {
            let place = k.left(slot.element, 2);
            let weight = k.read(weight, place);
            let scaled = k.fmul(*value, factor);
            *value = k.fmul(scaled, weight);
        }
    }
}

/// Turns the pairs by the angles at byte `entry` of `table`.
fn turn(k: &mut Builder, lane_elements: &[LaneElement], values: &mut [Value], [table, entry]: [Value; 2]) {
    for (pair, slot) in (0..).zip(lane_elements.iter().filter(|slot| slot.first)) {
        let place = k.left(slot.pair, 3);
        let place = k.add(place, entry);
        let turn = k.load(k.global(table, place), Width::Dwords(2), Elem::Float);
        let (cos, sin) = (k.extract(turn, 0), k.extract(turn, 1));
        let (x, y): (Value, Value) = (values[2 * pair], values[2 * pair + 1]);
        let (xs, ys) = (k.fmul(x, sin), k.fmul(y, sin));
        let ys = k.fneg(ys);
        values[2 * pair] = k.fma(x, cos, ys);
        values[2 * pair + 1] = k.fma(y, cos, xs);
    }
}

/// Writes a head as F32 or F16.
fn store(k: &mut Builder, lane_elements: &[LaneElement], values: &[Value], target: &CacheTarget) {
    for (value, slot) in values.iter().zip(lane_elements) {
        let store = |k: &mut Builder| {
            let place = k.left(slot.element, if target.kv_type == Type::F16 { 1 } else { 2 });
            let place = k.add(place, target.start);
            if target.kv_type == Type::F16 {
                let half = k.cvt_h_f(*value);
                k.store(k.global(target.base, place), Width::U16, half);
            } else {
                k.write(target.base, place, *value);
            }
        };
        match slot.inside {
            Some(inside) => k.when(inside, store),
            None => store(k),
        }
    }
}
