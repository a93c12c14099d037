//! The reference KV cache: pools of pages, in the KV type.

use super::attend::{Cache, Cached};
use crate::backend::KvType;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::model::KvGroup;
use crate::plan::{KvSlot, PAGE_TOKENS, PageId};
use crate::quant::{self, Activation, Type};
use core::ops::Range;
use half::f16;

/// What quantises keys and values.
const BLOCK: Activation = Activation::Q8_0;

/// Keys and values of one group: `[pages, layers, PAGE_TOKENS, heads, dim]`; heads are whole blocks of the KV type.
#[derive(Debug)]
pub(super) struct Pool<'h> {
    group: KvGroup,
    keys: Cells<'h>,
    values: Cells<'h>,
}

/// Numbers of one KV type.
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

impl<'h> Pool<'h> {
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

    pub(super) fn group(&self) -> &KvGroup {
        &self.group
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

    /// What a sequence with these pages has in a slot.
    pub(super) fn slot<'s>(&'s self, slot: KvSlot, pages: &'s [PageId]) -> Slot<'s> {
        Slot { pool: self, slot, pages }
    }
}

/// The keys and values of one sequence in one layer.
pub(super) struct Slot<'s> {
    pool: &'s Pool<'s>,
    slot: KvSlot,
    pages: &'s [PageId],
}

impl Cache for Slot<'_> {
    fn read(&self, which: Cached, position: u32, head: usize, to: &mut [f32]) {
        let pool = self.pool;
        let token = pool.token(self.slot, self.pages, position);
        let at = (token * pool.group.heads as usize + head) * to.len();
        match which {
            Cached::Key => pool.keys.read(at, to),
            Cached::Value => pool.values.read(at, to),
        }
    }
}
