//! The KV cache: pools of pages, and the layout of a page that [`crate::attention`] reads.
//!
//! Of a page, each layer and head has its own part: keys turned, `[key_dim][32 positions]`, so that a vector holds one
//! element of neighboring positions; then values, `[32 positions][value_stride]`. Blocks are taken apart: the codes
//! lie as other numbers do, and behind those of the keys, and those of the values, are the scales,
//! `[blocks][32 positions]` in half precision.

use crate::activations::codes32;
use crate::features::Isa;
use crate::lines::Zeroed;
use crate::simd::{Kernel, Simd};
use core::ops::Range;
use doorbell_core::backend::KvType;
use doorbell_core::heap::{Heap, OutOfMemory};
use doorbell_core::model::KvGroup;
use doorbell_core::plan::{KvSlot, PAGE_TOKENS, PageId};

/// Elements under one scale.
pub const BLOCK: usize = 32;

/// The layout of one head's part of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageShape {
    /// The type of a number.
    pub kv: KvType,
    /// Elements of a key.
    pub key_dim: usize,
    /// Elements of a value.
    pub value_dim: usize,
    /// Elements from one value to the next: two vectors of the widest form fit evenly.
    pub value_stride: usize,
    /// Bytes before the values.
    pub values: usize,
    /// Bytes of the part.
    pub head_bytes: usize,
}

impl PageShape {
    /// The layout for these dimensions; `None` if they are not whole blocks, or the size overflows.
    #[must_use]
    pub fn new(kv: KvType, key_dim: usize, value_dim: usize) -> Option<Self> {
        let value_stride = value_dim.checked_next_multiple_of(32)?;
        kv.row_bytes(value_dim)?;
        let bytes = |dim: usize| kv.row_bytes(dim)?.checked_mul(PAGE_TOKENS);
        let values = bytes(key_dim)?;
        let head_bytes = values.checked_add(bytes(value_stride)?)?;
        Some(Self { kv, key_dim, value_dim, value_stride, values, head_bytes })
    }

    /// Writes a key at position `column` of a page, of which `keys` is the part before the values.
    ///
    /// # Panics
    /// When the key or the part has a wrong length.
    pub fn write_key(&self, isa: Isa, keys: &mut [u8], column: usize, key: &[f32]) {
        assert!(key.len() == self.key_dim && column < PAGE_TOKENS, "key length");
        match self.kv {
            KvType::F32 => {
                for (row, x) in keys.as_chunks_mut::<{ 4 * PAGE_TOKENS }>().0.iter_mut().zip(key) {
                    row.as_chunks_mut::<4>().0[column] = x.to_ne_bytes();
                }
            }
            KvType::F16 => {
                let mut halves = [0u8; 128];
                let rows = keys.as_chunks_mut::<{ 2 * PAGE_TOKENS }>().0;
                for (rows, key) in rows.chunks_mut(64).zip(key.chunks(64)) {
                    isa.run(ToHalf { from: key, to: &mut halves });
                    for (row, half) in rows.iter_mut().zip(halves.as_chunks::<2>().0) {
                        row.as_chunks_mut::<2>().0[column] = *half;
                    }
                }
            }
            KvType::Q8_0 => {
                let (codes, scales) = keys.split_at_mut(self.key_dim * PAGE_TOKENS);
                let rows = codes.as_chunks_mut::<PAGE_TOKENS>().0.chunks_exact_mut(BLOCK);
                let scales = scales.as_chunks_mut::<{ 2 * PAGE_TOKENS }>().0;
                for ((key, rows), scales) in key.as_chunks().0.iter().zip(rows).zip(scales) {
                    let mut block = [0; BLOCK];
                    let scale = isa.run(ToBlock { from: key, to: &mut block });
                    for (row, code) in rows.iter_mut().zip(block) {
                        row[column] = code;
                    }
                    scales.as_chunks_mut::<2>().0[column] = scale;
                }
            }
        }
    }

