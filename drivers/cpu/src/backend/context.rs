//! The data that all threads of a step share, and the places of tensors and pages in the step's memory.

use super::states::StateView;
use crate::features::Isa;
use crate::kv::KvLayout;
use crate::phase::{BufferId, Phase, Region};
use core::ops::Range;
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, GroupId, KvSlot, PAGE_TOKENS, PageId, Plan, RopeId, TensorId};

/// KV groups that a model can have.
pub(super) const GROUPS: usize = doorbell_core::plan::MAX_GROUPS;

/// The data that all threads of a step share.
pub(super) struct Context<'s> {
    pub(super) isa: Isa,
    pub(super) model: &'s Model<'s>,
    pub(super) plan: &'s Plan<'s>,
    /// The operations to run.
    pub(super) ops: Range<usize>,
    pub(super) batch: &'s Batch<'s>,
    /// By group.
    pub(super) pools: [Option<PoolView>; GROUPS],
    /// Recurrent states, for models that have them.
    pub(super) states: Option<StateView>,
    /// Of each batch row.
    pub(super) positions: &'s [RowPosition],
    pub(super) buffers: BufferIds,
    /// Floats of partial attention results that there is room for.
    pub(super) partial_floats: usize,
}

/// The sequence of a batch row, an index into the batch's page tables, and the row's position in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowPosition {
    pub(super) sequence: u32,
    pub(super) position: u32,
}

/// The pages of a KV group.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolView {
    pub(super) layout: KvLayout,
    pub(super) buffer: BufferId,
}

impl PoolView {
    /// The parts of a layer, a row of them for each page.
    pub(super) fn layer(&self, layer: u16, first: usize) -> Region {
        let start = self.layout.layer_start(layer) + first;
        Region::bytes(self.buffer, start, self.layout.pages() as usize, self.layout.page_bytes())
    }
}

/// The buffers of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferIds {
    /// The plan's tensors.
    pub(super) arena: BufferId,
    /// `[rows]`, of each rope the cosines, then the sines.
    pub(super) angles: BufferId,
    /// Quantized rows, by format.
    pub(super) activations: [BufferId; 4],
    /// Hidden rows of experts; laid out in `moe`.
    pub(super) hidden: BufferId,
    /// The same, quantized.
    pub(super) hidden_activations: BufferId,
    /// `[rows, experts]`
    pub(super) router: BufferId,
    /// `[outputs, vocabulary]`
    pub(super) logits: BufferId,
    /// `[threads, outputs]` logits and tokens.
    pub(super) best: BufferId,
    /// Partial attention: `[rows, KV heads, chunks, queries per KV head]`.
    pub(super) partials: BufferId,
}

/// Cosines and sines of a rotary embedding at a position.
#[derive(Clone, Copy)]
pub(super) struct Angles<'p> {
    pub(super) cos: &'p [f32],
    pub(super) sin: &'p [f32],
}

impl Context<'_> {
    /// Rows of a tensor in this batch.
    pub(super) fn rows(&self, id: TensorId) -> usize {
        self.batch.rows_of(self.plan.tensor(id).rows)
    }

    /// Columns of a tensor.
    pub(super) fn width(&self, id: TensorId) -> usize {
        self.plan.tensor(id).width as usize
    }

    /// The position of a tensor's row.
    pub(super) fn position(&self, id: TensorId, row: usize) -> RowPosition {
        self.positions[self.batch_row(id, row)]
    }

    /// The batch row of a tensor's row.
    pub(super) fn batch_row(&self, id: TensorId, row: usize) -> usize {
        self.batch.batch_row(self.plan.tensor(id).rows, row) as usize
    }

    /// A tensor's cells.
    pub(super) fn region(&self, id: TensorId) -> Region {
        Region::floats(self.buffers.arena, self.plan.tensor(id).offset, self.rows(id), self.width(id))
    }

    /// A tensor's row, which is not written in this phase.
    pub(super) fn read<'p>(&self, phase: &'p Phase<'_>, id: TensorId, row: usize) -> &'p [f32] {
        let width = self.width(id);
        phase.floats(self.buffers.arena, self.plan.tensor(id).offset + row * width, width)
    }

    /// The pages of a group.
    pub(super) fn pool(&self, group: GroupId) -> &PoolView {
        self.pools[group.index()].as_ref().expect("a pool for every group")
    }

    /// The page of a position, and the position in it.
    pub(super) fn page(&self, at: RowPosition, kv: KvSlot) -> (PageId, usize) {
        let pages = self.batch.tables.of(at.sequence, kv.group);
        (pages[at.position as usize / PAGE_TOKENS], at.position as usize % PAGE_TOKENS)
    }

    /// Floats of the angles of a row, all ropes together.
    pub(super) fn angle_floats(&self) -> usize {
        self.model.ropes.iter().map(|rope| 2 * rope.frequencies.len()).sum()
    }

    /// Cosines and sines of a rotary embedding for a batch row.
    pub(super) fn angles<'p>(&self, phase: &'p Phase<'_>, rope: RopeId, row: usize) -> Angles<'p> {
        let ropes = &self.model.ropes;
        let before: usize = ropes[..rope.index()].iter().map(|rope| 2 * rope.frequencies.len()).sum();
        let pairs = ropes[rope.index()].frequencies.len();
        let first = row * self.angle_floats() + before;
        let (cos, sin) = phase.floats(self.buffers.angles, first, 2 * pairs).split_at(pairs);
        Angles { cos, sin }
    }
}
