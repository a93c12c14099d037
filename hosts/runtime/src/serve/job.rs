//! A generation job for the engine, and the updates that its owner receives.
//!
//! Not here: pooling jobs (`pooling`).

use super::stop_texts::StopTexts;
use crate::constrain::{Constraint, ReasoningBudget};
use alloc::sync::Arc;
use core::fmt;
use doorbell_core::engine::{self, FinishReason, SubmitError, Usage};
use doorbell_core::sample::{DryBreakers, LogProbs, LogitBias};
use doorbell_core::token::TokenId;

/// Parameters of a generation. Logit biases and DRY breakers are shared by jobs with the same ones.
pub type GenerationParams = engine::GenerationParams<Arc<[LogitBias]>, Arc<DryBreakers<'static>>>;

/// A request to generate, and the receiver of its updates.
pub struct Job {
    /// The prompt; at least one token.
    pub prompt: Arc<[TokenId]>,
    /// Parameters of the generation.
    pub params: GenerationParams,
    /// Stop texts: each ends the answer and is not part of it.
    pub stops: Arc<StopTexts>,
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

/// The end of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// The reason.
    pub reason: FinishReason,
    /// The stop text that ended the job, for [`FinishReason::StopString`].
    pub stop_text: Option<String>,
    /// The grammar's error, for [`FinishReason::GrammarFailed`].
    pub grammar_error: Option<String>,
    /// Counts and times.
    pub usage: Usage,
}

impl Finish {
    /// The end of a job that was cancelled before it started.
    pub(super) fn cancelled() -> Self {
        Self {
            reason: FinishReason::Cancelled,
            stop_text: None,
            grammar_error: None,
            usage: Usage::default(),
        }
    }
}

impl fmt::Display for Finish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)?;
        self.grammar_error.as_ref().map_or(Ok(()), |error| write!(f, ": {error}"))
    }
}
