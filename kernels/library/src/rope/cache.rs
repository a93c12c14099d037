//! Where a head goes in the KV cache, and its blocks of Q8_0.

use crate::builder_ext::{BuilderExt, at};
use crate::rope::lane_elements::LaneElement;
use crate::rope::spec::{HeadArguments, HeadPart};
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width};
use doorbell_core::plan::PAGE_TOKENS;
use doorbell_core::quant::Type;

/// Where a head goes.
pub(crate) struct CacheTarget {
    pub(crate) base: Value,
    pub(crate) start: Value,
    pub(crate) kv_type: Type,
}

impl HeadPart {
    /// Where a head's elements are cached.
    pub(crate) fn target(
        self,
        k: &mut Builder,
        arguments: &HeadArguments,
        [tables, pages]: [Value; 2],
        [row, head, position]: [Value; 3],
    ) -> Option<CacheTarget> {
        let ((kv_type, page_bytes), cache) = self.cache.zip(arguments.cache)?;
        let bytes = kv_type.row_bytes(self.dim as usize).unwrap_or(0) as u32;
        let page = page_of(k, [tables, pages], row, position);
        let size = k.int(u32::try_from(page_bytes).unwrap_or(u32::MAX));
        let offset = k.wide_mul(page, size);
        let base = k.wide_add(cache, offset);
        let head = k.times(head, PAGE_TOKENS as u32 * bytes);
        let slot = k.mask(position, PAGE_TOKENS as u32 - 1);
        let slot = k.times(slot, bytes);
        let start = k.add(head, slot);
        Some(CacheTarget { base, start, kv_type })
    }

    /// Writes a head as blocks of Q8_0, as core's activations are made. The wave's elements change places in LDS, so
    /// that its lanes have a block.
    pub(crate) fn quantize(
        self,
        k: &mut Builder,
        lane_elements: &[LaneElement],
        values: &[Value],
        target: &CacheTarget,
        staged: u32,
    ) {
        let wave = k.wave();
        let row = k.times(wave, 4 * self.dim);
        for (value, slot) in values.iter().zip(lane_elements) {
            let store = |k: &mut Builder| {
                let place = k.left(slot.element, 2);
                let place = k.add(place, row);
                k.store(at(k.lds(place), staged), Width::Dwords(1), *value);
            };
            match slot.inside {
                Some(inside) => k.when(inside, store),
                None => store(k),
            }
        }
        let lane = k.lane();
        let own = k.left(lane, 2);
        let own = k.add(own, row);
        let zero = k.int(0);
        let first = k.eq(lane, zero);
        for block in 0..self.dim / 32 {
            let value = k.load(at(k.lds(own), staged + 128 * block), Width::Dwords(1), Elem::Float);
            let size = k.fabs(value);
            let size = k.bits(size, Elem::Int);
            // As integers, magnitudes have the same order, and what is no number is the largest.
            let size = k.reduce_wave(size, Alu::max_u);
            let size = k.bits(size, Elem::Float);
            let (most, share) = (k.float(127.0), k.float(1.0 / 127.0));
            let scale = quotient(k, size, most, share);
            let inverse = k.rcp(size);
            let inverse = quotient(k, most, size, inverse);
            let code = k.fmul(value, inverse);
            let none = k.float(0.0);
            let empty = k.feq(size, none);
            let code = k.select(empty, none, code);
            let code = k.round_to_int(code);
            let place = k.add(target.start, lane);
            let place = at(k.global(target.base, place), 34 * block + 2);
            k.store(place, Width::U8, code);
            k.when(first, |k| {
                let scale = k.cvt_h_f(scale);
                let place = at(k.global(target.base, target.start), 34 * block);
                k.store(place, Width::U16, scale);
            });
        }
    }
}

/// `a / b` from a rough `1 / b`, rounded to nearest but for rare cases.
fn quotient(k: &mut Builder, a: Value, b: Value, inverse: Value) -> Value {
    let rough = k.fmul(a, inverse);
    let negative = k.fneg(rough);
    let rest = k.fma(negative, b, a);
    k.fma(rest, inverse, rough)
}

/// The page of a row's position, uniform.
fn page_of(k: &mut Builder, [tables, pages]: [Value; 2], row: Value, position: Value) -> Value {
    let place = k.left(row, 2);
    let table = k.load_uniform(k.global(tables, place), Width::Dwords(1), Elem::Int);
    let number = k.right(position, PAGE_TOKENS.trailing_zeros());
    let entry = k.add(table, number);
    let entry = k.left(entry, 2);
    k.load_uniform(at(k.global(pages, entry), 0), Width::Dwords(1), Elem::Int)
}
