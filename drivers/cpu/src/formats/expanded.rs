//! What core's [`Expanded`] blocks are to the kernels: a superblock that lies in memory of the driver's own.
#![expect(unsafe_code, reason = "reads blocks through row pointers that the caller vouches for")]

use super::{Offset16, Superblock, Visitor};
use crate::simd::{Rows, Simd};
use doorbell_core::quant::Expanded;

impl Superblock for Expanded {
    const BYTES: usize = size_of::<Self>();
    type Class = Offset16;
    const OFFSET: u32 = Self::BIAS.ilog2();

    #[inline(always)]
    unsafe fn visit<S: Simd, V: Visitor<S>>(simd: S, rows: Rows, visitor: &mut V) {
        // SAFETY: 16 bytes at offset 256, four at offset 272.
        let (scales, low, high) = unsafe {
            (simd.transpose(rows.at(256)), simd.gather_u16(rows.at(272)), simd.gather_u16(rows.at(274)))
        };
        let factor = simd.as_f(simd.or(low, simd.shl(high, 16)));
        visitor.scales(simd, factor, factor);
        for sub in 0..16 {
            // SAFETY: 16 bytes at offsets 0 to 240.
            let codes = unsafe { simd.transpose(rows.at(16 * sub)) };
            let scale = simd.sar(simd.shl(scales[sub / 4], 24 - 8 * (sub as u32 % 4)), 24);
            visitor.sub16(simd, sub, codes, scale);
        }
    }
}
