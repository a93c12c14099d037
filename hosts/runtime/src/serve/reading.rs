//! Texts that are read and not continued: their meaning as a vector, or how likely each token was.

use super::job::TokenReport;
use core::fmt;
use doorbell_core::engine::{FinishReason, PoolingOutput, SubmitError};
use doorbell_core::sample::log_probs;
use doorbell_core::token::TokenId;

/// A text to be read, and who hears what came of it.
pub struct ReadJob {
    /// The text; at least one token.
    pub tokens: Vec<TokenId>,
    /// What is wanted.
    pub aim: Aim,
    /// Hears the end; called on the engine's thread, so that it must not block.
    pub on_end: Box<dyn FnOnce(Result<ReadResult, ReadError>) + Send>,
}

/// What is wanted of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// The mean of the hidden states, of length 1.
    Embedding,
    /// How likely each token but the first was, and so many of the likeliest in its place.
    LogProbs(u8),
}

/// What came of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadResult {
    /// `[width]`
    Embedding(Vec<f32>),
    /// One for each token; the first has no log-probability.
    LogProbs(Vec<TokenReport>),
}

/// Why a text could not be read.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ReadError {
    /// The engine didn't take it.
    Refused(SubmitError),
    /// The service ends, or nobody waits any more.
    Cancelled,
    /// The device failed.
    DeviceFailed,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Cancelled => f.write_str("the request was cancelled"),
            Self::DeviceFailed => f.write_str("the device failed; try again"),
        }
    }
}

impl core::error::Error for ReadError {}

/// A text under way.
pub(super) struct Reader {
    job: ReadJob,
    sum: Vec<f64>,
    reports: Vec<TokenReport>,
}

impl Reader {
    pub(super) fn new(job: ReadJob) -> Self {
        Self { job, sum: Vec::new(), reports: Vec::new() }
    }

    pub(super) fn tokens(&self) -> &[TokenId] {
        &self.job.tokens
    }

    pub(super) fn output(&self) -> PoolingOutput {
        match self.job.aim {
            Aim::Embedding => PoolingOutput::Hidden,
            Aim::LogProbs(_) => PoolingOutput::Logits,
        }
    }

    /// Takes what the engine tells of one token.
    pub(super) fn take(&mut self, position: u32, row: &[f32]) {
        match self.job.aim {
            Aim::Embedding => {
                self.sum.resize(row.len(), 0.0);
                self.sum.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
            }
            Aim::LogProbs(count) => {
                // the scores behind one token are about the next
                let Some(&token) = self.job.tokens.get(position as usize + 1) else { return };
                let log_probs = log_probs(row, token, count.into());
                self.reports.push(TokenReport::new(token, Some(&log_probs)));
            }
        }
    }

    /// Tells what came of it.
    pub(super) fn end(mut self, reason: &FinishReason) {
        let result = match reason {
            FinishReason::Pooled => Ok(self.result()),
            FinishReason::DeviceFailed => Err(ReadError::DeviceFailed),
            _ => Err(ReadError::Cancelled),
        };
        (self.job.on_end)(result);
    }

    pub(super) fn refuse(self, error: ReadError) {
        (self.job.on_end)(Err(error));
    }

    fn result(&mut self) -> ReadResult {
        match self.job.aim {
            Aim::Embedding => {
                let length = self.sum.iter().map(|x| x * x).sum::<f64>().sqrt();
                let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
                ReadResult::Embedding(self.sum.iter().map(|x| (x * scale) as f32).collect())
            }
            Aim::LogProbs(_) => {
                let first = self.job.tokens.first().map(|&token| TokenReport::new(token, None));
                let rest = core::mem::take(&mut self.reports);
                ReadResult::LogProbs(first.into_iter().chain(rest).collect())
            }
        }
    }
}
