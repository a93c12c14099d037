//! An authorized request as handlers get it.

use crate::app::App;
use crate::error::{Failure, FailureKind};
use crate::fields::Fields;
use alloc::sync::Arc;
use axum::body::Bytes;
use axum::http::HeaderValue;
use serde_json::Value;

/// An authorized request.
pub(crate) struct RequestContext {
    pub(crate) app: Arc<App>,
    /// The variable part of the path, if the route has one.
    pub(crate) name: Option<String>,
    /// The query without its question mark.
    pub(crate) query: String,
    pub(crate) body: Bytes,
    /// Value of the `Accept` header.
    pub(crate) accept: Option<HeaderValue>,
}

/// Size of a body, bytes, from which on work on it moves off the threads that serve sockets.
const LARGE: usize = 32 << 10;

impl RequestContext {
    /// A parameter of the query, without percent-decoding.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find_map(|(key, value)| (key == name).then_some(value))
    }

    /// The body as JSON. A byte order mark before it, which some editors write, is skipped.
    pub(crate) async fn json(&self) -> Result<Value, Failure> {
        let body = self.body.clone();
        let parse = move || {
            serde_json::from_slice(body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&body)).map_err(|error| {
                Failure::new(FailureKind::Invalid, format_args!("the body is not JSON: {error}"))
            })
        };
        self.work(parse).await
    }

    /// Runs work that grows with the body: here for a short body, on a blocking thread for a long one.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        if self.body.len() < LARGE {
            return act();
        }
        tokio::task::spawn_blocking(act).await.map_err(|error| Failure::new(FailureKind::Internal, error))?
    }

    /// Runs `read` on the fields of the body, as [`RequestContext::work`].
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        body: &Arc<Value>,
        read: impl FnOnce(&App, &Fields<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (app, body) = (Arc::clone(&self.app), Arc::clone(body));
        self.work(move || read(&app, &Fields::of_request(&body)?)).await
    }
}
