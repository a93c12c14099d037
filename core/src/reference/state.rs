//! The KV cache of the reference: the contents of the pages, in the KV type.

use super::attention::Cached;
use crate::backend::KvType;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::model::KvGroup;
use crate::plan::{KvSlot, PAGE_TOKENS, PageId};
use crate::quant::{self, Activation, Type};
use core::ops::Range;
use half::f16;

/// Buffers for quantizing keys and values.
const BLOCK: Activation = Activation::Q8_0;

/// Keys and values of one group: `[pages, layers, PAGE_TOKENS, heads, dim]`; heads are whole blocks of the KV type.
#[derive(Debug)]
pub(super) struct KvPool<'h> {
    group: KvGroup,
    keys: Cells<'h>,
    values: Cells<'h>,
}

/// Elements of one KV type.
#[derive(Debug)]
enum Cells<'h> {
    F16(Vec<'h, f16>),
    F32(Vec<'h, f32>),
    Q8_0(Vec<'h, u8>),
}

/// The bytes of `len` elements from `at` on, both whole blocks.
fn block_bytes(at: usize, len: usize) -> Range<usize> {
    let bytes = |elements| elements / BLOCK.block_len() * BLOCK.block_bytes();
    bytes(at)..bytes(at + len)
}

impl<'h> Cells<'h> {
    fn new(kv: KvType, count: usize, heap: Heap<'h>) -> Result<Self, OutOfMemory> {
        Ok(match kv {
            KvType::F16 => Self::F16(heap::filled(heap, count, f16::ZERO)?),
            KvType::F32 => Self::F32(heap::filled(heap, count, 0.0)?),
            KvType::Q8_0 => {
                let bytes = kv.row_bytes(count).unwrap_or(usize::MAX);
                Self::Q8_0(heap::filled(heap, bytes, 0)?)
            }
        })
    }

    fn write(&mut self, at: usize, row: &[f32]) {
        match self {
            Self::F16(cells) => {
                cells[at..at + row.len()].iter_mut().zip(row).for_each(|(cell, &x)| *cell = f16::from_f32(x));
            }
            Self::F32(cells) => cells[at..at + row.len()].copy_from_slice(row),
            Self::Q8_0(cells) => {
                // Lengths fit: the range is made from the row's.
                let _ = BLOCK.quantize(row, &mut cells[block_bytes(at, row.len())]);
            }
        }
    }

    fn read(&self, at: usize, row: &mut [f32]) {
        match self {
            Self::F16(cells) => {
                let cells = &cells[at..at + row.len()];
                row.iter_mut().zip(cells).for_each(|(x, cell)| *x = cell.to_f32());
            }
            Self::F32(cells) => row.copy_from_slice(&cells[at..at + row.len()]),
            Self::Q8_0(cells) => {
                // As above.
                let _ = quant::dequantize(Type::Q8_0, &cells[block_bytes(at, row.len())], row);
            }
        }
    }
}

/// Copies numbers as little-endian bytes, as far as there is room.
fn give<const N: usize>(bytes: impl Iterator<Item = [u8; N]>, to: &mut [u8]) {
    to.as_chunks_mut::<N>().0.iter_mut().zip(bytes).for_each(|(to, bytes)| *to = bytes);
}

impl Cells<'_> {
    /// Copies `count` elements from `at` on.
    fn export(&self, at: usize, count: usize, to: &mut [u8]) {
        match self {
            Self::F16(cells) => give(cells[at..at + count].iter().map(|x| x.to_le_bytes()), to),
            Self::F32(cells) => give(cells[at..at + count].iter().map(|x| x.to_le_bytes()), to),
            Self::Q8_0(cells) => to.copy_from_slice(&cells[block_bytes(at, count)]),
        }
    }

    /// Reads `count` elements from `at` on.
    fn import(&mut self, at: usize, count: usize, from: &[u8]) {
        match self {
            Self::F16(cells) => {
                let numbers = from.as_chunks().0.iter().map(|&bytes| f16::from_le_bytes(bytes));
                cells[at..at + count].iter_mut().zip(numbers).for_each(|(cell, x)| *cell = x);
            }
            Self::F32(cells) => {
                let numbers = from.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
                cells[at..at + count].iter_mut().zip(numbers).for_each(|(cell, x)| *cell = x);
            }
            Self::Q8_0(cells) => cells[block_bytes(at, count)].copy_from_slice(from),
        }
    }
}

impl KvPool<'_> {
    /// Elements of a page's keys and of its values.
    fn page_elements(&self) -> [usize; 2] {
        let heads = usize::from(self.group.layers) * PAGE_TOKENS * self.group.heads as usize;
        [self.group.key_dim, self.group.value_dim].map(|dim| heads * dim as usize)
    }

    /// Bytes of a page.
    pub(super) fn page_bytes(&self, kv: KvType) -> usize {
        self.page_elements().into_iter().filter_map(|count| kv.row_bytes(count)).sum()
    }

    /// Copies a page of the pool: keys, then values. `to` is as long as a page.
    pub(super) fn read_page(&self, kv: KvType, page: PageId, to: &mut [u8]) {
        let [keys, values] = self.page_elements();
        let (first, second) = to.split_at_mut(kv.row_bytes(keys).unwrap_or(0));
        self.keys.export(page.0 as usize * keys, keys, first);
        self.values.export(page.0 as usize * values, values, second);
    }

    /// Replaces a page of the pool. `from` is as long as a page.
    pub(super) fn write_page(&mut self, kv: KvType, page: PageId, from: &[u8]) {
        let [keys, values] = self.page_elements();
        let (first, second) = from.split_at(kv.row_bytes(keys).unwrap_or(0));
        self.keys.import(page.0 as usize * keys, keys, first);
        self.values.import(page.0 as usize * values, values, second);
    }
}

