//! Bodies of answers: one document, or a stream that is written while it comes into being.
//!
//! Whoever writes a stream runs as a part of its body, on the task of the connection: a token wakes one task, what has
//! come meanwhile goes out together, a reader who is slow slows the writer, and one who goes takes him along.

use crate::keep_alive::Streams;
use alloc::sync::Arc;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::{BufMut as _, BytesMut};
use core::convert::Infallible;
use core::fmt::Write as _;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use http_body::Frame;
use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// What has been written and not sent yet.
pub(crate) struct Pending {
    bytes: BytesMut,
    /// Whether nothing was sent since the last tick.
    silent: bool,
    /// Wakes whoever sends.
    sender: Waker,
}

impl Pending {
    /// Half the time has passed that a stream may be silent.
    pub(crate) fn tick(&mut self) {
        // what waits for a slow reader is a word, too
        if core::mem::replace(&mut self.silent, true) && self.bytes.is_empty() {
            self.bytes.put_slice(b": keep-alive\n\n");
            self.sender.wake_by_ref();
        }
    }
}

/// Bytes of a stream's buffer: room for a few tokens' events. What has been sent makes room again.
const ROOM: usize = 2048;

/// One JSON document.
pub(crate) fn json(status: StatusCode, document: &Value) -> Response {
    with_type(status, "application/json", document.to_string())
}

/// A body of this type.
pub(crate) fn with_type(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// How the pieces of a stream are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// A JSON document a line.
    Lines,
}

impl Framing {
    fn content_type(self) -> &'static str {
        match self {
            Self::Events => "text/event-stream",
            Self::Lines => "application/x-ndjson",
        }
    }
}

/// Where a stream is written.
pub(crate) struct Writer {
    pending: Arc<Mutex<Pending>>,
    framing: Framing,
}

impl Writer {
    /// An event of data alone, or a line.
    pub(crate) fn data(&self, document: &Value) {
        match self.framing {
            Framing::Events => self.put(format_args!("data: {document}\n\n")),
            Framing::Lines => self.put(format_args!("{document}\n")),
        }
    }

    /// An event of data that is JSON already but for a text in its midst. As little work as a token can be: with caches
    /// full of weights, every instruction and every byte comes from far.
    pub(crate) fn around(&self, before: &str, text: &str, behind: &str) {
        self.add(|pending| {
            pending.put_slice(b"data: ");
            pending.put_slice(before.as_bytes());
            // writing to memory does not fail
            _ = serde_json::to_writer(pending.writer(), text);
            pending.put_slice(behind.as_bytes());
            pending.put_slice(b"\n\n");
        });
    }

    /// An event of data that is JSON already.
    pub(crate) fn json(&self, document: core::fmt::Arguments<'_>) {
        self.put(format_args!("data: {document}\n\n"));
    }

    /// An event with a name.
    pub(crate) fn event(&self, name: &str, document: &Value) {
        self.put(format_args!("event: {name}\ndata: {document}\n\n"));
    }

    /// The end mark of `OpenAI`'s streams.
    pub(crate) fn done(&self) {
        self.put(format_args!("data: [DONE]\n\n"));
    }

    fn put(&self, text: core::fmt::Arguments<'_>) {
        // writing to memory does not fail
        self.add(|pending| _ = pending.write_fmt(text));
    }

    fn add(&self, add: impl FnOnce(&mut BytesMut)) {
        add(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner).bytes);
    }
}

/// A streamed answer, written by the future that `write` makes. It is dropped when the reader goes.
pub(crate) fn stream<F>(framing: Framing, streams: &Streams, write: impl FnOnce(Writer) -> F) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let (bytes, sender) = (BytesMut::with_capacity(ROOM), Waker::noop().clone());
    let pending = Arc::new(Mutex::new(Pending { bytes, silent: false, sender }));
    let writing = write(Writer { pending: Arc::clone(&pending), framing });
    // comments are no part of the other framing
    if framing == Framing::Events {
        streams.add(&pending);
    }
    let body = Written { writing: Some(Box::pin(writing)), pending };
    let mut response = with_type(StatusCode::OK, framing.content_type(), Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Who writes a stream.
type Writing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The body of a stream, and who writes it.
struct Written {
    /// `None` when all is written.
    writing: Option<Writing>,
    pending: Arc<Mutex<Pending>>,
}

impl http_body::Body for Written {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(writing) = &mut self.writing
            && writing.as_mut().poll(context).is_ready()
        {
            self.writing = None;
        }
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if !pending.bytes.is_empty() {
            pending.silent = false;
            return Poll::Ready(Some(Ok(Frame::data(pending.bytes.split().freeze()))));
        }
        if self.writing.is_none() {
            return Poll::Ready(None);
        }
        pending.sender.clone_from(context.waker());
        Poll::Pending
    }
}
