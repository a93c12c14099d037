//! Weights as codes of eight bits in LDS, and beside them a table of factors: `[8][rows]` f32, for a tile's 128 columns.
//!
//! Types with a factor for every 32 columns have four factors and four minima in the table, Q6_K eight factors.

use super::stage::{RunColumns, StageLayout, WeightStage};
use crate::formats::lane_format::LaneFormat;
use doorbell_compiler::ir::{Builder, Value, Width, lds};

impl WeightStage {
    /// Puts loaded weights into LDS. Weights beyond the last column are multiplied with activations of zero.
    pub(crate) fn keep_i8(&self, k: &mut Builder, layout: &StageLayout, loaded: &[Value]) {
        let Some(format) = &layout.format else { return };
        let spec = self.spec();
        let RunColumns { distance, .. } = layout.columns(k);
        // Within the tile: the second half of the columns has the same addresses as the first.
        let first = StageLayout::new(k, self.ty, 0).columns(k).first;
        let line = k.eval((first >> spec.scale_group.trailing_zeros()) * self.line);
        let table = k.add(self.factors, line);
        for (index, run) in (0u32..).zip(format.runs(k, loaded)) {
            let codes = run.codes.map(|codes| centered(k, format, codes));
            let packed = k.pack(&codes);
            k.store(lds(self.target).plus(distance * index), Width::Dwords(4), packed);
            let later = distance * index / spec.scale_group;
            if index > 0 && later == 0 {
                continue;
            }
            k.store(lds(table).plus(later * self.line), Width::Dwords(1), run.scale);
            if let (true, Some(minimum)) = (spec.has_minimum, run.minimum) {
                k.store(lds(table).plus((4 + later) * self.line), Width::Dwords(1), minimum);
            }
        }
    }
}

/// Codes as signed bytes around their middle.
fn centered(k: &mut Builder, format: &LaneFormat, codes: Value) -> Value {
    let spec = format.spec;
    if spec.is_signed() || spec.has_minimum {
        return codes;
    }
    // Above the middle of bytes nothing is borrowed from the next byte.
    let raised = (0x80 - spec.center()) * 0x0101_0101;
    k.eval((codes + raised) ^ 0x8080_8080)
}
