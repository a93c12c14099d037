//! A head's address in the KV cache, and its blocks of Q8_0.

use super::lane_elements::LaneElement;
use super::spec::{BatchArguments, CacheSpec, HeadArguments, HeadPart};
use crate::builder_ext::BuilderExt;
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width, global, lds};
use doorbell_core::plan::PAGE_TOKENS;
use doorbell_core::quant::Type;

/// The destination of a head.
pub(crate) struct CacheTarget {
    pub(crate) base: Value,
    pub(crate) start: Value,
    pub(crate) ty: Type,
}

/// A head of a row.
#[derive(Clone, Copy)]
pub(crate) struct HeadRow {
    /// Row of the batch.
    pub(crate) row: Value,
    /// Number of the head in its part.
    pub(crate) head: Value,
    /// Position of the row in its sequence.
    pub(crate) position: Value,
}

impl HeadPart {
    /// The place of a head's elements in the cache.
    pub(crate) fn target(
        self,
        k: &mut Builder,
        arguments: &HeadArguments,
        batch: BatchArguments,
        HeadRow { row, head, position }: HeadRow,
    ) -> Option<CacheTarget> {
        let (CacheSpec { ty, page_bytes }, cache) = self.cache.zip(arguments.cache)?;
        let bytes = ty.row_bytes(self.dim as usize).unwrap_or(0) as u32;
        let page = page_of(k, batch, row, position);
        let size = k.int(u32::try_from(page_bytes).unwrap_or(u32::MAX));
        let offset = k.wide_mul(page, size);
        let base = k.wide_add(cache, offset);
        let page_tokens = PAGE_TOKENS as u32;
        let start = k.eval(head * (page_tokens * bytes) + (position & (page_tokens - 1)) * bytes);
        Some(CacheTarget { base, start, ty })
    }

    /// Writes a head as blocks of Q8_0, as core quantizes activations. The wave's elements change places in LDS, so
    /// that its lanes have a block.
    pub(crate) fn quantize(
        self,
        k: &mut Builder,
        elements: &[LaneElement],
        values: &[Value],
        target: &CacheTarget,
        staged: u32,
    ) {
        let wave = k.wave();
        let row = k.eval(wave * (4 * self.dim));
        for (value, element) in values.iter().zip(elements) {
            element.when_inside(k, |k| {
                k.store(lds((element.element << 2) + row).plus(staged), Width::Dwords(1), *value);
            });
        }
        let lane = k.lane();
        let own = k.eval((lane << 2) + row);
        let first = k.eq(lane, 0);
        for block in 0..self.dim / 32 {
            let value = k.load(lds(own).plus(staged + 128 * block), Width::Dwords(1), Elem::Float);
            let magnitude = k.fabs(value);
            // As integers, magnitudes have the same order, and NaN is the largest.
            let bits = k.bits(magnitude, Elem::Int);
            let largest_bits = k.reduce_wave(bits, Alu::max_u);
            let largest = k.bits(largest_bits, Elem::Float);
            let (most, share) = (k.float(127.0), k.float(1.0 / 127.0));
            let scale = quotient(k, largest, most, share);
            let rough_inverse = k.rcp(largest);
            let inverse = quotient(k, most, largest, rough_inverse);
            let scaled = k.fmul(value, inverse);
            let none = k.float(0.0);
            let code = k.round_to_int(largest.eq(none).select(none, scaled));
            let byte = global(target.base, target.start + lane).plus(34 * block + 2);
            k.store(byte, Width::U8, code);
            k.when(first, |k| {
                let half = k.cvt_h_f(scale);
                k.store(global(target.base, target.start).plus(34 * block), Width::U16, half);
            });
        }
    }
}

/// `a / b` from a rough `1 / b`, rounded to nearest but for rare cases.
fn quotient(k: &mut Builder, a: Value, b: Value, inverse: Value) -> Value {
    let rough = k.fmul(a, inverse);
    let rest = k.fma(-rough, b, a);
    k.fma(rest, inverse, rough)
}

/// The page of a row's position, uniform.
fn page_of(k: &mut Builder, batch: BatchArguments, row: Value, position: Value) -> Value {
    let table = k.read_uniform(batch.tables, row << 2);
    let number = k.eval(position >> PAGE_TOKENS.trailing_zeros());
    k.read_uniform(batch.pages, (table + number) << 2)
}
