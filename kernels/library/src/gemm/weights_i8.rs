//! Weights as codes of eight bits in LDS, and beside them a table of factors: `[8][rows]` f32, for a tile's 128 columns.
//!
//! Types with a factor for every 32 columns have four factors and four minima in the table, Q6_K eight factors.

use crate::builder_ext::{BuilderExt, at};
use crate::formats::lane_format::{LaneFormat, center};
use crate::gemm::stage::{StageLayout, WeightStage};
use doorbell_compiler::ir::{Builder, Value, Width};
use doorbell_core::quant::Type;

/// Columns that share a factor.
pub(crate) fn grain(ty: Type) -> u32 {
    if ty == Type::Q6_K { 16 } else { 32 }
}

/// Whether codes have a minimum of their own; other unsigned ones stand for numbers around zero.
pub(crate) fn has_minimum(ty: Type) -> bool {
    matches!(ty, Type::Q4_1 | Type::Q5_1 | Type::Q4_K | Type::Q5_K)
}

impl WeightStage {
    /// Puts loaded weights into LDS. What is beyond the last column meets activations of zero.
    pub(crate) fn keep_codes(&self, k: &mut Builder, layout: &StageLayout, loaded: &[Value]) {
        let Some(format) = &layout.format else { return };
        let (_, distance) = layout.first(k);
        // Within the tile: the second half of the columns takes the same places as the first.
        let first = StageLayout::new(k, self.ty, 0).first(k).0;
        let number = k.right(first, grain(self.ty).trailing_zeros());
        let line = k.times(number, self.line);
        let table = k.add(self.factors, line);
        for (index, run) in (0u32..).zip(format.runs(k, loaded)) {
            let codes = run.codes.map(|codes| self.centered(k, format, codes));
            let codes = k.pack(&codes);
            k.store(at(k.lds(self.place), distance * index), Width::Dwords(4), codes);
            let later = distance * index / grain(self.ty);
            if index > 0 && later == 0 {
                continue;
            }
            k.store(at(k.lds(table), later * self.line), Width::Dwords(1), run.scale);
            if let (true, Some(minimum)) = (has_minimum(self.ty), run.minimum) {
                k.store(at(k.lds(table), (4 + later) * self.line), Width::Dwords(1), minimum);
            }
        }
    }

    /// Codes as signed bytes around their middle.
    fn centered(&self, k: &mut Builder, format: &LaneFormat, codes: Value) -> Value {
        if format.signed || has_minimum(self.ty) {
            return codes;
        }
        let middle = center(self.ty);
        // Above the middle of bytes nothing is borrowed from the next byte.
        let raised = k.plus(codes, (0x80 - middle) * 0x0101_0101);
        let flip = k.int(0x8080_8080);
        k.xor(raised, flip)
    }
}
