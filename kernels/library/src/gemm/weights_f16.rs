//! Weights as f16 in LDS: codes become f16 by their bits and are scaled in pairs.
//!
//! 0x6400 + n is the f16 1024 + n, so a byte with 0x64 above it is a number; subtracting the bias is exact, and scaling
//! rounds once. Factor and addend are rounded to f16 before.

use super::stage::{RunColumns, STEP, StageLayout, WeightStage};
use crate::builder_ext::BuilderExt;
use crate::formats::run::Run;
use crate::formats::spec::FormatSpec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width, lds};
use doorbell_core::quant::Type;

impl WeightStage {
    /// Puts loaded weights into LDS; zeros beyond the last column.
    pub(crate) fn keep_f16(&self, k: &mut Builder, step: Value, layout: &StageLayout, loaded: &[Value]) {
        let runs = match &layout.format {
            Some(format) => format.runs(k, loaded).map(|run| scaled(k, format.spec, &run)),
            None => self.floats(k, loaded),
        };
        let inside = self.inside(k, step, layout);
        let RunColumns { distance, .. } = layout.columns(k);
        for ((number, pairs), inside) in (0u32..).zip(runs).zip(inside) {
            let zero = k.int(0);
            let pairs: Vec<Value> = pairs
                .into_iter()
                .map(|pair| inside.map_or(pair, |inside| k.select(inside, pair, zero)))
                .collect();
            for (quarter, pairs) in (0u32..).zip(pairs.chunks(4)) {
                let packed = k.pack(pairs);
                let ahead = 2 * distance * number + 16 * quarter;
                k.store(lds(self.target).plus(ahead), Width::Dwords(4), packed);
            }
        }
    }

    /// For each run of a half: true if it lies within the row; `None` if all do.
    fn inside(&self, k: &mut Builder, step: Value, layout: &StageLayout) -> [Option<Value>; 2] {
        if self.cols.is_multiple_of(STEP) {
            return [None; 2];
        }
        let RunColumns { first, distance } = layout.columns(k);
        let start = k.eval(step * STEP + first);
        [0, distance].map(|later| Some(k.lt_u(start + later, self.cols)))
    }

    fn floats(&self, k: &mut Builder, loaded: &[Value]) -> [Vec<Value>; 2] {
        let mut pairs = Vec::new();
        for quad in loaded {
            let dwords = k.elements(*quad, 4);
            match self.ty {
                Type::F16 => pairs.extend(dwords),
                Type::F32 => pairs.extend(dwords.chunks(2).map(|pair| k.half_bits(pair[0], pair[1]))),
                _ => pairs.extend(dwords.into_iter().map(|dword| {
                    let (low, high) = (k.bf16_low(dword), k.bf16_high(dword));
                    k.half_bits(low, high)
                })),
            }
        }
        let second = pairs.split_off(8);
        [pairs, second]
    }
}

/// A run's sixteen weights in pairs.
fn scaled(k: &mut Builder, spec: &FormatSpec, run: &Run) -> Vec<Value> {
    let twice = |k: &mut Builder, value: Value| {
        let half = k.cvt_h_f(value);
        k.pack_h(half, half)
    };
    let scale = twice(k, run.scale);
    let middle = if spec.is_signed() { 128 } else { spec.center() };
    // Around the middle of their codes weights are near zero, where f16 is fine.
    let minimum = run.minimum.filter(|_| spec.has_minimum).map(|minimum| {
        let centered = k.fma(run.scale, middle as f32, minimum);
        twice(k, centered)
    });
    // -1024 - middle
    let bias_bits = k.int(0xe400_e400 + middle * 0x0001_0001);
    let bias = k.bits(bias_bits, Elem::HalfPair);
    let above = k.int(0x6464_6464);
    let mut pairs = Vec::new();
    for code in run.codes {
        let code = if spec.is_signed() { k.xor(code, 0x8080_8080) } else { code };
        for order in [0x0401_0400, 0x0403_0402] {
            let order = k.int(order);
            let bytes = k.alu(Alu::perm, &[above, code, order]);
            let number = k.eval(bytes.as_halves() + bias);
            let pair = match minimum {
                Some(minimum) => k.alu(Alu::pk_fma, &[number, scale, minimum]),
                None => k.pk_mul(number, scale),
            };
            pairs.push(k.bits(pair, Elem::Int));
        }
    }
    pairs
}
