//! Core's [`Expanded`] blocks as the kernels read them: a superblock in memory of the driver's own.

use super::class::Offset16;
use super::{Superblock, Visitor};
use crate::product::view::PieceRows;
use crate::simd::Simd;
use doorbell_core::quant::Expanded;

/// Calls a block of code for each value of a constant.
macro_rules! each_sub {
    ($name:ident in [$($value:literal)*] $body:block) => {$({
        const $name: usize = $value;
        $body
    })*};
}

impl Superblock for Expanded {
    type Class = Offset16;
    const OFFSET: u32 = Self::BIAS.ilog2();

    #[inline(always)]
    fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: PieceRows<'_, S, Self>, visitor: &mut V) {
        let scales = rows.transpose::<256>(simd);
        let (low, high) = (rows.gather_u16::<272>(simd), rows.gather_u16::<274>(simd));
        let factor = simd.as_f(simd.or(low, simd.shl(high, 16)));
        visitor.scales(simd, factor, factor);
        each_sub!(SUB in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15] {
            let codes = rows.transpose::<{ 16 * SUB }>(simd);
            let scale = simd.sar(simd.shl(scales[SUB / 4], 24 - 8 * (SUB as u32 % 4)), 24);
            visitor.sub16(simd, SUB, codes, scale);
        });
    }
}
