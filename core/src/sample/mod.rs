//! From logits to a token: penalties, truncation, temperature, the draw, and log-probabilities.
//!
//! One step runs in this order, each stage only if its parameter switches it on:
//!
//! 1. logit bias, then the token mask (a grammar's bitset, made elsewhere)
//! 2. penalties (repeat, frequency, presence), then DRY
//! 3. top-n-sigma, top-k, typical, top-p, min-p, XTC
//! 4. temperature, fixed or following the entropy
//! 5. the draw: plain, mirostat or adaptive-p
//!
//! Mirostat replaces stages 2 and 3. Log-probabilities are those of the model's logits,
//! unless a request asks for those of the last stage.
//! Not here: grammars and JSON schemas (hosts make a [`TokenMask`]), stop strings, and the batch.

mod candidates;
mod defaults;
mod draw;
mod dry;
mod dry_breakers;
mod entropy;
mod error;
mod exp;
mod history;
mod logprobs;
mod mask;
mod mt19937;
mod params;
mod penalties;
mod random;
mod sampler;
mod source;
mod truncate;

pub use candidates::{Candidate, Scratch};
pub use dry_breakers::DryBreakers;
pub use error::{SampleError, SamplerError};
pub use logprobs::{LogProbs, TOP_MAX, TokenLogProb, log_prob, log_probs};
pub use mask::TokenMask;
pub use params::{
    AdaptiveParams, DryParams, Generator, LogitBias, MirostatParams, MirostatVersion, ParamError,
    PenaltyParams, SamplerParams, XtcParams,
};
pub use sampler::{Sampled, Sampler, SamplerScope};

#[cfg(test)]
mod tests;
