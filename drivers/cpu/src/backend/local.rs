//! What a thread has for itself during a step.

use super::shared::Buffer;
use super::sizes::Sizes;
use crate::attention::{CHUNK, QUERIES, Weight};
use crate::product::Scratch;
use doorbell_core::heap::{self, Heap, OutOfMemory, Vec};
use doorbell_core::plan::TensorId;

/// A thread's working memory.
#[derive(Debug)]
pub(super) struct Local<'h> {
    /// Unpacked strips.
    pub(super) scratch: Scratch<'h>,
    /// Quantized rows, when every thread makes its own; one buffer per activation format.
    pub(super) panels: [Buffer<'h>; 4],
    /// Quantized hidden rows of experts, when every thread makes its own.
    pub(super) hidden_panel: Buffer<'h>,
    /// A normalized row.
    pub(super) row: Buffer<'h>,
    /// `[rows, 32]`: products of a pair of strips.
    pub(super) products: Buffer<'h>,
    /// `[rows, head_dim]` of one head, or `[rows, 32]` sums over experts.
    pub(super) block: Buffer<'h>,
    /// Attention: scores and values of a tile, sums of a block of queries.
    pub(super) attention: AttentionMemory<'h>,
    /// Choice of experts.
    pub(super) moe: MoeMemory<'h>,
    /// Best token so far per output row.
    pub(super) best: Vec<'h, (f32, u32)>,
}

/// Working memory of attention.
#[derive(Debug)]
pub(super) struct AttentionMemory<'h> {
    pub(super) scores: Buffer<'h>,
    pub(super) values: Buffer<'h>,
    pub(super) sums: Buffer<'h>,
    pub(super) weights: Vec<'h, Weight>,
    /// First row and length of each block of rows.
    pub(super) blocks: Vec<'h, (u32, u32)>,
}

/// Which rows go to which expert.
#[derive(Debug)]
pub(super) struct MoeMemory<'h> {
    /// `[rows, top_k]` of the last router, when every thread routes for itself.
    pub(super) ids: Vec<'h, u32>,
    pub(super) weights: Vec<'h, f32>,
    /// Whose they are.
    pub(super) routed: Option<TensorId>,
    /// `[experts + 1]`: where each expert's rows begin in the sorted lists.
    pub(super) starts: Vec<'h, u32>,
    /// Rows, sorted by expert, then row.
    pub(super) rows: Vec<'h, u32>,
    /// Their weights.
    pub(super) factors: Vec<'h, f32>,
    /// Experts that have rows.
    pub(super) active: Vec<'h, u32>,
}

impl<'h> Local<'h> {
    pub(super) fn new(heap: Heap<'h>) -> Self {
        let buffer = || Buffer::new(heap);
        Self {
            scratch: Scratch::new(heap),
            panels: [buffer(), buffer(), buffer(), buffer()],
            hidden_panel: buffer(),
            row: buffer(),
            products: buffer(),
            block: buffer(),
            attention: AttentionMemory {
                scores: buffer(),
                values: buffer(),
                sums: buffer(),
                weights: Vec::new_in(heap),
                blocks: Vec::new_in(heap),
            },
            moe: MoeMemory {
                ids: Vec::new_in(heap),
                weights: Vec::new_in(heap),
                routed: None,
                starts: Vec::new_in(heap),
                rows: Vec::new_in(heap),
                factors: Vec::new_in(heap),
                active: Vec::new_in(heap),
            },
            best: Vec::new_in(heap),
        }
    }

    /// Makes room for a plan's operations; nothing is allocated during a step.
    pub(super) fn grow(&mut self, sizes: &Sizes) -> Result<(), OutOfMemory> {
        self.scratch.reserve(sizes.cols, sizes.padded_row_bytes)?;
        for (panel, &bytes) in self.panels.iter_mut().zip(&sizes.own_panels) {
            panel.grow(bytes.div_ceil(4))?;
        }
        self.hidden_panel.grow(sizes.own_hidden_panel.div_ceil(4))?;
        self.row.grow(sizes.cols)?;
        self.products.grow(sizes.products)?;
        self.block.grow(sizes.block)?;
        let attention = &mut self.attention;
        attention.scores.grow(QUERIES * CHUNK)?;
        attention.values.grow(QUERIES * sizes.value_stride)?;
        attention.sums.grow(sizes.queries * sizes.value_stride)?;
        heap::grow(&mut attention.weights, sizes.queries)?;
        heap::grow(&mut attention.blocks, sizes.rows)?;
        let moe = &mut self.moe;
        heap::grow(&mut moe.ids, sizes.choices)?;
        heap::grow(&mut moe.weights, sizes.choices)?;
        heap::grow(&mut moe.rows, sizes.choices)?;
        heap::grow(&mut moe.factors, sizes.choices)?;
        heap::grow(&mut moe.starts, sizes.experts + 1)?;
        heap::grow(&mut moe.active, sizes.experts)?;
        heap::grow(&mut self.best, sizes.outputs)
    }
}
