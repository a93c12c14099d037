//! Limits of an engine, and what may be asked of it. The memory they need is in `memory`.

use super::event::RequestId;
use crate::heap::OutOfMemory;
use crate::plan::{PAGE_TOKENS, PlanError, Shape};
use crate::sample::{Breakers, LogitBias, SamplerError, SamplerParams};
use crate::token::TokenId;
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
    /// Rows of a step that reads a text without continuing it; with 0 no readings are taken. Each takes room for
    /// the scores of the whole vocabulary.
    pub reading_rows: u32,
    /// Time that a step should take at most while tokens are streaming, ns; bounds prompt chunks.
    pub step_target: u64,
}

/// 50 ms: twenty tokens per second while somebody's prompt is computed.
const STEP_TARGET: u64 = 50_000_000;

impl Config {
    /// Limits with pages for all sequences at full context, no waiting and no readings.
    pub fn new(context: u32, sequences: u32, batch_rows: u32) -> Self {
        let pages = pages_of(context).saturating_mul(sequences);
        let step_target = STEP_TARGET;
        Self { context, sequences, batch_rows, waiting: 0, pages, reading_rows: 0, step_target }
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
        self.largest_shape().rows.max(self.reading_rows)
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

/// One request for text.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// Its name.
    pub id: RequestId,
    /// The prompt; at least one token.
    pub prompt: &'r [TokenId],
    /// Tokens to generate at most.
    pub max_tokens: u32,
    /// How tokens are picked.
    pub sampler: &'r SamplerParams,
    /// Added to logits.
    pub bias: &'r [LogitBias],
    /// Where repetitions end, for DRY; `None` is nowhere.
    pub breakers: Option<&'r Breakers<'r>>,
    /// Whether to go on past tokens that end a turn.
    pub ignore_end: bool,
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SubmitError {
    /// The prompt has no tokens.
    EmptyPrompt,
    /// The prompt leaves no room for output.
    PromptTooLong {
        /// Its tokens.
        tokens: usize,
        /// Tokens that a sequence can hold.
        context: u32,
    },
    /// A prompt token is not in the vocabulary.
    Token {
        /// The token.
        token: TokenId,
        /// Tokens in the vocabulary.
        vocabulary: u32,
    },
    /// The request needs more KV pages than there are.
    NeverFits {
        /// Pages for prompt and output.
        needed: u32,
        /// Pages in all.
        total: u32,
    },
    /// The engine was made without room for readings.
    NoReadings,
    /// No place among the sequences and those waiting; try again when a request has finished.
    Busy,
    /// The sampler's parameters are wrong.
    Sampler(SamplerError),
    /// The heap refused.
    Memory(OutOfMemory),
}

impl From<OutOfMemory> for SubmitError {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyPrompt => write!(f, "the prompt is empty"),
            Self::PromptTooLong { tokens, context } => {
                write!(f, "the prompt has {tokens} tokens and the context holds {context}, output included")
            }
            Self::Token { token, vocabulary } => {
                write!(f, "prompt token {token} is not in the vocabulary of {vocabulary}")
            }
            Self::NeverFits { needed, total } => {
                write!(
                    f,
                    "prompt and output need {needed} KV pages and there are {total}; ask for fewer tokens"
                )
            }
            Self::NoReadings => write!(f, "no room was set aside for texts that are read and not continued"),
            Self::Busy => write!(f, "as many requests as can wait are waiting; try again later"),
            Self::Sampler(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SubmitError {}

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
