//! Limits of an engine, and why one can't be made. The memory they need is in `memory`, requests are in `request`.

use crate::heap::OutOfMemory;
use crate::plan::{PAGE_TOKENS, PlanError, Shape};
use core::fmt;

/// Limits of an engine; what depends on them alone is reserved at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Config {
    /// Tokens that one sequence can hold, prompt and output together.
    pub context: u32,
    /// Sequences at a time.
    pub sequences: u32,
    /// Rows of one step; long prompts are computed in chunks of at most this many.
    pub batch_rows: u32,
    /// Requests that may wait for a place among the sequences.
    pub waiting: u32,
    /// KV pages per group. Fewer than [`Config::full_pages`] are shared: sequences give way when they run out.
    pub pages: u32,
    /// Rows of a pooling step; with 0 no pooling requests are accepted. Each takes room for the logits of the whole
    /// vocabulary.
    pub pooling_rows: u32,
    /// Time that a step should take at most while tokens are streaming, ns; bounds prompt chunks.
    pub step_target: u64,
}

/// 50 ms: twenty tokens per second while somebody's prompt is computed.
const STEP_TARGET: u64 = 50_000_000;

impl Config {
    /// Limits with pages for all sequences at full context, no waiting and no pooling.
    pub fn new(context: u32, sequences: u32, batch_rows: u32) -> Self {
        let pages = pages_of(context).saturating_mul(sequences);
        let step_target = STEP_TARGET;
        Self { context, sequences, batch_rows, waiting: 0, pages, pooling_rows: 0, step_target }
    }

    /// KV pages per group for all sequences at full context.
    pub fn full_pages(&self) -> u32 {
        pages_of(self.context).saturating_mul(self.sequences)
    }

    /// The shape of a step without prompt rows.
    pub(super) fn decode_shape(&self) -> Shape {
        Shape { rows: self.sequences, outputs: self.sequences }
    }

    /// Rows of the widest step of all.
    pub(super) fn widest_step(&self) -> u32 {
        self.largest_shape().rows.max(self.pooling_rows)
    }

    /// The shape of the largest step.
    pub fn largest_shape(&self) -> Shape {
        Shape { rows: self.batch_rows.max(self.sequences), outputs: self.sequences }
    }
}

/// Pages that hold so many tokens.
pub(super) fn pages_of(tokens: u32) -> u32 {
    tokens.div_ceil(PAGE_TOKENS as u32)
}

/// Why an engine could not be made or could not go on.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum EngineError<E> {
    /// A limit of zero, or more than the arithmetic holds.
    Config(Config),
    /// The heap refused.
    Memory(OutOfMemory),
    /// A plan could not be made.
    Plan(PlanError),
    /// The device failed. All requests in flight are lost.
    Backend(E),
}

impl<E> From<OutOfMemory> for EngineError<E> {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl<E> From<PlanError> for EngineError<E> {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

impl<E: fmt::Display> fmt::Display for EngineError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(config) => write!(f, "limits must be positive and within u32: {config:?}"),
            Self::Memory(error) => error.fmt(f),
            Self::Plan(error) => error.fmt(f),
            Self::Backend(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error> core::error::Error for EngineError<E> {}
