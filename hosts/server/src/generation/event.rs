//! Events of a generation, as handlers get them.

use super::outcome::Outcome;
use crate::error::Failure;
use doorbell_runtime::answer::Delta;
use doorbell_runtime::serve::TokenReport;
use std::time::Instant;

/// An event of one answer.
#[derive(Debug)]
pub(crate) enum Event {
    /// A part of the prompt has been computed, or was found in the cache.
    Prompt(PromptProgress),
    /// More of the answer: parsed, as text before parsing, and as tokens.
    Output { deltas: Vec<Delta>, text: String, tokens: Vec<TokenReport> },
    /// The answer is over.
    Finished(Outcome),
    /// The answer failed.
    Failed(Failure),
}

/// Progress of the prompt of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PromptProgress {
    /// Tokens that were found in the cache.
    pub(crate) cached: u32,
    /// Tokens that are done, cached or computed.
    pub(crate) done: u32,
    pub(crate) total: u32,
    /// Start of the prompt's computation.
    pub(super) started: Instant,
    /// Time of this progress.
    pub(super) updated: Instant,
}

impl PromptProgress {
    /// Time since the start of the prompt's computation, ms.
    pub(crate) fn milliseconds(&self) -> u64 {
        self.updated.duration_since(self.started).as_millis() as u64
    }
}
