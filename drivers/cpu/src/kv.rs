//! The KV cache: pools of pages, and the layout of a page that [`crate::attention`] reads.
//!
//! Of a page, each layer and head has its own part: keys turned, `[key_dim][32 positions]`, so that a vector holds one
//! element of neighboring positions; then values, `[32 positions][value_stride]`. Blocks are taken apart: the codes
//! lie as other numbers do, and behind those of the keys, and those of the values, are the scales,
//! `[blocks][32 positions]` in half precision.
#![expect(unsafe_code, reason = "threads write disjoint parts of one allocation")]

use crate::activations::codes32;
use crate::features::Isa;
use crate::simd::{Kernel, Simd};
use core::alloc::Layout;
use core::ptr::NonNull;
use doorbell_core::backend::KvType;
use doorbell_core::heap::{Heap, OutOfMemory};
use doorbell_core::model::KvGroup;
use doorbell_core::plan::{KvSlot, PAGE_TOKENS, PageId};

/// Elements under one scale.
pub const BLOCK: usize = 32;

/// The layout of one head's part of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageShape {
    /// What a number is.
    pub kind: KvType,
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
    /// The layout for these dimensions; `None` when they are no whole blocks, or the size overflows.
    #[must_use]
    pub fn new(kind: KvType, key_dim: usize, value_dim: usize) -> Option<Self> {
        let value_stride = value_dim.checked_next_multiple_of(32)?;
        kind.row_bytes(value_dim)?;
        let bytes = |dim: usize| kind.row_bytes(dim)?.checked_mul(PAGE_TOKENS);
        let values = bytes(key_dim)?;
        let head_bytes = values.checked_add(bytes(value_stride)?)?;
        Some(Self { kind, key_dim, value_dim, value_stride, values, head_bytes })
    }

    /// Byte of the scale of a key's block.
    pub(crate) const fn key_scale(&self, block: usize, position: usize) -> usize {
        self.key_dim * PAGE_TOKENS + 2 * (block * PAGE_TOKENS + position)
    }

    /// Byte of the scale of a value's block.
    pub(crate) const fn value_scale(&self, block: usize, position: usize) -> usize {
        self.values + self.value_stride * PAGE_TOKENS + 2 * (block * PAGE_TOKENS + position)
    }
}

/// The pages of one group.
pub struct KvPool<'h> {
    shape: PageShape,
    group: KvGroup,
    pages: u32,
    base: NonNull<u8>,
    layout: Layout,
    heap: Heap<'h>,
}

impl core::fmt::Debug for KvPool<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KvPool")
            .field("shape", &self.shape)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}

// SAFETY: the pool owns its allocation; the heap is shared by reference to a `Sync` allocator.
unsafe impl Send for KvPool<'_> {}
// SAFETY: through a shared reference cells are only reached by `unsafe` calls whose callers keep writers apart.
unsafe impl Sync for KvPool<'_> {}

