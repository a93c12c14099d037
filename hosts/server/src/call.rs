//! A request that was let in, as handlers see it.

use crate::app::App;
use crate::error::{Failure, Kind};
use alloc::sync::Arc;
use axum::body::Bytes;
use core::hash::BuildHasher as _;
use core::sync::atomic::{AtomicU64, Ordering};
use serde_json::Value;

/// A request that was let in.
pub(crate) struct Call {
    pub(crate) app: Arc<App>,
    /// What stands in the path's place for a name.
    pub(crate) name: Option<String>,
    pub(crate) body: Bytes,
}

impl Call {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Result<Value, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::new(Kind::Invalid, format_args!("the body is not JSON: {error}")))
    }
}

/// A name that nothing else has: a number that grows, behind one that differs from run to run.
pub(crate) fn id(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{:016x}{number:08x}", std::hash::RandomState::new().hash_one(number))
}
