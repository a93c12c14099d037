//! An authorized request as handlers get it.

use crate::app::App;
use crate::body_limit::HeldBytes;
use crate::clients::ClientId;
use crate::document_cost;
use crate::error::{Failure, FailureKind};
use crate::fields::Fields;
use crate::surrogates;
use crate::work_pool::MEDIUM;
use alloc::sync::Arc;
use axum::body::Bytes;
use axum::http::HeaderValue;
use core::ops::Deref;
use serde_json::Value;
use std::sync::Mutex;

/// An authorized request.
pub(crate) struct RequestContext {
    pub(crate) app: Arc<App>,
    /// The variable part of the path, if the route has one.
    pub(crate) name: Option<String>,
    /// The query without its question mark.
    pub(crate) query: String,
    /// Value of the `Accept` header.
    pub(crate) accept: Option<HeaderValue>,
    /// The client, as far as clients are told apart.
    pub(crate) client: ClientId,
    body: Mutex<(Bytes, HeldBytes)>,
    /// Size of the body, bytes.
    size: usize,
}

/// The body of a request, parsed. Its share of the memory for requests is given back with the last copy.
#[derive(Clone)]
pub(crate) struct Document {
    /// `None` while it is dropped.
    parsed: Option<Arc<(Value, HeldBytes)>>,
    size: usize,
}

impl Deref for Document {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.parsed.as_ref().map_or(&Value::Null, |parsed| &parsed.0)
    }
}

impl Drop for Document {
    fn drop(&mut self) {
        let last = self.parsed.take().and_then(Arc::into_inner);
        // giving back many small pieces of memory takes milliseconds
        if let (Some(parsed), true, Ok(runtime)) =
            (last, self.size >= MEDIUM, tokio::runtime::Handle::try_current())
        {
            drop(runtime.spawn_blocking(move || drop(parsed)));
        }
    }
}

impl RequestContext {
    pub(crate) fn new(
        app: Arc<App>,
        client: ClientId,
        (name, query): (Option<String>, String),
        accept: Option<HeaderValue>,
        body: (Bytes, HeldBytes),
    ) -> Self {
        let size = body.0.len();
        Self { app, name, query, accept, client, body: Mutex::new(body), size }
    }

    /// A parameter of the query, without percent-decoding.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find_map(|(key, value)| (key == name).then_some(value))
    }

    /// The body as JSON; to be called once. A byte order mark before it, which some editors write, is skipped, and
    /// surrogates without a partner are U+FFFD.
    ///
    /// # Errors
    /// It is not JSON, or would take more memory than one request, or all together, may have.
    pub(crate) async fn json(&self) -> Result<Document, Failure> {
        let taken = self.body.lock().map(|mut body| core::mem::take(&mut *body));
        let (body, mut held) = taken.unwrap_or_default();
        let size = self.size;
        let parse = move || {
            let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&body);
            held.hold(document_cost::structure(text))?;
            let text = surrogates::replace_lone(text);
            let value = serde_json::from_slice(&text).map_err(|error| {
                Failure::new(FailureKind::Invalid, format_args!("the body is not JSON: {error}"))
            })?;
            Ok(Document { parsed: Some(Arc::new((value, held))), size })
        };
        self.work(parse).await
    }

    /// Runs work on a thread that serves no sockets.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.app.work.run(self.size, act).await
    }

    /// Runs `read` on the fields of the body, as [`RequestContext::work`].
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        body: &Document,
        read: impl FnOnce(&App, &Fields<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (app, body) = (Arc::clone(&self.app), body.clone());
        self.work(move || read(&app, &Fields::of_request(&body)?)).await
    }

    /// Size of the body, bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}
