//! Weights as f16 in LDS: codes become f16 by their bits and are scaled in pairs.
//!
//! 0x6400 + n is the f16 1024 + n, so a byte with 0x64 above it is a number; subtracting the bias is exact, and scaling
//! rounds once. MatrixSpec and what is added are rounded to f16 before.

use crate::builder_ext::{BuilderExt, at};
use crate::formats::lane_format::{Run, center};
use crate::gemm::stage::{STEP, StageLayout, WeightStage};
use crate::gemm::weights_i8::has_minimum;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width};
use doorbell_core::quant::Type;

impl WeightStage {
    /// Puts loaded weights into LDS; what is beyond the last column becomes zero.
    pub(crate) fn keep_halves(&self, k: &mut Builder, step: Value, layout: &StageLayout, loaded: &[Value]) {
        let runs = match &layout.format {
            Some(format) => format.runs(k, loaded).map(|run| scaled(k, self.ty, &run, format.signed)),
            None => self.floats(k, loaded),
        };
        let inside = self.inside(k, step, layout);
        let (_, distance) = layout.first(k);
        for ((number, pairs), inside) in (0u32..).zip(runs).zip(inside) {
            let zero = k.int(0);
            let pairs: Vec<Value> = pairs
                .into_iter()
                .map(|pair| inside.map_or(pair, |inside| k.select(inside, pair, zero)))
                .collect();
            for (quarter, pairs) in (0u32..).zip(pairs.chunks(4)) {
                let pairs = k.pack(pairs);
                let address = at(k.lds(self.place), 2 * distance * number + 16 * quarter);
                k.store(address, Width::Dwords(4), pairs);
            }
        }
    }

    /// Whether the runs of a half lie within the row; `None` where all do.
    fn inside(&self, k: &mut Builder, step: Value, layout: &StageLayout) -> [Option<Value>; 2] {
        if self.cols.is_multiple_of(STEP) {
            return [None; 2];
        }
        let (first, distance) = layout.first(k);
        let start = k.left(step, STEP.trailing_zeros());
        let start = k.add(start, first);
        [0, distance].map(|later| {
            let start = k.plus(start, later);
            let cols = k.int(self.cols);
            Some(k.lt_u(start, cols))
        })
    }

    fn floats(&self, k: &mut Builder, loaded: &[Value]) -> [Vec<Value>; 2] {
        let mut pairs = Vec::new();
        for quad in loaded {
            let dwords = k.elements(*quad, 4);
            match self.ty {
                Type::F16 => pairs.extend(dwords),
                Type::F32 => pairs.extend(dwords.chunks(2).map(|pair| rounded(k, [pair[0], pair[1]]))),
                _ => pairs.extend(dwords.into_iter().map(|dword| {
                    let pair = [k.bf16_low(dword), k.bf16_high(dword)];
                    rounded(k, pair)
                })),
            }
        }
        let second = pairs.split_off(8);
        [pairs, second]
    }
}

/// A run's sixteen weights in pairs.
fn scaled(k: &mut Builder, ty: Type, run: &Run, signed: bool) -> Vec<Value> {
    let twice = |k: &mut Builder, value: Value| {
        let half = k.cvt_h_f(value);
        k.pack_h(half, half)
    };
    let scale = twice(k, run.scale);
    let middle = if signed { 128 } else { center(ty) };
    // Around the middle of their codes weights are near zero, where f16 is fine.
    let minimum = run.minimum.filter(|_| has_minimum(ty)).map(|minimum| {
        let middle = k.float(middle as f32);
        let minimum = k.fma(run.scale, middle, minimum);
        twice(k, minimum)
    });
    // -1024 - middle
    let bias = k.int(0xe400_e400 + middle * 0x0001_0001);
    let bias = k.bits(bias, Elem::HalfPair);
    let above = k.int(0x6464_6464);
    let mut pairs = Vec::new();
    for code in run.codes {
        let code = if signed {
            let flip = k.int(0x8080_8080);
            k.xor(code, flip)
        } else {
            code
        };
        for places in [0x0401_0400, 0x0403_0402] {
            let places = k.int(places);
            let number = k.alu(Alu::perm, &[above, code, places]);
            let number = k.bits(number, Elem::HalfPair);
            let number = k.pk_add(number, bias);
            let pair = match minimum {
                Some(minimum) => k.alu(Alu::pk_fma, &[number, scale, minimum]),
                None => k.pk_mul(number, scale),
            };
            pairs.push(k.bits(pair, Elem::Int));
        }
    }
    pairs
}

fn rounded(k: &mut Builder, [low, high]: [Value; 2]) -> Value {
    let pair = k.half_pair(low, high);
    k.bits(pair, Elem::Int)
}
