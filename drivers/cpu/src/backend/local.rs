//! A thread's own memory during a step.

use super::sizes::Sizes;
use crate::attention::{CHUNK, QUERIES, Weight};
use crate::lines::Lines;
use crate::product::Scratch;
use doorbell_core::heap::{self, Heap, OutOfMemory, Vec};

/// A thread's memory.
#[derive(Debug)]
pub(super) struct Local<'h> {
    pub(super) own: OwnActivations<'h>,
    pub(super) work: Work<'h>,
}

/// Quantized rows, when every thread makes its own.
#[derive(Debug)]
pub(super) struct OwnActivations<'h> {
    /// One buffer per activation format.
    pub(super) rows: [Lines<'h>; 4],
    /// Hidden rows of experts.
    pub(super) hidden: Lines<'h>,
}

/// A thread's working memory.
#[derive(Debug)]
pub(super) struct Work<'h> {
    /// Unpacked strips.
    pub(super) scratch: Scratch<'h>,
    /// A normalized row, or a hidden row of an expert.
    pub(super) row: Lines<'h>,
    /// `[rows, 32]`: products of a pair of strips.
    pub(super) products: Lines<'h>,
    /// `[rows, head_dim]` of one head, or `[rows, 32]` sums over experts.
    pub(super) block: Lines<'h>,
    /// Attention: scores and values of a tile, sums of a block of queries.
    pub(super) attention: AttentionMemory<'h>,
    /// Delta nets: queries, keys, values and results of a block of tokens.
    pub(super) delta: Lines<'h>,
    /// Choice of experts.
    pub(super) moe: MoeMemory<'h>,
    /// Best token so far per output row.
    pub(super) best: Vec<'h, Best>,
}

/// A token and its logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Best {
    pub(super) logit: f32,
    pub(super) token: u32,
}

impl Best {
    /// Worse than every token.
    pub(super) const NONE: Self = Self { logit: f32::NEG_INFINITY, token: u32::MAX };

    /// The larger logit, the lower token on ties; a logit that is not a number never wins.
    pub(super) fn or(self, other: Self) -> Self {
        let better = other.logit > self.logit || (other.logit == self.logit && other.token < self.token);
        if better { other } else { self }
    }
}

/// Working memory of attention.
#[derive(Debug)]
pub(super) struct AttentionMemory<'h> {
    pub(super) scores: Lines<'h>,
    pub(super) values: Lines<'h>,
    pub(super) sums: Lines<'h>,
    pub(super) weights: Vec<'h, Weight>,
}

/// The rows of each expert. A choice is an index into the lists that are sorted by expert.
#[derive(Debug)]
pub(super) struct MoeMemory<'h> {
    /// `[rows, top_k]` of the last router, when every thread routes for itself.
    pub(super) ids: Vec<'h, u32>,
    pub(super) weights: Vec<'h, f32>,
    /// `[experts + 1]`: first choice of each expert in the sorted lists.
    pub(super) starts: Vec<'h, u32>,
    /// Rows, sorted by expert, then row.
    pub(super) rows: Vec<'h, u32>,
    /// Their weights.
    pub(super) factors: Vec<'h, f32>,
    /// Experts that have rows.
    pub(super) active: Vec<'h, u32>,
}

impl MoeMemory<'_> {
    /// The choices of an expert in the sorted lists.
    pub(super) fn choices(&self, expert: usize) -> core::ops::Range<usize> {
        self.starts[expert] as usize..self.starts[expert + 1] as usize
    }

    /// The expert that has a choice of the sorted lists.
    pub(super) fn expert_of(&self, choice: usize) -> usize {
        self.starts.partition_point(|start| *start as usize <= choice) - 1
    }
}

impl<'h> Local<'h> {
    pub(super) fn new(heap: Heap<'h>) -> Self {
        let lines = || Lines::new(heap);
        let attention =
            AttentionMemory { scores: lines(), values: lines(), sums: lines(), weights: Vec::new_in(heap) };
        let moe = MoeMemory {
            ids: Vec::new_in(heap),
            weights: Vec::new_in(heap),
            starts: Vec::new_in(heap),
            rows: Vec::new_in(heap),
            factors: Vec::new_in(heap),
            active: Vec::new_in(heap),
        };
        let work = Work {
            scratch: Scratch::new(heap),
            row: lines(),
            products: lines(),
            block: lines(),
            attention,
            delta: lines(),
            moe,
            best: Vec::new_in(heap),
        };
        let rows = [lines(), lines(), lines(), lines()];
        Self { own: OwnActivations { rows, hidden: lines() }, work }
    }

    /// Makes room for a plan's operations; nothing is allocated during a step.
    pub(super) fn grow(&mut self, sizes: &Sizes) -> Result<(), OutOfMemory> {
        let Self { own, work } = self;
        for (rows, &bytes) in own.rows.iter_mut().zip(&sizes.own_activations) {
            rows.grow(bytes)?;
        }
        own.hidden.grow(sizes.own_hidden_activations)?;
        work.scratch.reserve(sizes.cols, sizes.padded_row_bytes)?;
        work.row.grow_numbers(sizes.cols.next_multiple_of(crate::simd::STRIP))?;
        work.products.grow_numbers(sizes.products)?;
        work.block.grow_numbers(sizes.block)?;
        work.delta.grow_numbers(sizes.delta)?;
        let attention = &mut work.attention;
        attention.scores.grow_numbers(QUERIES * CHUNK)?;
        attention.values.grow_numbers(QUERIES * sizes.value_stride)?;
        attention.sums.grow_numbers(sizes.queries * sizes.value_stride)?;
        heap::grow(&mut attention.weights, sizes.queries)?;
        let moe = &mut work.moe;
        heap::grow(&mut moe.ids, sizes.choices)?;
        heap::grow(&mut moe.weights, sizes.choices)?;
        heap::grow(&mut moe.rows, sizes.choices)?;
        heap::grow(&mut moe.factors, sizes.choices)?;
        heap::grow(&mut moe.starts, sizes.experts + 1)?;
        heap::grow(&mut moe.active, sizes.experts)?;
        heap::grow(&mut work.best, sizes.outputs)
    }
}
