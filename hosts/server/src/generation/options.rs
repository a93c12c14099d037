//! Options of a generation that a request sets.

use crate::app::App;
use crate::error::Failure;
use crate::fields::Fields;
use alloc::sync::Arc;
use core::hash::BuildHasher as _;
use doorbell_runtime::serve::{GenerationParams, StopTexts};

/// Answers that one request may ask for.
pub(crate) const MAX_ANSWERS: u32 = 64;

/// Bytes of all stop texts of one request: the search for them takes a hundred times as many.
const MAX_STOP_BYTES: usize = 16 << 10;

/// Stop texts of one request.
const MAX_STOPS: usize = 256;

/// Logit biases of one request: the engine has a copy for each answer.
const MAX_BIASES: usize = 16 << 10;

/// The search for the stop texts of a field.
pub(crate) fn stops(fields: &Fields<'_>, field: &str) -> Result<Arc<StopTexts>, Failure> {
    let texts = fields.texts(field)?;
    if texts.len() > MAX_STOPS {
        return Err(fields.wrong(field, format_args!("must be at most {MAX_STOPS} texts")));
    }
    if texts.iter().map(String::len).sum::<usize>() > MAX_STOP_BYTES {
        return Err(fields.wrong(field, format_args!("must have at most {MAX_STOP_BYTES} bytes together")));
    }
    StopTexts::new(texts).map(Arc::new).map_err(|error| fields.wrong(field, error))
}

/// Options of a generation that a request sets.
#[derive(Clone, Debug)]
pub(crate) struct GenerationOptions {
    /// Parameters for the engine; their seed is replaced by that of each answer.
    pub(crate) params: GenerationParams,
    /// `None`: a new one for every prompt.
    pub(crate) seed: Option<u64>,
    /// Texts that end an answer.
    pub(crate) stops: Arc<StopTexts>,
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
        let most = MAX_BIASES.min(app.model.tokenizer.vocab_len());
        if self.params.bias.len() > most {
            return Err(Failure::field("logit_bias", format_args!("must be of at most {most} tokens")));
        }
        Ok(())
    }
}

/// A random seed below 2^53, which JSON readers that only have doubles read exactly.
pub(crate) fn random_seed() -> u64 {
    std::hash::RandomState::new().hash_one(0) >> 11
}
