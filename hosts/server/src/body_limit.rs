//! Reading the body of a request: so much, so long, and not more of all together than the server has room for.

use crate::app::App;
use crate::error::{Failure, Kind};
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

/// How long the body of a request may take to come.
const TIME: Duration = Duration::from_secs(60);

/// Bodies of the greatest size that are held at a time.
const BODIES: usize = 4;

/// What a body takes of the room for all, until this goes.
#[derive(Default)]
pub(crate) struct Held {
    app: Option<Arc<App>>,
    bytes: usize,
}

impl Held {
    fn more(&mut self, app: &App, bytes: usize) -> Result<(), Failure> {
        let before = app.body_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before.saturating_add(bytes) > app.settings.body_limit.saturating_mul(BODIES) {
            return Err(Failure::new(Kind::Busy, "too many large requests are in progress; try again later"));
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(app) = &self.app {
            app.body_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// The body of a request.
pub(crate) async fn read(app: &Arc<App>, request: Request) -> Result<(Bytes, Held), Failure> {
    let limit = app.settings.body_limit;
    if request.body().size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let coding = request.headers().get(header::CONTENT_ENCODING);
    if let Some(coding) = coding.filter(|coding| *coding != "identity") {
        let message =
            format_args!("bodies in Content-Encoding {coding:?} are not read; send the JSON as it is");
        return Err(Failure::new(Kind::MediaType, message));
    }
    let read = tokio::time::timeout(TIME, whole(app, request.into_body())).await;
    read.map_err(|_| Failure::new(Kind::Late, "the body did not come in time"))?
}

fn too_large(limit: usize) -> Failure {
    Failure::new(Kind::TooLarge, format_args!("the body is larger than {limit} bytes"))
}

async fn whole(app: &Arc<App>, mut body: Body) -> Result<(Bytes, Held), Failure> {
    let limit = app.settings.body_limit;
    let (mut bytes, mut held) = (BytesMut::new(), Held { app: Some(Arc::clone(app)), bytes: 0 });
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame
            .map_err(|error| Failure::new(Kind::Invalid, format_args!("the body can't be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > limit - bytes.len() {
            return Err(too_large(limit));
        }
        held.more(app, data.len())?;
        bytes.extend_from_slice(&data);
    }
    Ok((bytes.freeze(), held))
}