    /// Writes a value at position `column` of a page, of which `values` is the part from the values on.
    ///
    /// # Panics
    /// When the value or the part has a wrong length.
    pub fn write_value(&self, isa: Isa, values: &mut [u8], column: usize, value: &[f32]) {
        assert!(value.len() == self.value_dim && column < PAGE_TOKENS, "value length");
        let stride = self.value_stride;
        match self.kv {
            KvType::F32 => {
                let row = &mut values[4 * column * stride..][..4 * stride];
                for (to, x) in row.as_chunks_mut::<4>().0.iter_mut().zip(value) {
                    *to = x.to_ne_bytes();
                }
            }
            KvType::F16 => {
                let to = &mut values[2 * column * stride..][..2 * value.len()];
                isa.run(ToHalf { from: value, to });
            }
            KvType::Q8_0 => {
                let (codes, scales) = values.split_at_mut(stride * PAGE_TOKENS);
                let row = &mut codes[column * stride..][..stride];
                let scales = scales.as_chunks_mut::<{ 2 * PAGE_TOKENS }>().0;
                let blocks = value.as_chunks().0.iter().zip(row.as_chunks_mut().0);
                for ((from, to), scales) in blocks.zip(scales) {
                    scales.as_chunks_mut::<2>().0[column] = isa.run(ToBlock { from, to });
                }
            }
        }
    }
}

/// The arrangement of a group's pages in the bytes of their pool: `[pages][layers][heads]` parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KvLayout {
    shape: PageShape,
    layers: u16,
    heads: usize,
    pages: u32,
}

impl KvLayout {
    /// The layout of a page's parts.
    #[must_use]
    pub const fn shape(&self) -> &PageShape {
        &self.shape
    }

    /// KV heads.
    #[must_use]
    pub const fn heads(&self) -> usize {
        self.heads
    }

    /// Pages.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// Bytes of a page, all layers and heads together.
    #[must_use]
    pub const fn page_bytes(&self) -> usize {
        self.layers as usize * self.heads * self.shape.head_bytes
    }

    /// Byte of a page where a layer's part begins.
    #[must_use]
    pub const fn layer_start(&self, layer: u16) -> usize {
        layer as usize * self.heads * self.shape.head_bytes
    }

    /// The bytes of one head's part of a page.
    ///
    /// # Panics
    /// When page, layer or head are not in the pool.
    #[must_use]
    pub fn part(&self, page: PageId, slot: KvSlot, head: usize) -> Range<usize> {
        assert!(page.0 < self.pages && slot.layer < self.layers && head < self.heads, "part of the KV cache");
        let page = page.0 as usize * self.page_bytes();
        let start = page + self.layer_start(slot.layer) + head * self.shape.head_bytes;
        start..start + self.shape.head_bytes
    }
}

/// The pages of one group.
#[derive(Debug)]
pub struct KvPool<'h> {
    layout: KvLayout,
    bytes: Zeroed<'h>,
}

impl<'h> KvPool<'h> {
    /// `pages` pages of zeros, which the system hands out when they are first touched.
    ///
    /// # Errors
    /// When the heap refuses.
    pub fn new(group: KvGroup, pages: u32, kv: KvType, heap: Heap<'h>) -> Result<Self, OutOfMemory> {
        let too_large = OutOfMemory { bytes: usize::MAX };
        let shape = PageShape::new(kv, group.key_dim as usize, group.value_dim as usize).ok_or(too_large)?;
        let parts = usize::from(group.layers).checked_mul(group.heads as usize);
        let bytes = parts.and_then(|parts| parts.checked_mul(pages as usize)?.checked_mul(shape.head_bytes));
        let layout = KvLayout { shape, layers: group.layers, heads: group.heads as usize, pages };
        Ok(Self { layout, bytes: Zeroed::new(bytes.ok_or(too_large)?, heap)? })
    }

    /// The arrangement of the pages.
    #[must_use]
    pub fn layout(&self) -> &KvLayout {
        &self.layout
    }

    /// The bytes of all pages.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.bytes_mut()
    }

    /// The bytes of a page; `None` if it is not in the pool.
    #[must_use]
    pub fn page(&mut self, page: PageId) -> Option<&mut [u8]> {
        let bytes = self.layout.page_bytes();
        let start = (page.0 as usize).checked_mul(bytes)?;
        self.bytes.bytes_mut().get_mut(start..start.checked_add(bytes)?)
    }
}

/// Rounds floats to half precision, two bytes each.
struct ToHalf<'a> {
    from: &'a [f32],
    to: &'a mut [u8],
}

impl Kernel for ToHalf<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let mut from = self.from.chunks_exact(S::LANES);
        let whole = from.len() * S::LANES;
        for (from, to) in (&mut from).zip(self.to.chunks_exact_mut(2 * S::LANES)) {
            simd.write_half(to, simd.read_f(from));
        }
        let rest = from.remainder();
        let (mut floats, mut halves) = ([0.0; 16], [0; 32]);
        floats[..rest.len()].copy_from_slice(rest);
        simd.write_half(&mut halves, simd.read_f(&floats));
        self.to[2 * whole..][..2 * rest.len()].copy_from_slice(&halves[..2 * rest.len()]);
    }
}

