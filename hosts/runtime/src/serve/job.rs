//! One job for the engine, and what its owner hears of it.

use crate::constrain::{Budget, Constraint};
use alloc::sync::Arc;
use core::fmt;
use doorbell_core::engine::{self, SubmitError, Usage};
use doorbell_core::sample::{DryBreakers, LogProbs, LogitBias, SampleError};
use doorbell_core::token::TokenId;

/// The parameters of a generation with lists of its own; DRY breakers are shared by jobs that have the same.
pub type GenerationParams = engine::GenerationParams<Vec<LogitBias>, Arc<DryBreakers<'static>>>;

/// What is to be generated, and who hears of it.
pub struct Job {
    /// The prompt; at least one token.
    pub prompt: Vec<TokenId>,
    /// How to continue it.
    pub params: GenerationParams,
    /// Texts that end the answer and do not show; empty ones are ignored.
    pub stops: Vec<String>,
    /// Whether control tokens show as their texts.
    pub special: bool,
    /// What the answer must look like, if anything.
    pub constraint: Option<Constraint>,
    /// How long reasoning may go on, if not for ever.
    pub budget: Option<Budget>,
    /// The slot that it wants to be noted in.
    pub slot: Option<u32>,
    /// Hears every update, in order; called on the engine's thread, so that it must not block.
    pub on_update: Box<dyn FnMut(Update) + Send>,
}

/// Something that happened to a job.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Update {
    /// It was taken, and waits or runs.
    Accepted,
    /// It was not taken; the last update.
    Refused(SubmitError),
    /// Part of the prompt has been computed.
    Prefill {
        /// Prompt tokens computed so far.
        done: u32,
        /// Prompt tokens in all.
        total: u32,
    },
    /// Tokens came.
    Piece(Piece),
    /// It is over; the last update.
    Finished(Finish),
}

/// What one or more tokens added to an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// Text that may be shown now: whole characters, and nothing that may become a stop text.
    pub text: String,
    /// The tokens that came.
    pub tokens: Vec<TokenReport>,
}

/// One generated token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenReport {
    /// The token.
    pub token: TokenId,
    /// Its log-probability, and the likeliest tokens with theirs, if the job asked for them.
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