impl<'h> KvPool<'h> {
    pub(super) fn new(group: KvGroup, pages: u32, kv: KvType, heap: Heap<'h>) -> Result<Self, OutOfMemory> {
        let cells = |dim: u32| {
            [usize::from(group.layers), PAGE_TOKENS, group.heads as usize, dim as usize]
                .into_iter()
                .try_fold(pages as usize, usize::checked_mul)
                .unwrap_or(usize::MAX)
        };
        let keys = Cells::new(kv, cells(group.key_dim), heap)?;
        let values = Cells::new(kv, cells(group.value_dim), heap)?;
        Ok(Self { group, keys, values })
    }

    /// First token-row of a position: `heads` heads follow.
    fn token(&self, slot: KvSlot, pages: &[PageId], position: u32) -> usize {
        let page = pages[position as usize / PAGE_TOKENS].0 as usize;
        let layer = page * usize::from(self.group.layers) + usize::from(slot.layer);
        layer * PAGE_TOKENS + position as usize % PAGE_TOKENS
    }

    /// Stores the keys or values of all heads at a position.
    pub(super) fn write(
        &mut self,
        which: Cached,
        slot: KvSlot,
        pages: &[PageId],
        position: u32,
        row: &[f32],
    ) {
        let at = self.token(slot, pages, position) * row.len();
        match which {
            Cached::Key => self.keys.write(at, row),
            Cached::Value => self.values.write(at, row),
        }
    }

    /// Reads the key or value of one head at a position.
    pub(super) fn read(
        &self,
        which: Cached,
        slot: KvSlot,
        pages: &[PageId],
        position: u32,
        head: usize,
        to: &mut [f32],
    ) {
        let token = self.token(slot, pages, position);
        let at = (token * self.group.heads as usize + head) * to.len();
        match which {
            Cached::Key => self.keys.read(at, to),
            Cached::Value => self.values.read(at, to),
        }
    }
}
