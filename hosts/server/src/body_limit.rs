//! Reading the body of a request, with limits: its size, the time it takes, and the bytes of all bodies together.

use crate::app::App;
use crate::error::{Failure, FailureKind};
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

/// Bodies of the largest size that may be held at once.
const MAX_BODIES: usize = 4;

/// The share of a body in the bytes of all bodies; given back when this is dropped.
#[derive(Default)]
pub(crate) struct HeldBytes {
    app: Option<Arc<App>>,
    bytes: usize,
}

impl HeldBytes {
    fn grow(&mut self, app: &App, bytes: usize) -> Result<(), Failure> {
        let before = app.body_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before.saturating_add(bytes) > app.settings.body_limit.saturating_mul(MAX_BODIES) {
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
        let message =
            format_args!("bodies in Content-Encoding {coding:?} are not read; send the JSON as it is");
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
        held.grow(app, data.len())?;
        bytes.extend_from_slice(&data);
    }
    Ok((bytes.freeze(), held))
}
