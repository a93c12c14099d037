//! Events that the engine reports: tokens, progress and ends of requests.

use crate::sample::{LogProbs, SampleError};
use crate::scheduler::RequestId;
use crate::token::TokenId;
use core::fmt;

/// A point in time of the caller's clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Nanos(pub u64);

/// The reason for the end of a request. The engine finds most of them, hosts pass the others to
/// [`Engine::finish`](super::Engine::finish). Hosts map all of them to the words of their protocols in one place.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum FinishReason {
    /// The model ended its turn with this token, which is not reported as output.
    EndOfGeneration(TokenId),
    /// The text contains a stop string: its index among those of the request. Found by the host.
    StopString(u32),
    /// The request's token limit is reached.
    MaxTokens,
    /// The sequence fills its context.
    ContextFull,
    /// The grammar allows no further token. Found by the host.
    GrammarComplete,
    /// All tokens of a pooling request are computed.
    Pooled,
    /// The caller cancelled the request.
    Cancelled,
    /// The device failed while rows of the request were in flight.
    DeviceFailed,
    /// No token could be picked from the logits.
    Sampling(SampleError),
    /// The grammar could not be continued. Found by the host.
    GrammarFailed,
    /// The host's memory did not suffice for the text.
    OutOfMemory,
}

impl fmt::Display for FinishReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EndOfGeneration(_) => "the model ended its turn",
            Self::StopString(_) => "a stop text came",
            Self::MaxTokens => "the limit of tokens was reached",
            Self::ContextFull => "the context is full",
            Self::GrammarComplete => "the answer is complete",
            Self::Pooled => "all tokens are computed",
            Self::Cancelled => "the request was cancelled",
            Self::DeviceFailed => "the device failed; try again",
            Self::Sampling(error) => return error.fmt(f),
            Self::GrammarFailed => "the grammar failed",
            Self::OutOfMemory => "out of memory; ask for fewer tokens",
        })
    }
}

/// Counts and times of a finished request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Usage {
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Prompt tokens whose keys and values were found in the cache.
    pub cached_tokens: u32,
    /// Tokens reported.
    pub generated_tokens: u32,
    /// Number of times that the request was preempted and computed again.
    pub preemptions: u32,
    /// When it was submitted.
    pub submitted: Nanos,
    /// When its first batch was formed.
    pub started: Nanos,
    /// When the first token was known.
    pub first_token: Nanos,
    /// When it ended.
    pub finished: Nanos,
}

/// Something that happened to a request.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Event<'e> {
    /// Part of the prompt is computed. The first event of a request comes when it is admitted and counts the tokens that
    /// were in the cache.
    Prefill {
        /// Id of the request.
        request: RequestId,
        /// Prompt tokens computed so far.
        done: u32,
        /// Prompt tokens in all.
        total: u32,
    },
    /// A token was generated.
    Token {
        /// Id of the request.
        request: RequestId,
        /// The token.
        token: TokenId,
        /// Log-probabilities, if the request's `logprobs` parameter asks for them.
        logprobs: Option<&'e LogProbs>,
    },
    /// A token of a pooling request was computed.
    Pooled {
        /// Id of the request.
        request: RequestId,
        /// Index of the token in the text, from 0.
        position: u32,
        /// The output that the request asks for: `[width]` or `[vocab]`.
        row: &'e [f32],
    },
    /// The request is over; the last event of it.
    Finished {
        /// Id of the request.
        request: RequestId,
        /// The reason.
        reason: FinishReason,
        /// Counts and times.
        usage: Usage,
    },
}

/// The next thing for the caller to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Progress {
    /// No requests: wait for one.
    Idle,
    /// A step is in flight: poll again when the device may be done.
    Waiting,
}