impl<'h> KvPool<'h> {
    /// `pages` pages of zeros, which the system hands out when they are first touched.
    ///
    /// # Errors
    /// When the heap refuses.
    pub fn new(group: KvGroup, pages: u32, kind: KvType, heap: Heap<'h>) -> Result<Self, OutOfMemory> {
        let too_large = OutOfMemory { bytes: usize::MAX };
        let shape =
            PageShape::new(kind, group.key_dim as usize, group.value_dim as usize).ok_or(too_large)?;
        let heads = usize::from(group.layers).checked_mul(group.heads as usize);
        let bytes = heads.and_then(|heads| heads.checked_mul(pages as usize)?.checked_mul(shape.head_bytes));
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, 64).ok()).ok_or(too_large)?;
        let base = heap.allocate_zeroed(layout).map_err(|_| OutOfMemory { bytes: layout.size() })?;
        Ok(Self { shape, group, pages, base: base.cast(), layout, heap })
    }

    /// The layout of a page's parts.
    #[must_use]
    pub fn shape(&self) -> &PageShape {
        &self.shape
    }

    /// KV heads.
    #[must_use]
    pub fn heads(&self) -> usize {
        self.group.heads as usize
    }

    /// Bytes of a page, all layers and heads together.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        usize::from(self.group.layers) * self.heads() * self.shape.head_bytes
    }

    /// The bytes of a page; `None` when it is not in the pool.
    #[must_use]
    pub fn page(&mut self, page: PageId) -> Option<&mut [u8]> {
        let bytes = self.page_bytes();
        // SAFETY: the whole allocation, which was zeroed, is this pool's, and the pool is borrowed for as long.
        let all = unsafe { core::slice::from_raw_parts_mut(self.base.as_ptr(), self.layout.size()) };
        let start = (page.0 as usize).checked_mul(bytes)?;
        all.get_mut(start..start.checked_add(bytes)?)
    }

    /// One head's part of a page.
    ///
    /// # Panics
    /// When page, layer or head are not in the pool.
    #[must_use]
    pub fn part(&self, page: PageId, slot: KvSlot, head: usize) -> *mut u8 {
        assert!(
            page.0 < self.pages && slot.layer < self.group.layers && head < self.heads(),
            "part of the KV cache"
        );
        let layer = page.0 as usize * usize::from(self.group.layers) + usize::from(slot.layer);
        let at = (layer * self.heads() + head) * self.shape.head_bytes;
        // SAFETY: just checked to lie in the allocation, which has a part for each page, layer and head.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// Writes one head's key at `position`.
    ///
    /// # Safety
    /// No other thread may use this key meanwhile.
    ///
    /// # Panics
    /// When the position has no page, or the key a wrong length.
    pub unsafe fn write_key(
        &self,
        isa: Isa,
        pages: &[PageId],
        slot: KvSlot,
        (position, head): (u32, usize),
        key: &[f32],
    ) {
        assert_eq!(key.len(), self.shape.key_dim, "key length");
        let part = self.part(pages[position as usize / PAGE_TOKENS], slot, head);
        let column = position as usize % PAGE_TOKENS;
        match self.shape.kind {
            KvType::F32 => {
                for (d, &x) in key.iter().enumerate() {
                    // SAFETY: element `d` of the turned keys; nobody else uses it.
                    unsafe { part.cast::<f32>().add(d * PAGE_TOKENS + column).write(x) };
                }
            }
            KvType::F16 => {
                let mut halves = [0u16; 64];
                for (block, key) in key.chunks(64).enumerate() {
                    isa.run(ToHalf { from: key, to: &mut halves });
                    for (i, &x) in halves[..key.len()].iter().enumerate() {
                        let d = 64 * block + i;
                        // SAFETY: element `d` of the turned keys; nobody else uses it.
                        unsafe { part.cast::<u16>().add(d * PAGE_TOKENS + column).write(x) };
                    }
                }
            }
            KvType::Q8_0 => {
                for (block, key) in key.as_chunks().0.iter().enumerate() {
                    let mut codes = [0; BLOCK];
                    let scale = isa.run(ToBlock { from: key, to: &mut codes });
                    for (i, code) in codes.into_iter().enumerate() {
                        let d = BLOCK * block + i;
                        // SAFETY: element `d` of the turned codes; nobody else uses it.
                        unsafe { part.add(d * PAGE_TOKENS + column).write(code) };
                    }
                    // SAFETY: the block's scale at this position.
                    unsafe { part.add(self.shape.key_scale(block, column)).cast::<u16>().write(scale) };
                }
            }
        }
    }

    /// Writes one head's value at `position`, from its element `first` on; of blocks only whole ones.
    ///
    /// # Safety
    /// No other thread may use these elements meanwhile.
    ///
    /// # Panics
    /// When the position has no page, or the elements are too many.
    pub unsafe fn write_value(
        &self,
        isa: Isa,
        pages: &[PageId],
        slot: KvSlot,
        (position, head, first): (u32, usize, usize),
        value: &[f32],
    ) {
        assert!(first + value.len() <= self.shape.value_dim, "value length");
        let part =
            self.part(pages[position as usize / PAGE_TOKENS], slot, head).wrapping_add(self.shape.values);
        let column = position as usize % PAGE_TOKENS;
        let at = column * self.shape.value_stride + first;
        match self.shape.kind {
            // SAFETY: elements of the value's row in the part; nobody else uses them.
            KvType::F32 => unsafe {
                part.cast::<f32>().add(at).copy_from_nonoverlapping(value.as_ptr(), value.len());
            },
            KvType::F16 => {
                // SAFETY: as above; the slice ends before anything else begins.
                let to = unsafe { core::slice::from_raw_parts_mut(part.cast::<u16>().add(at), value.len()) };
                isa.run(ToHalf { from: value, to });
            }
            KvType::Q8_0 => {
                let (blocks, rest) = value.as_chunks();
                assert!(rest.is_empty() && first.is_multiple_of(BLOCK), "whole blocks of a value");
                for (block, value) in blocks.iter().enumerate() {
                    // SAFETY: as above, for the codes of one block.
                    let to = unsafe { &mut *part.add(at + BLOCK * block).cast::<[u8; BLOCK]>() };
                    let scale = isa.run(ToBlock { from: value, to });
                    let place = self.shape.value_scale(first / BLOCK + block, column) - self.shape.values;
                    // SAFETY: the block's scale at this position.
                    unsafe { part.add(place).cast::<u16>().write(scale) };
                }
            }
        }
    }
}

impl Drop for KvPool<'_> {
    fn drop(&mut self) {
        // SAFETY: allocated by this heap with this layout, and freed once.
        unsafe { self.heap.deallocate(self.base, self.layout) };
    }
}

/// Rounds floats to half precision.
struct ToHalf<'a> {
    from: &'a [f32],
    to: &'a mut [u16],
}

