//! Errors of making a sampler, and of picking a token.

use super::params::ParamError;
use crate::heap::OutOfMemory;
use crate::token::TokenId;
use core::fmt;

/// A sampler that can't be made from a request.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SamplerError {
    /// A parameter is outside its legal range.
    Param(ParamError),
    /// A logit bias names a token that the vocabulary doesn't have.
    BiasToken {
        /// The token of the bias.
        token: TokenId,
        /// Tokens in the vocabulary.
        vocab_len: usize,
    },
    /// A logit bias is NaN or plus infinity; minus infinity (never this token) is legal.
    BiasValue {
        /// The token of the bias.
        token: TokenId,
        /// Its value.
        bias: f32,
    },
    /// The heap refused the buffers.
    Memory(OutOfMemory),
}

impl fmt::Display for SamplerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Param(error) => error.fmt(f),
            Self::BiasToken { token, vocab_len } => {
                write!(
                    f,
                    "logit_bias names token {}; the vocabulary has ids 0 to {}",
                    token.0,
                    vocab_len.saturating_sub(1)
                )
            }
            Self::BiasValue { token, bias } => {
                write!(
                    f,
                    "logit_bias of token {} is {bias}; it must be finite, or minus infinity to ban it",
                    token.0
                )
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SamplerError {}

impl From<ParamError> for SamplerError {
    fn from(error: ParamError) -> Self {
        Self::Param(error)
    }
}

impl From<OutOfMemory> for SamplerError {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

/// A token that could not be picked; it ends this request and affects no other.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SampleError {
    /// The row of logits isn't as long as the vocabulary that the buffers were made for.
    VocabMismatch {
        /// Tokens in the vocabulary.
        expected: usize,
        /// Logits given.
        found: usize,
    },
    /// The model produced NaN or plus infinity.
    NotFinite {
        /// The first such token.
        token: TokenId,
        /// Its logit.
        logit: f32,
    },
    /// The device picks tokens itself, and has met NaN, plus infinity, or nothing but minus infinity.
    Unpicked,
    /// The model gave every token minus infinity.
    AllImpossible,
    /// The mask and the biases together leave no token.
    AllForbidden,
}

impl SampleError {
    /// True if what the model computed is wrong, and not what the request asked for.
    #[must_use]
    pub fn is_of_the_model(&self) -> bool {
        matches!(self, Self::NotFinite { .. } | Self::Unpicked | Self::AllImpossible)
    }
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VocabMismatch { expected, found } => {
                write!(f, "{found} logits for a vocabulary of {expected} tokens")
            }
            Self::NotFinite { token, logit } => {
                write!(
                    f,
                    "the model computed {logit} as the logit of token {}; the file may be damaged",
                    token.0
                )
            }
            Self::Unpicked => f.write_str(
                "the model computed logits of which one is NaN or infinite; the file may be damaged",
            ),
            Self::AllImpossible => {
                f.write_str("the model gave every token minus infinity; the file may be damaged")
            }
            Self::AllForbidden => {
                f.write_str("the grammar and logit_bias together allow no token; relax one of them")
            }
        }
    }
}

impl core::error::Error for SampleError {}
