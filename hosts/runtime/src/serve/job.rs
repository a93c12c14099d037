//! A generation job for the engine, and the updates that its owner receives.
//!
//! Not here: pooling jobs (`pooling`).

use crate::constrain::{Constraint, ReasoningBudget};
use alloc::sync::Arc;
use core::fmt;
use doorbell_core::engine::{self, SubmitError, Usage};
use doorbell_core::sample::{DryBreakers, LogProbs, LogitBias, SampleError};
use doorbell_core::token::TokenId;

/// Parameters of a generation that owns its logit biases. DRY breakers are shared by jobs with the same ones.
pub type GenerationParams = engine::GenerationParams<Vec<LogitBias>, Arc<DryBreakers<'static>>>;

/// A request to generate, and the receiver of its updates.
pub struct Job {
    /// The prompt; at least one token.
    pub prompt: Vec<TokenId>,
    /// Parameters of the generation.
    pub params: GenerationParams,
    /// Stop texts: each ends the answer and is not part of it; empty ones are ignored.
    pub stops: Vec<String>,
    /// True if control tokens appear in the text.
    pub special: bool,
    /// Grammar of the answer, if any.
    pub constraint: Option<Constraint>,
    /// Limit of reasoning tokens, if any.
    pub budget: Option<ReasoningBudget>,
    /// The conversation slot that the client asks for.
    pub slot: Option<u32>,
    /// Receives every update, in order. It is called on the engine's thread and must not block.
    pub on_update: Box<dyn FnMut(Update) + Send>,
}

/// An event of a job.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Update {
    /// The engine has accepted it; it waits or runs.
    Accepted,
    /// The engine has refused it; the last update.
    Refused(SubmitError),
    /// Part of the prompt has been computed.
    Prefill {
        /// Prompt tokens computed so far.
        done: u32,
        /// All prompt tokens.
        total: u32,
    },
    /// Tokens were generated.
    Piece(Piece),
    /// It has ended; the last update.
    Finished(Finish),
}

/// An addition to an answer from one or more tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// Text that may be shown now: whole characters, without a possible beginning of a stop text.
    pub text: String,
    /// The tokens.
    pub tokens: Vec<TokenReport>,
}

/// One generated token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenReport {
    /// The token.
    pub token: TokenId,
    /// Its log-probability, and those of the most likely tokens, if the job asked for them.
    pub log_probs: Option<(f32, Vec<(TokenId, f32)>)>,
}

impl TokenReport {
    pub(super) fn new(token: TokenId, log_probs: Option<&LogProbs>) -> Self {
        let pairs = |report: &LogProbs| report.top.iter().map(|top| (top.token, top.log_prob)).collect();
        Self { token, log_probs: log_probs.map(|report| (report.chosen.log_prob, pairs(report))) }
    }
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// Why.
    pub end: End,
    /// Counts and times.
    pub usage: Usage,
}

/// Why a job ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum End {
    /// The model ended its turn.
    Turn,
    /// This stop text came.
    Stop(String),
    /// The limit of tokens.
    MaxTokens,
    /// The context is full.
    ContextFull,
    /// The grammar allows nothing more.
    GrammarComplete,
    /// Nobody listens any more, or the service ends.
    Cancelled,
    /// The device failed.
    DeviceFailed,
    /// No token could be picked.
    Sampling(SampleError),
    /// The grammar failed.
    Grammar(String),
    /// The heap refused.
    Memory,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn => f.write_str("the model ended its turn"),
            Self::Stop(text) => write!(f, "the stop text {text:?} came"),
            Self::MaxTokens => f.write_str("the limit of tokens was reached"),
            Self::ContextFull => f.write_str("the context is full"),
            Self::GrammarComplete => f.write_str("the answer is complete"),
            Self::Cancelled => f.write_str("the request was cancelled"),
            Self::DeviceFailed => f.write_str("the device failed; try again"),
            Self::Sampling(error) => error.fmt(f),
            Self::Grammar(reason) => write!(f, "the grammar failed: {reason}"),
            Self::Memory => f.write_str("out of memory; ask for fewer tokens"),
        }
    }
}
