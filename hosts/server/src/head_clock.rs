//! The time that a client has for the head of a request, from its first byte on: a client that never ends it must not
//! keep its place and memory as long as an idle one.

use alloc::sync::Arc;
use axum::body::Body;
use axum::body::Bytes;
use axum::response::Response;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll};
use http_body::{Frame, SizeHint};

/// Tells a connection's socket whether a request is being answered: bytes that come meanwhile belong to its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeadClock(Arc<AtomicBool>);

/// A request that is being answered, until this is dropped.
pub(crate) struct Answering(HeadClock);

impl HeadClock {
    /// A head is complete.
    pub(crate) fn begin(&self) -> Answering {
        self.0.store(true, Ordering::Relaxed);
        Answering(self.clone())
    }

    /// True while a request is being answered.
    pub(crate) fn is_answering(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Answering {
    /// Attaches this to a response, until its body has been written.
    pub(crate) fn attach(self, response: Response) -> Response {
        response.map(|body| Body::new(AnsweredBody { body, _answering: self }))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Relaxed);
    }
}

/// A body whose request is being answered until it is dropped.
struct AnsweredBody {
    body: Body,
    _answering: Answering,
}

impl http_body::Body for AnsweredBody {
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
