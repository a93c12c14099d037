//! Reading the body of a request, with limits: its size, the time it takes, and the bytes of all bodies together.

use crate::app::App;
use crate::error::{Failure, FailureKind, quoted};
use alloc::sync::Arc;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header;
use bytes::BytesMut;
use core::future::poll_fn;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::time::Duration;
use http_body::Body as _;

/// Time in which a body must arrive.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Copies of a body's texts that a request has at most at the same time: the body, its values, the conversation, and the
/// rendered prompt.
const COPIES: usize = 4;

/// Bytes that one request may hold, for each byte of the largest body: the copies, and lists and objects.
const REQUEST: usize = 8;

/// Bytes that any request may hold: more than lists nested as deep as the parser allows.
const LEAST: usize = 64 << 10;

/// Bytes that all requests may hold together, for each byte of the largest body: four of them.
const ALL: usize = 4 * COPIES;

/// The share of a request in the memory for all requests; given back when this is dropped.
#[derive(Default)]
pub(crate) struct HeldBytes {
    app: Option<Arc<App>>,
    bytes: usize,
}

impl HeldBytes {
    /// Takes a further share before the memory is used.
    ///
    /// # Errors
    /// The request takes too much, or all do.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        let Some(app) = &self.app else { return Ok(()) };
        let limit = app.settings.body_limit;
        let before = app.body_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > limit.saturating_mul(REQUEST).max(LEAST) {
            let message = "the lists and objects of the body take too much memory; send fewer of them";
            return Err(Failure::new(FailureKind::TooLarge, message));
        }
        if before.saturating_add(bytes) > limit.saturating_mul(ALL) {
            let message = "too many large requests are in progress; try again later";
            return Err(Failure::new(FailureKind::Busy, message));
        }
        Ok(())
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        if let Some(app) = &self.app {
            app.body_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// Reads the body of a request.
pub(crate) async fn read(app: &Arc<App>, request: Request) -> Result<(Bytes, HeldBytes), Failure> {
    let limit = app.settings.body_limit;
    if request.body().size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let coding = request.headers().get(header::CONTENT_ENCODING);
    if let Some(coding) = coding.filter(|coding| *coding != "identity") {
        let coding = quoted(&String::from_utf8_lossy(coding.as_bytes()));
        let message =
            format_args!("bodies in Content-Encoding {coding} are not read; send the JSON as it is");
        return Err(Failure::new(FailureKind::MediaType, message));
    }
    let read = tokio::time::timeout(TIMEOUT, read_all(app, request.into_body())).await;
    read.map_err(|_| Failure::new(FailureKind::Timeout, "the body did not come in time"))?
}

fn too_large(limit: usize) -> Failure {
    Failure::new(FailureKind::TooLarge, format_args!("the body is larger than {limit} bytes"))
}

async fn read_all(app: &Arc<App>, mut body: Body) -> Result<(Bytes, HeldBytes), Failure> {
    let limit = app.settings.body_limit;
    let (mut bytes, mut held) = (BytesMut::new(), HeldBytes { app: Some(Arc::clone(app)), bytes: 0 });
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| {
            Failure::new(FailureKind::Invalid, format_args!("the body can't be read: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > limit - bytes.len() {
            return Err(too_large(limit));
        }
        held.hold(data.len() * COPIES)?;
        bytes.extend_from_slice(&data);
    }
    Ok((bytes.freeze(), held))
}
