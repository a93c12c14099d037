//! Pooling requests: texts that are computed but not continued, on their way to the engine and back.

use crate::app::App;
use crate::error::{Failure, FailureKind};
use doorbell_core::token::TokenId;
use doorbell_runtime::serve::{PoolingError, PoolingJob, PoolingResult, PoolingTask};
use tokio::sync::oneshot;

/// Computes a text. Dropping the future cancels it.
pub(crate) async fn pool(
    app: &App,
    tokens: Vec<TokenId>,
    task: PoolingTask,
) -> Result<PoolingResult, Failure> {
    let count = tokens.len();
    let (sender, receiver) = oneshot::channel();
    // if the receiver is gone, so is the handle
    let job = PoolingJob { tokens, task, on_end: Box::new(move |result| _ = sender.send(result)) };
    let _handle = app.model.service.pool(job)?;
    match receiver.await {
        Ok(Ok(result)) => {
            app.metrics.pooled(count);
            Ok(result)
        }
        Ok(Err(PoolingError::Refused(error))) => {
            let failure = Failure::from(error);
            app.metrics.refused(&failure);
            Err(failure)
        }
        Ok(Err(error @ PoolingError::DeviceFailed)) => Err(Failure::new(FailureKind::Unavailable, error)),
        _ => Err(Failure::shutting_down()),
    }
}
