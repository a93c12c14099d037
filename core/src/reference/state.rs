//! The reference KV cache: pools of pages in f32, rounded to the KV type on writing.

use crate::backend::KvType;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::model::KvGroup;
use crate::plan::{KvSlot, PAGE_TOKENS, PageId};
use half::f16;

/// Keys and values of one group: `[pages, layers, PAGE_TOKENS, heads, dim]`.
#[derive(Debug)]
pub(super) struct Pool<'h> {
    group: KvGroup,
    keys: Vec<'h, f32>,
    values: Vec<'h, f32>,
    kv: KvType,
}

impl<'h> Pool<'h> {
    pub(super) fn new(group: KvGroup, pages: u32, kv: KvType, heap: Heap<'h>) -> Result<Self, OutOfMemory> {
        let cells = |dim: u32| {
            [usize::from(group.layers), PAGE_TOKENS, group.heads as usize, dim as usize]
                .into_iter()
                .try_fold(pages as usize, usize::checked_mul)
                .unwrap_or(usize::MAX)
        };
        let keys = heap::filled(heap, cells(group.key_dim), 0f32)?;
        let values = heap::filled(heap, cells(group.value_dim), 0f32)?;
        Ok(Self { group, keys, values, kv })
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

    pub(super) fn write(&mut self, keys: bool, slot: KvSlot, pages: &[PageId], position: u32, row: &[f32]) {
        let token = self.token(slot, pages, position);
        let kv = self.kv;
        let target = if keys { &mut self.keys } else { &mut self.values };
        for (cell, &x) in target[token * row.len()..(token + 1) * row.len()].iter_mut().zip(row) {
            *cell = match kv {
                KvType::F16 => f16::from_f32(x).to_f32(),
                KvType::F32 => x,
            };
        }
    }

    pub(super) fn key(&self, slot: KvSlot, pages: &[PageId], position: u32, head: usize) -> &[f32] {
        let dim = self.group.key_dim as usize;
        let start = (self.token(slot, pages, position) * self.group.heads as usize + head) * dim;
        &self.keys[start..start + dim]
    }

    pub(super) fn value(&self, slot: KvSlot, pages: &[PageId], position: u32, head: usize) -> &[f32] {
        let dim = self.group.value_dim as usize;
        let start = (self.token(slot, pages, position) * self.group.heads as usize + head) * dim;
        &self.values[start..start + dim]
    }
}
