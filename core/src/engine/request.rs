//! Requests to an engine, for generated text and for pooled text, and the reasons for which they are refused.

use crate::heap::OutOfMemory;
use crate::sample::{DryBreakers, LogitBias, SamplerError, SamplerParams};
use crate::scheduler::RequestId;
use crate::token::TokenId;
use core::borrow::Borrow;
use core::fmt;

/// Everything a generation consists of besides its prompt and its id.
///
/// `L` holds the logit biases and `D` the DRY breakers. The defaults borrow both; a host that queues requests can own
/// them: `GenerationParams<std::vec::Vec<LogitBias>, Arc<DryBreakers<'static>>>`. [`Self::borrowed`] makes what a
/// [`Request`] holds.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerationParams<L = &'static [LogitBias], D = &'static DryBreakers<'static>> {
    /// Most tokens to generate. Default `u32::MAX`: as many as the context holds.
    pub max_tokens: u32,
    /// Parameters of sampling.
    pub sampler: SamplerParams,
    /// Added to logits. Default none.
    pub bias: L,
    /// Token sequences that end a repetition, for DRY. Default none.
    pub dry_breakers: Option<D>,
    /// True to generate past tokens that end a turn. Default `false`.
    pub ignore_end: bool,
    /// True to compute the whole prompt, even if the cache holds a prefix of it. Default `false`.
    pub skip_prefix_cache: bool,
}

impl<L: Default, D> Default for GenerationParams<L, D> {
    fn default() -> Self {
        Self {
            max_tokens: u32::MAX,
            sampler: SamplerParams::default(),
            bias: L::default(),
            dry_breakers: None,
            ignore_end: false,
            skip_prefix_cache: false,
        }
    }
}

impl<L, D> GenerationParams<L, D> {
    /// The same parameters with borrowed lists.
    pub fn borrowed<'b, 'h: 'b>(&'b self) -> GenerationParams<&'b [LogitBias], &'b DryBreakers<'b>>
    where
        L: Borrow<[LogitBias]>,
        D: Borrow<DryBreakers<'h>>,
    {
        GenerationParams {
            max_tokens: self.max_tokens,
            sampler: self.sampler.clone(),
            bias: self.bias.borrow(),
            dry_breakers: self.dry_breakers.as_ref().map(D::borrow),
            ignore_end: self.ignore_end,
            skip_prefix_cache: self.skip_prefix_cache,
        }
    }
}

/// A request for generated text.
#[derive(Clone, Debug)]
pub struct Request<'r> {
    /// Its id.
    pub id: RequestId,
    /// The prompt; at least one token.
    pub prompt: &'r [TokenId],
    /// Parameters of the generation.
    pub params: GenerationParams<&'r [LogitBias], &'r DryBreakers<'r>>,
}

/// The output of a pooling request, for every token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PoolingOutput {
    /// The hidden state after the last norm, `[width]`.
    Hidden,
    /// The logits of the next token, `[vocab]`.
    Logits,
}

/// A text that is computed and not continued, as for embeddings and scores.
#[derive(Clone, Copy, Debug)]
pub struct PoolingRequest<'r> {
    /// Its id, unique among live requests of both kinds.
    pub id: RequestId,
    /// The text; at least one token.
    pub tokens: &'r [TokenId],
    /// The output for every token.
    pub output: PoolingOutput,
}

/// The reason for which a request was refused.
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
    /// The engine was made without pooling rows.
    PoolingDisabled,
    /// The waiting queue is full; try again when a request has finished.
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
            Self::PoolingDisabled => write!(f, "pooling is switched off: no rows are reserved for it"),
            Self::Busy => write!(f, "as many requests as can wait are waiting; try again later"),
            Self::Sampler(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SubmitError {}
