//! Texts that are read and not continued, on their way to the engine and back.

use crate::app::App;
use crate::error::{Failure, Kind};
use doorbell_core::token::TokenId;
use doorbell_runtime::serve::{PoolingError, PoolingJob, PoolingResult, PoolingTask};
use tokio::sync::oneshot;

/// What comes of a text. Whoever stops waiting cancels it.
pub(crate) async fn pool(
    app: &App,
    tokens: Vec<TokenId>,
    task: PoolingTask,
) -> Result<PoolingResult, Failure> {
    let count = tokens.len();
    let (tell, told) = oneshot::channel();
    // a reader that has gone drops the ticket, too
    let job = PoolingJob { tokens, task, on_end: Box::new(move |result| _ = tell.send(result)) };
    let _handle = app.model.service.pool(job)?;
    match told.await {
        Ok(Ok(result)) => {
            app.metrics.read(count);
            Ok(result)
        }
        Ok(Err(PoolingError::Refused(error))) => {
            app.metrics.refused();
            Err(error.into())
        }
        Ok(Err(error @ PoolingError::DeviceFailed)) => Err(Failure::new(Kind::Unavailable, error)),
        _ => Err(Failure::new(Kind::Unavailable, "the server is shutting down")),
    }
}
