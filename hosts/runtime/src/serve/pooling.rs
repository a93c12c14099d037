//! Pooling jobs: texts that are computed without generating, for an embedding or for the log-probabilities of their tokens.

use super::job::TokenReport;
use core::fmt;
use doorbell_core::engine::{FinishReason, PoolingOutput, SubmitError};
use doorbell_core::sample::log_probs;
use doorbell_core::token::TokenId;

/// A text to compute, and the receiver of the result.
pub struct PoolingJob {
    /// The text; at least one token.
    pub tokens: Vec<TokenId>,
    /// The requested result.
    pub task: PoolingTask,
    /// Receives the result. It is called on the engine's thread and must not block.
    pub on_end: Box<dyn FnOnce(Result<PoolingResult, PoolingError>) + Send>,
}

/// The result that a pooling job asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolingTask {
    /// The mean of the hidden states, normalized to length 1.
    Embedding,
    /// The log-probability of each token but the first, and of this number of most likely tokens at its position.
    LogProbs(u8),
}

/// The result of a pooling job.
#[derive(Clone, Debug, PartialEq)]
pub enum PoolingResult {
    /// `[width]`
    Embedding(Vec<f32>),
    /// One for each token; the first has no log-probability.
    LogProbs(Vec<TokenReport>),
}

/// Reason why a pooling job failed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PoolingError {
    /// The engine has refused it.
    Refused(SubmitError),
    /// The service ends, or the job's handle was dropped.
    Cancelled,
    /// The device failed.
    DeviceFailed,
}

impl fmt::Display for PoolingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Cancelled => f.write_str("the request was cancelled"),
            Self::DeviceFailed => f.write_str("the device failed; try again"),
        }
    }
}

impl core::error::Error for PoolingError {}

/// A pooling job in the engine.
pub(super) struct PoolingRun {
    job: PoolingJob,
    sum: Vec<f64>,
    reports: Vec<TokenReport>,
}

impl PoolingRun {
    pub(super) fn new(job: PoolingJob) -> Self {
        Self { job, sum: Vec::new(), reports: Vec::new() }
    }

    pub(super) fn tokens(&self) -> &[TokenId] {
        &self.job.tokens
    }

    pub(super) fn output(&self) -> PoolingOutput {
        match self.job.task {
            PoolingTask::Embedding => PoolingOutput::Hidden,
            PoolingTask::LogProbs(_) => PoolingOutput::Logits,
        }
    }

    /// Takes the row of one token: `[width]` hidden state or `[vocabulary]` logits.
    pub(super) fn take(&mut self, position: u32, row: &[f32]) {
        match self.job.task {
            PoolingTask::Embedding => {
                self.sum.resize(row.len(), 0.0);
                self.sum.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
            }
            PoolingTask::LogProbs(count) => {
                // the logits after one token are those of the next
                let Some(&token) = self.job.tokens.get(position as usize + 1) else { return };
                let log_probs = log_probs(row, token, count.into());
                self.reports.push(TokenReport::new(token, Some(&log_probs)));
            }
        }
    }

    /// Reports the result.
    pub(super) fn end(mut self, reason: &FinishReason) {
        let result = match reason {
            FinishReason::Pooled => Ok(self.result()),
            FinishReason::DeviceFailed => Err(PoolingError::DeviceFailed),
            _ => Err(PoolingError::Cancelled),
        };
        (self.job.on_end)(result);
    }

    pub(super) fn refuse(self, error: PoolingError) {
        (self.job.on_end)(Err(error));
    }

    fn result(&mut self) -> PoolingResult {
        match self.job.task {
            PoolingTask::Embedding => {
                let length = self.sum.iter().map(|x| x * x).sum::<f64>().sqrt();
                let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
                PoolingResult::Embedding(self.sum.iter().map(|x| (x * scale) as f32).collect())
            }
            PoolingTask::LogProbs(_) => {
                let first = self.job.tokens.first().map(|&token| TokenReport::new(token, None));
                let rest = core::mem::take(&mut self.reports);
                PoolingResult::LogProbs(first.into_iter().chain(rest).collect())
            }
        }
    }
}
