//! The log of a request with `--verbose`: a line when its answer has been written or its client has left. Lines of the
//! answers before it stand in the same span, which names the request.

use crate::error::{LOGGED, cut};
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header;
use axum::response::Response;
use core::pin::Pin;
use core::task::{Context, Poll};
use http_body::{Frame, SizeHint};
use std::time::Instant;
use tracing::Span;

/// Bytes of a client's name in the log.
const NAME_BYTES: usize = 60;

/// A request that is logged when it ends.
pub(crate) struct RequestLog {
    span: Span,
    start: Instant,
}

impl RequestLog {
    pub(crate) fn begin(request: &Request) -> Self {
        let client = request.headers().get(header::USER_AGENT).and_then(|name| name.to_str().ok());
        let client = client.unwrap_or_default();
        let client = &client[..client.floor_char_boundary(NAME_BYTES)];
        let (method, path) = (request.method(), cut(request.uri().path(), LOGGED));
        Self { span: tracing::debug_span!("request", %method, %path, client), start: Instant::now() }
    }

    /// The span of the request.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Attaches the log to a response, whose end it reports.
    pub(crate) fn attach(self, response: Response) -> Response {
        if self.span.is_disabled() {
            return response;
        }
        let status = response.status().as_u16();
        response.map(|body| Body::new(LoggedBody { body: Some(body), ended: false, status, log: self }))
    }
}

/// A body that is logged when it is dropped.
struct LoggedBody {
    /// `None` only while this is dropped.
    body: Option<Body>,
    /// True if all frames were taken.
    ended: bool,
    status: u16,
    log: RequestLog,
}

impl http_body::Body for LoggedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let polled = this.log.span.in_scope(|| Pin::new(body).poll_frame(context));
        this.ended |= matches!(polled, Poll::Ready(None));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, http_body::Body::size_hint)
    }
}

impl Drop for LoggedBody {
    fn drop(&mut self) {
        let whole = self.ended || http_body::Body::is_end_stream(self);
        let body = self.body.take();
        let (status, milliseconds) = (self.status, self.log.start.elapsed().as_millis());
        self.log.span.in_scope(|| {
            // an answer that is still generated is cancelled, and logged, by this
            drop(body);
            if whole {
                tracing::debug!(status, milliseconds, "answered");
            } else {
                tracing::debug!(status, milliseconds, "the client left");
            }
        });
    }
}