/// Quantizes a block as core does; returns its scale in half precision.
struct ToBlock<'a> {
    from: &'a [f32; BLOCK],
    to: &'a mut [u8; BLOCK],
}

impl Kernel for ToBlock<'_> {
    type Output = [u8; 2];

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) -> [u8; 2] {
        let scale = codes32(simd, self.from, self.to);
        let mut halves = [0; 32];
        simd.write_half(&mut halves, simd.splat_f(scale));
        [halves[0], halves[1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::{Attention, CHUNK, State, Weight};
    use alloc::vec;
    use alloc::vec::Vec;
    use doorbell_core::heap::Global;
    use doorbell_core::plan::{Attend, GroupId, TensorId};
    use doorbell_core::quant::{self, Activation, Half, Type};
    use doorbell_core::reference::{self, AttendBuffers, Cache, Cached, Heads};

    fn random(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * 2.0
            })
            .collect()
    }

    struct Case {
        key_dim: usize,
        value_dim: usize,
        positions: usize,
        kv: KvType,
        /// As written, and as they can be read.
        keys: [Vec<f32>; 2],
        values: [Vec<f32>; 2],
    }

    impl Cache for Case {
        fn read(&self, which: Cached, position: u32, _head: usize, to: &mut [f32]) {
            let from = if which == Cached::Key { &self.keys[1] } else { &self.values[1] };
            to.copy_from_slice(&from[position as usize * to.len()..][..to.len()]);
        }
    }

    const SLOT: KvSlot = KvSlot { group: GroupId(0), layer: 1 };

    impl Case {
        fn new(key_dim: usize, value_dim: usize, positions: usize, kv: KvType) -> Self {
            let rounded = |x: Vec<f32>| match kv {
                KvType::F16 => [x.clone(), x.into_iter().map(|x| Half::new(x).get()).collect()],
                KvType::F32 => [x.clone(), x],
                KvType::Q8_0 => {
                    let mut blocks = vec![0; kv.row_bytes(x.len()).unwrap()];
                    Activation::Q8_0.quantize(&x, &mut blocks).unwrap();
                    let mut read = vec![0.0; x.len()];
                    quant::dequantize(Type::Q8_0, &blocks, &mut read).unwrap();
                    [x, read]
                }
            };
            let keys = rounded(random(positions * key_dim, 5));
            let values = rounded(random(positions * value_dim, 9));
            Self { key_dim, value_dim, positions, kv, keys, values }
        }

        /// A pool with the case's keys and values in head 1, pages in descending order.
        fn pool(&self, isa: Isa) -> (KvPool<'static>, Vec<PageId>) {
            let (key_dim, value_dim) = (self.key_dim as u32, self.value_dim as u32);
            let group = KvGroup { layers: 2, heads: 2, key_dim, value_dim, window: None };
            let count = self.positions.div_ceil(PAGE_TOKENS) as u32;
            let mut pool = KvPool::new(group, count, self.kv, &Global).unwrap();
            let layout = *pool.layout();
            let shape = layout.shape();
            let pages: Vec<PageId> = (0..count).rev().map(PageId).collect();
            for position in 0..self.positions {
                let key = &self.keys[0][position * self.key_dim..(position + 1) * self.key_dim];
                let value = &self.values[0][position * self.value_dim..(position + 1) * self.value_dim];
                let part = layout.part(pages[position / PAGE_TOKENS], SLOT, 1);
                let (keys, values) = pool.bytes_mut()[part].split_at_mut(shape.values);
                shape.write_key(isa, keys, position % PAGE_TOKENS, key);
                shape.write_value(isa, values, position % PAGE_TOKENS, value);
            }
            (pool, pages)
        }

        /// `T` queries at these positions, chunk by chunk.
        fn attend<const T: usize>(
            &self,
            isa: Isa,
            op: &Attend,
            queries: [&[f32]; T],
            at: [u32; T],
            sink: Option<f32>,
        ) -> Vec<f32> {
            let (pool, pages) = self.pool(isa);
            let layout = pool.layout();
            let stride = layout.shape().value_stride;
            let mut weights = [Weight { max: 0.0, sum: 0.0 }; T];
            let (mut sums, mut scores, mut values) =
                (vec![0.0; T * stride], vec![0.0; T * CHUNK], vec![0.0; T * stride]);
            for (weight, values) in weights.iter_mut().zip(sums.chunks_exact_mut(stride)) {
                State { weight, values }.start(sink);
            }
            for first in (0..self.positions).step_by(CHUNK) {
                let last = self.positions.min(first + CHUNK);
                let parts: Vec<&[u8]> = pages[first / PAGE_TOKENS..last.div_ceil(PAGE_TOKENS)]
                    .iter()
                    .map(|&page| &pool.bytes.bytes()[layout.part(page, SLOT, 1)])
                    .collect();
                let visible =
                    at.map(|at| op.window.map_or(0, |window| (at + 1).saturating_sub(window))..at + 1);
                let chunk = Attention {
                    shape: layout.shape(),
                    queries,
                    visible,
                    first: first as u32,
                    pages: &parts,
                    scale: op.scale,
                    soft_cap: op.soft_cap,
                    scores: &mut scores,
                    values: &mut values,
                };
                let found = isa.run(chunk);
                for t in 0..T {
                    let row = t * stride..(t + 1) * stride;
                    State { weight: &mut weights[t], values: &mut sums[row.clone()] }
                        .merge(found[t], &values[row]);
                }
            }
            let mut out = vec![0.0; T * self.value_dim];
            for ((weight, values), out) in weights
                .iter_mut()
                .zip(sums.chunks_exact_mut(stride))
                .zip(out.chunks_exact_mut(self.value_dim))
            {
                State { weight, values }.finish(out);
            }
            out
        }

        fn expected(&self, op: &Attend, query: &[f32], at: u32, sink: Option<f32>) -> Vec<f32> {
            let heads = Heads { query: 1, kv: 1, key_dim: self.key_dim, value_dim: self.value_dim };
            let mut scores = vec![0.0; self.positions];
            let mut vector = vec![0.0; self.key_dim.max(self.value_dim)];
            let mut out = vec![0.0; self.value_dim];
            let sinks = sink.map(|sink| [sink]);
            let buffers = AttendBuffers { scores: &mut scores, vector: &mut vector, out: &mut out };
            reference::attend_row(op, heads, at, query, self, sinks.as_ref().map(|s| &s[..]), buffers);
            out
        }
    }

    fn op(window: Option<u32>, soft_cap: Option<f32>, scale: f32) -> Attend {
        Attend {
            gate: None,
            query: TensorId(0),
            kv: SLOT,
            heads: 1,
            scale,
            window,
            soft_cap,
            sinks: None,
            out: TensorId(0),
        }
    }

    fn nmse(found: &[f32], expected: &[f32]) -> f64 {
        let pairs = || found.iter().zip(expected).map(|(&a, &b)| (f64::from(a), f64::from(b)));
        pairs().map(|(a, b)| (a - b).powi(2)).sum::<f64>() / pairs().map(|(_, b)| b * b).sum::<f64>()
    }

    #[test]
    fn attention_equals_the_reference() {
        let shapes = [(64, 64, 700), (128, 128, 100), (20, 12, 33), (256, 256, 513), (96, 32, 300)];
        for (key_dim, value_dim, positions) in shapes {
            let kept = |kv: &KvType| kv.row_bytes(key_dim).and(kv.row_bytes(value_dim)).is_some();
            for kv in KvType::ALL.into_iter().filter(kept) {
                let case = Case::new(key_dim, value_dim, positions, kv);
                let last = positions as u32 - 1;
                let scale = 1.0 / (key_dim as f32).sqrt();
                let variants = [
                    (op(None, None, scale), None),
                    (op(Some(70), None, scale), Some(0.3)),
                    (op(None, Some(5.0), 2.0 * scale), Some(-1.0)),
                ];
                for (op, sink) in variants {
                    let queries: Vec<Vec<f32>> = (0..3).map(|i| random(key_dim, 100 + i)).collect();
                    let at = [last, last - 1, last / 2];
                    for isa in Isa::available() {
                        let found = case.attend(isa, &op, [&queries[0], &queries[1], &queries[2]], at, sink);
                        for t in 0..3 {
                            let expected = case.expected(&op, &queries[t], at[t], sink);
                            let row = &found[t * value_dim..(t + 1) * value_dim];
                            let error = nmse(row, &expected);
                            assert!(
                                error < 1e-11,
                                "{key_dim} {positions} {kv:?} {op:?} {t} {}: {error:e}",
                                isa.name()
                            );
                            // By itself, a query gets the same bits.
                            assert_eq!(row, case.attend(isa, &op, [&queries[t]], [at[t]], sink));
                        }
                    }
                }
            }
        }
    }
}
