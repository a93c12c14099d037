//! A request that was let in, as handlers see it.

use crate::app::App;
use crate::error::{Failure, Kind};
use crate::fields::Fields;
use alloc::sync::Arc;
use axum::body::Bytes;
use axum::http::HeaderValue;
use core::hash::BuildHasher as _;
use core::sync::atomic::{AtomicU64, Ordering};
use serde_json::Value;

/// A request that was let in.
pub(crate) struct RequestContext {
    pub(crate) app: Arc<App>,
    /// What stands in the path's place for a name.
    pub(crate) name: Option<String>,
    /// What stands behind the question mark.
    pub(crate) query: String,
    pub(crate) body: Bytes,
    /// The types of answers that are welcome.
    pub(crate) accept: Option<HeaderValue>,
}

/// Bytes of a body from which on reading it is work that must not hold up the threads that serve sockets.
const LARGE: usize = 32 << 10;

impl RequestContext {
    /// A parameter of the query, as it is written there.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find_map(|(key, value)| (key == name).then_some(value))
    }

    /// The body as JSON, behind the mark that some editors put in front of UTF-8.
    pub(crate) async fn json(&self) -> Result<Value, Failure> {
        let body = self.body.clone();
        let parse = move || {
            serde_json::from_slice(body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&body))
                .map_err(|error| Failure::new(Kind::Invalid, format_args!("the body is not JSON: {error}")))
        };
        self.work(parse).await
    }

    /// Does work that grows with the body: here if that is short, else where it holds nobody up.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        if self.body.len() < LARGE {
            return act();
        }
        tokio::task::spawn_blocking(act).await.map_err(|error| Failure::new(Kind::Internal, error))?
    }

    /// As [`RequestContext::work`], with the fields of the body.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        body: &Arc<Value>,
        read: impl FnOnce(&App, &Fields<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (app, body) = (Arc::clone(&self.app), Arc::clone(body));
        self.work(move || read(&app, &Fields::of_request(&body)?)).await
    }
}

/// A name that nothing else has: a number that grows, behind one that differs from run to run.
pub(crate) fn unique_id(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{:016x}{number:08x}", std::hash::RandomState::new().hash_one(number))
}
