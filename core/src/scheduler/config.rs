//! Limits of an engine and its scheduler. The memory that they need is computed in `engine/memory`.

use crate::kv::KvPools;
use crate::plan::{PAGE_TOKENS, Shape, pages_of};

/// Limits of an engine; memory that depends on them alone is reserved at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Config {
    /// Most tokens of one sequence, prompt and output together.
    pub context: u32,
    /// Most sequences that run at a time.
    pub sequences: u32,
    /// Rows of one step; longer prompts are computed in several steps.
    pub batch_rows: u32,
    /// Most requests that wait to run.
    pub waiting: u32,
    /// KV pages of the groups that keep all positions. With fewer than [`Config::full_pages`], sequences are preempted
    /// when pages run out.
    pub pages: u32,
    /// Rows of a pooling step; with 0 no pooling requests are accepted. Each row takes memory for the logits of the whole
    /// vocabulary.
    pub pooling_rows: u32,
    /// Checkpoints that are kept beside what running sequences need: recurrent states, and pages of one window, for models
    /// that have them. A cached prefix can be used as far as there is a checkpoint.
    pub checkpoints: u32,
    /// Longest time of a step while tokens are streaming, ns; limits the prompt rows of such steps.
    pub step_target: u64,
}

/// 50 ms: streams get twenty tokens per second while a prompt is computed.
const STEP_TARGET: u64 = 50_000_000;

impl Config {
    /// Limits with pages for all sequences at full context, no waiting requests and no pooling.
    pub fn new(context: u32, sequences: u32, batch_rows: u32) -> Self {
        let pages = pages_of(context).saturating_mul(sequences);
        let step_target = STEP_TARGET;
        Self {
            context,
            sequences,
            batch_rows,
            waiting: 0,
            pages,
            pooling_rows: 0,
            checkpoints: 0,
            step_target,
        }
    }

    /// KV pages of all sequences at full context, in groups that keep all positions.
    pub fn full_pages(&self) -> u32 {
        pages_of(self.context).saturating_mul(self.sequences)
    }

    /// The pools of a model whose KV groups have these windows.
    pub fn kv_pools(&self, windows: impl Iterator<Item = Option<u32>>) -> KvPools {
        KvPools::new(self.pages, windows, |window| self.window_pages(window))
    }

    /// Pages of the groups with a window: enough for every running sequence, whatever the step, and for the checkpoints.
    fn window_pages(&self, window: u32) -> u32 {
        let (sequences, page) = (u64::from(self.sequences), PAGE_TOKENS as u64);
        let seen = u64::from(window_pages(window));
        // Rows of a step that begin within a page reach one page further than their number says. Each sequence also keeps
        // the pages before the page border that its rows begin behind.
        let rows = (u64::from(self.widest_step()) + sequences * (page - 2)) / page;
        let running = sequences * (seen + 1) + rows;
        // One checkpoint of each sequence stays while it generates: the end of its prompt, where its next turn may begin.
        let generating = sequences * (seen + 2) + sequences * seen;
        let needed = (running + u64::from(self.checkpoints) * seen).max(generating);
        u32::try_from(needed).unwrap_or(u32::MAX).min(self.pages)
    }

    /// Recurrent states of a model that has them.
    pub fn states(&self) -> u32 {
        self.sequences.saturating_add(self.checkpoints)
    }

    /// Most requests at a time, running and waiting.
    pub fn live_requests(&self) -> usize {
        (self.sequences as usize).saturating_add(self.waiting as usize)
    }

    /// The shape of the largest step.
    pub fn largest_shape(&self) -> Shape {
        Shape { rows: self.batch_rows.max(self.sequences), outputs: self.sequences }
    }

    /// The shape of a step without prompt rows.
    pub(crate) fn decode_shape(&self) -> Shape {
        Shape { rows: self.sequences, outputs: self.sequences }
    }

    /// The shape of a pooling step; `None` if no pooling requests are accepted.
    pub(crate) fn pooling_shape(&self) -> Option<Shape> {
        (self.pooling_rows > 0).then_some(Shape { rows: self.pooling_rows, outputs: self.pooling_rows })
    }

    /// Rows of the step with the most rows.
    pub(crate) fn widest_step(&self) -> u32 {
        self.largest_shape().rows.max(self.pooling_rows)
    }
}

/// Pages of `window` positions before a page border, without the row at the border.
pub(crate) fn window_pages(window: u32) -> u32 {
    pages_of(window.saturating_sub(1))
}
