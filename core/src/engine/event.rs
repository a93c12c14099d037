//! What the engine reports: tokens, progress and ends of requests.

use crate::sample::{LogProbs, SampleError};
use crate::token::TokenId;

/// Names a request; chosen by the caller, who keeps it unique among live requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RequestId(pub u64);

/// A point in time of the caller's clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Nanos(pub u64);

/// Why a request ended.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum FinishReason {
    /// The model ended its turn with this token, which is not reported as output.
    EndOfGeneration(TokenId),
    /// The request's token limit.
    MaxTokens,
    /// The sequence fills its context.
    ContextFull,
    /// The reading has come to its end.
    Read,
    /// The caller cancelled it.
    Cancelled,
    /// The device failed with rows of the request in flight.
    DeviceFailed,
    /// No token could be picked from the logits.
    Sampling(SampleError),
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
    /// How often the request gave its pages to others and started over.
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
    /// Part of the prompt has been computed. The first of a request comes with its place and tells what was found in
    /// the cache.
    Prefill {
        /// Which request.
        request: RequestId,
        /// Prompt tokens computed so far.
        done: u32,
        /// Prompt tokens in all.
        total: u32,
    },
    /// A token was generated.
    Token {
        /// Which request.
        request: RequestId,
        /// The token.
        token: TokenId,
        /// What the request's `logprobs` parameter asked for.
        logprobs: Option<&'e LogProbs>,
    },
    /// A token of a reading was read.
    Read {
        /// Which reading.
        request: RequestId,
        /// Which token, from 0.
        position: u32,
        /// What was wanted of it.
        row: &'e [f32],
    },
    /// The request is over; the last event of it.
    Finished {
        /// Which request.
        request: RequestId,
        /// Why.
        reason: FinishReason,
        /// Counts and times.
        usage: Usage,
    },
}

/// What the caller should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Progress {
    /// No requests: wait for one.
    Idle,
    /// A step is in flight: poll again when the device may be done.
    Waiting,
}
