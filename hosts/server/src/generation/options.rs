//! Options of a generation that a request sets.

use crate::app::App;
use crate::error::{Failure, FailureKind};
use core::hash::BuildHasher as _;
use doorbell_runtime::serve::GenerationParams;

/// Answers that one request may ask for.
pub(crate) const MAX_ANSWERS: u32 = 64;

/// Stop texts of one request: all are searched for with every token.
const MAX_STOPS: usize = 256;

/// Options of a generation that a request sets.
#[derive(Clone, Debug)]
pub(crate) struct GenerationOptions {
    /// Parameters for the engine; their seed is replaced by that of each answer.
    pub(crate) params: GenerationParams,
    /// `None`: a new one for every prompt.
    pub(crate) seed: Option<u64>,
    /// Texts that end an answer.
    pub(crate) stops: Vec<String>,
    /// Answers to the same prompt.
    pub(crate) answers: u32,
    /// Limit of reasoning, tokens.
    pub(crate) reasoning_budget: Option<u32>,
    /// Slot in which the request is listed; `None`: the engine's service chooses one.
    pub(crate) slot: Option<u32>,
}

impl GenerationOptions {
    /// Refuses lists that would make every token cost more than its computation.
    pub(super) fn check(&self, app: &App) -> Result<(), Failure> {
        if self.stops.len() > MAX_STOPS {
            let message = format_args!("there may be at most {MAX_STOPS} stop texts");
            return Err(Failure::new(FailureKind::Invalid, message));
        }
        if self.params.bias.len() > app.model.tokenizer.vocab_len() {
            return Err(Failure::field("logit_bias", "names more tokens than the vocabulary has"));
        }
        Ok(())
    }
}

/// A random seed below 2^53, which JSON readers that only have doubles read exactly.
pub(crate) fn random_seed() -> u64 {
    std::hash::RandomState::new().hash_one(0) >> 11
}
