//! Counting the requests in progress: a request counts until its answer has been written.

use crate::app::App;
use crate::error::{Failure, FailureKind};
use alloc::sync::Arc;
use axum::body::{Body, Bytes};
use axum::response::Response;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use http_body::{Frame, SizeHint};

/// One request in progress; it stops counting when this is dropped.
pub(crate) struct InFlight(Arc<App>);

impl InFlight {
    /// Refuses a request if no further one may begin now.
    pub(crate) fn check(app: &App) -> Result<(), Failure> {
        let count = app.in_flight.load(Ordering::Relaxed);
        if count < app.settings.concurrency { Ok(()) } else { Err(too_many()) }
    }

    /// Counts a request, or refuses it.
    pub(crate) fn begin(app: &Arc<App>) -> Result<Self, Failure> {
        let guard = Self(Arc::clone(app));
        let before = app.in_flight.fetch_add(1, Ordering::Relaxed);
        if before < app.settings.concurrency { Ok(guard) } else { Err(too_many()) }
    }

    /// Attaches the guard to a response, so that the request counts until the body has been written.
    pub(crate) fn attach(self, response: Response) -> Response {
        response.map(|body| Body::new(CountedBody { body, _guard: self }))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

fn too_many() -> Failure {
    Failure::new(FailureKind::Busy, "too many requests are in progress; try again later")
}

/// A body whose request counts until it is dropped.
struct CountedBody {
    body: Body,
    _guard: InFlight,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
