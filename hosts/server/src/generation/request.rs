//! A request for generated answers, as handlers fill it.

use super::options::GenerationOptions;
use doorbell_core::token::TokenId;
use doorbell_runtime::answer::AnswerParser;
use doorbell_runtime::constrain::{GrammarSpec, ReasoningBudget};

/// A request for one or more answers to a prompt.
pub(crate) struct GenerationRequest {
    pub(crate) prompt: Vec<TokenId>,
    /// Text of the prompt, where a handler reports it.
    pub(crate) text: String,
    pub(crate) options: GenerationOptions,
    /// Parses the answers; without one they are plain text.
    pub(crate) parser: Option<AnswerParser>,
    /// True if control tokens show as text.
    pub(crate) special: bool,
    /// Grammar of the answers.
    pub(crate) grammar: Option<GrammarSpec>,
    /// Limit of reasoning.
    pub(crate) budget: Option<ReasoningBudget>,
    /// True if an answer ends with its first call.
    pub(crate) one_call: bool,
}

impl GenerationRequest {
    /// A request for plain text, as the model writes it.
    pub(crate) fn plain(
        prompt: Vec<TokenId>,
        options: GenerationOptions,
        grammar: Option<GrammarSpec>,
    ) -> Self {
        Self {
            prompt,
            text: String::new(),
            options,
            parser: None,
            special: false,
            grammar,
            budget: None,
            one_call: false,
        }
    }
}
