//! The end of an answer, and sums over the answers of a request.
//!
//! Not here: the words that each API has for the end; every API maps [`Outcome`] once.

use super::timings::Timings;
use doorbell_core::engine::{FinishReason, Usage};
use doorbell_runtime::timings::RequestTimings;

/// The end of an answer that did not fail.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Reason of the engine.
    pub(crate) reason: FinishReason,
    /// The stop text that ended the answer.
    pub(crate) stop_text: Option<String>,
    /// True if the answer calls tools.
    pub(crate) called_tools: bool,
    pub(crate) usage: Usage,
    /// Tokens between the marks of reasoning.
    pub(crate) reasoning_tokens: u32,
}

impl Outcome {
    /// True if a limit of tokens ended the answer.
    pub(crate) fn hit_limit(&self) -> bool {
        matches!(self.reason, FinishReason::MaxTokens | FinishReason::ContextFull)
    }

    /// True if the context was full before the answer ended.
    pub(crate) fn truncated(&self) -> bool {
        self.reason == FinishReason::ContextFull
    }

    pub(crate) fn timings(&self) -> Timings {
        Timings {
            cached: self.usage.cached_tokens,
            generated: self.usage.generated_tokens,
            times: RequestTimings::new(&self.usage),
        }
    }
}

/// Token counts of all answers to one prompt, or of several prompts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UsageTotal {
    pub(crate) prompt: u32,
    pub(crate) cached: u32,
    pub(crate) generated: u32,
    pub(crate) reasoning: u32,
}

impl UsageTotal {
    /// Adds an answer to the same prompt.
    pub(crate) fn add_answer(&mut self, outcome: &Outcome) {
        // a prompt that one answer computes is found in the cache by the others
        let least = if self.prompt == 0 { u32::MAX } else { self.cached };
        self.cached = least.min(outcome.usage.cached_tokens);
        self.prompt = outcome.usage.prompt_tokens;
        self.generated = self.generated.saturating_add(outcome.usage.generated_tokens);
        self.reasoning = self.reasoning.saturating_add(outcome.reasoning_tokens);
    }

    /// Adds the answers to another prompt.
    pub(crate) fn add_prompt(&mut self, other: &Self) {
        self.prompt = self.prompt.saturating_add(other.prompt);
        self.cached = self.cached.saturating_add(other.cached);
        self.generated = self.generated.saturating_add(other.generated);
    }
}
