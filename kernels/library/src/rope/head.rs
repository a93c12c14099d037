//! One head of a row, by one wave.

use super::cache::{CacheTarget, HeadRow};
use super::lane_elements::LaneElement;
use super::spec::{BatchArguments, HeadArguments, HeadPart};
use crate::builder_ext::BuilderExt;
use crate::layout::RopeTable;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width, global};
use doorbell_core::quant::Type;

impl HeadPart {
    /// Finishes one head of a row, by one wave.
    pub(crate) fn body(
        self,
        k: &mut Builder,
        input: Value,
        arguments: &HeadArguments,
        batch: BatchArguments,
        row: Value,
        head: Value,
    ) {
        let position = k.read_same(batch.positions, row << 2);
        let start = k.eval((row * self.heads + head) * (4 * self.dim));
        let elements = self.lane_elements(k);
        let mut values: Vec<Value> =
            elements.iter().map(|element| k.read(input, (element.element << 2) + start)).collect();
        if let Some((weight, eps)) = arguments.norm {
            self.normalize(k, &elements, &mut values, weight, eps);
        }
        if let Some((rotation, table)) = self.rope.zip(arguments.rope) {
            let bytes = RopeTable { pairs: rotation.pairs }.position_bytes() as u32;
            let entry = k.eval(position * bytes);
            turn(k, &elements, &mut values, table, entry);
        }
        let own = CacheTarget { base: input, start, ty: Type::F32 };
        let cached = self.target(k, arguments, batch, HeadRow { row, head, position });
        let target = cached.unwrap_or(own);
        match arguments.staged {
            Some(staged) => self.quantize(k, &elements, &values, &target, staged),
            None => store(k, &elements, &values, &target),
        }
    }

    /// Root mean square norm.
    fn normalize(
        self,
        k: &mut Builder,
        elements: &[LaneElement],
        values: &mut [Value],
        weight: Value,
        eps: Value,
    ) {
        let mut sum = k.float(0.0);
        for (value, element) in values.iter().zip(elements) {
            let next = k.fma(*value, *value, sum);
            sum = element.inside.map_or(next, |inside| k.select(inside, next, sum));
        }
        let total = k.reduce_wave(sum, Alu::fadd);
        let factor = k.rsq(total.mul_add(1.0 / self.dim as f32, eps));
        for (value, element) in values.iter_mut().zip(elements) {
            let weight = k.read(weight, element.element << 2);
            *value = k.eval(*value * factor * weight);
        }
    }
}

/// Turns the pairs by the angles at byte `entry` of `table`.
fn turn(k: &mut Builder, elements: &[LaneElement], values: &mut [Value], table: Value, entry: Value) {
    for (pair, element) in (0..).zip(elements.iter().filter(|element| element.first)) {
        let angle = k.load(global(table, (element.pair << 3) + entry), Width::Dwords(2), Elem::Float);
        let (cos, sin) = (k.extract(angle, 0), k.extract(angle, 1));
        let (x, y): (Value, Value) = (values[2 * pair], values[2 * pair + 1]);
        let (xs, ys) = (k.fmul(x, sin), k.fmul(y, sin));
        values[2 * pair] = k.fma(x, cos, -ys);
        values[2 * pair + 1] = k.fma(y, cos, xs);
    }
}

/// Writes a head as F32 or F16.
fn store(k: &mut Builder, elements: &[LaneElement], values: &[Value], target: &CacheTarget) {
    for (value, element) in values.iter().zip(elements) {
        element.when_inside(k, |k| {
            if target.ty == Type::F16 {
                let offset = k.eval((element.element << 1) + target.start);
                let half = k.cvt_h_f(*value);
                k.store(global(target.base, offset), Width::U16, half);
            } else {
                k.write(target.base, (element.element << 2) + target.start, *value);
            }
        });
    }
}