impl Kernel for ToHalf<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let mut from = self.from.chunks_exact(S::LANES);
        let whole = from.len() * S::LANES;
        for (from, to) in (&mut from).zip(self.to.chunks_exact_mut(S::LANES)) {
            // SAFETY: both chunks have LANES elements.
            unsafe { simd.store_half(to.as_mut_ptr(), simd.load_f(from.as_ptr())) };
        }
        let rest = from.remainder();
        let (mut floats, mut halves) = ([0.0; 16], [0; 16]);
        floats[..rest.len()].copy_from_slice(rest);
        // SAFETY: no form has more than 16 lanes.
        unsafe { simd.store_half(halves.as_mut_ptr(), simd.load_f(floats.as_ptr())) };
        self.to[whole..whole + rest.len()].copy_from_slice(&halves[..rest.len()]);
    }
}

/// Quantizes a block as core does; returns the bits of its scale.
struct ToBlock<'a> {
    from: &'a [f32; BLOCK],
    to: &'a mut [u8; BLOCK],
}

impl Kernel for ToBlock<'_> {
    type Output = u16;

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) -> u16 {
        let scale = codes32(simd, self.from, self.to);
        let mut halves = [0; 16];
        // SAFETY: no form has more than 16 lanes.
        unsafe { simd.store_half(halves.as_mut_ptr(), simd.splat_f(scale)) };
        halves[0]
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
        kind: KvType,
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
        fn new(key_dim: usize, value_dim: usize, positions: usize, kind: KvType) -> Self {
            let rounded = |x: Vec<f32>| match kind {
                KvType::F16 => [x.clone(), x.into_iter().map(|x| Half::new(x).get()).collect()],
                KvType::F32 => [x.clone(), x],
                KvType::Q8_0 => {
                    let mut blocks = vec![0; kind.row_bytes(x.len()).unwrap()];
                    Activation::Q8_0.quantize(&x, &mut blocks).unwrap();
                    let mut read = vec![0.0; x.len()];
                    quant::dequantize(Type::Q8_0, &blocks, &mut read).unwrap();
                    [x, read]
                }
            };
            let keys = rounded(random(positions * key_dim, 5));
            let values = rounded(random(positions * value_dim, 9));
            Self { key_dim, value_dim, positions, kind, keys, values }
        }

        /// A pool with the case's keys and values in head 1, pages in descending order.
        fn pool(&self, isa: Isa) -> (KvPool<'static>, Vec<PageId>) {
            let (key_dim, value_dim) = (self.key_dim as u32, self.value_dim as u32);
            let group = KvGroup { layers: 2, heads: 2, key_dim, value_dim, window: None };
            let count = self.positions.div_ceil(PAGE_TOKENS) as u32;
            let pool = KvPool::new(group, count, self.kind, &Global).unwrap();
            let pages: Vec<PageId> = (0..count).rev().map(PageId).collect();
            let unit = self.kind.block_len();
            for position in 0..self.positions {
                let key = &self.keys[0][position * self.key_dim..(position + 1) * self.key_dim];
                let value = &self.values[0][position * self.value_dim..(position + 1) * self.value_dim];
                let (left, right) = value.split_at(self.value_dim / 3 / unit * unit);
                let at = position as u32;
                // SAFETY: one thread.
                unsafe {
                    pool.write_key(isa, &pages, SLOT, (at, 1), key);
                    pool.write_value(isa, &pages, SLOT, (at, 1, 0), left);
                    pool.write_value(isa, &pages, SLOT, (at, 1, left.len()), right);
                }
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
            let stride = pool.shape().value_stride;
            let mut weights = [Weight { max: 0.0, sum: 0.0 }; T];
            let (mut sums, mut scores, mut values) =
                (vec![0.0; T * stride], vec![0.0; T * CHUNK], vec![0.0; T * stride]);
            for (weight, values) in weights.iter_mut().zip(sums.chunks_exact_mut(stride)) {
                State { weight, values }.start(sink);
            }
            for first in (0..self.positions).step_by(CHUNK) {
                let last = self.positions.min(first + CHUNK);
                let parts: Vec<*const u8> = pages[first / PAGE_TOKENS..last.div_ceil(PAGE_TOKENS)]
                    .iter()
                    .map(|&page| pool.part(page, SLOT, 1).cast_const())
                    .collect();
                let visible =
                    at.map(|at| op.window.map_or(0, |window| (at + 1).saturating_sub(window))..at + 1);
                let chunk = Attention {
                    shape: pool.shape(),
                    queries,
                    visible,
                    first: first as u32,
                    pages: &parts,
                    scale: op.scale,
                    soft_cap: op.soft_cap,
                    scores: &mut scores,
                    values: &mut values,
                };
                // SAFETY: the parts are the pool's own.
                let found = isa.run(unsafe { chunk.check() });
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
            let kept = |kind: &KvType| kind.row_bytes(key_dim).and(kind.row_bytes(value_dim)).is_some();
            for kind in KvType::ALL.into_iter().filter(kept) {
                let case = Case::new(key_dim, value_dim, positions, kind);
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
                                "{key_dim} {positions} {kind:?} {op:?} {t} {}: {error:e}",
                                isa.name()
                            );
                            // Alone, a query gets the same bits.
                            assert_eq!(row, case.attend(isa, &op, [&queries[t]], [at[t]], sink));
                        }
                    }
                }
            }
        }
    }
}
