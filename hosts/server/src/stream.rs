//! Bodies of responses: a single document, or a stream that is sent while it is written.
//!
//! The writer of a stream is polled as a part of its body, on the task of the connection: a token wakes one task,
//! events that came meanwhile are sent together, a slow reader slows the writer, and when the reader disconnects the
//! writer is dropped.

use crate::keep_alive::{OpenStreams, SharedBuffer, StreamBuffer, lock};
use alloc::sync::Arc;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::{BufMut as _, BytesMut};
use core::convert::Infallible;
use core::fmt::Write as _;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use http_body::Frame;
use serde_json::Value;

/// A response of one JSON document.
pub(crate) fn json(status: StatusCode, document: &Value) -> Response {
    with_type(status, "application/json", document.to_string())
}

/// A response whose body has this content type.
pub(crate) fn with_type(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Framing of the documents in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON document per line.
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

/// Writes the events or lines of a stream.
pub(crate) struct Writer {
    buffer: SharedBuffer,
    framing: Framing,
}

impl Writer {
    /// Writes an event that has only data, or a line.
    pub(crate) fn data(&self, document: &Value) {
        match self.framing {
            Framing::Events => self.put(format_args!("data: {document}\n\n")),
            Framing::Lines => self.put(format_args!("{document}\n")),
        }
    }

    /// Writes an event whose data is JSON around one text that still has to be escaped. This is the work of every
    /// token, and kept small: while weights fill the caches, each instruction and each byte comes from memory.
    pub(crate) fn text_inside(&self, before: &str, text: &str, after: &str) {
        self.add(|bytes| {
            bytes.put_slice(b"data: ");
            bytes.put_slice(before.as_bytes());
            // writing to memory does not fail
            _ = serde_json::to_writer(bytes.writer(), text);
            bytes.put_slice(after.as_bytes());
            bytes.put_slice(b"\n\n");
        });
    }

    /// Writes an event whose data is JSON text.
    pub(crate) fn json(&self, document: core::fmt::Arguments<'_>) {
        self.put(format_args!("data: {document}\n\n"));
    }

    /// Writes an event with a name.
    pub(crate) fn event(&self, name: &str, document: &Value) {
        self.put(format_args!("event: {name}\ndata: {document}\n\n"));
    }

    /// Writes the end mark of `OpenAI`'s streams.
    pub(crate) fn done(&self) {
        self.put(format_args!("data: [DONE]\n\n"));
    }

    fn put(&self, text: core::fmt::Arguments<'_>) {
        // writing to memory does not fail
        self.add(|bytes| _ = bytes.write_fmt(text));
    }

    fn add(&self, add: impl FnOnce(&mut BytesMut)) {
        add(&mut lock(&self.buffer).bytes);
    }
}

/// A streamed response, written by the future that `write` returns. The future is dropped when the client disconnects.
pub(crate) fn stream<F>(framing: Framing, streams: &OpenStreams, write: impl FnOnce(Writer) -> F) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let buffer = StreamBuffer::shared();
    let writing = write(Writer { buffer: Arc::clone(&buffer), framing });
    // lines have no comments
    if framing == Framing::Events {
        streams.add(&buffer);
    }
    let body = StreamBody { writing: Some(Box::pin(writing)), buffer };
    let mut response = with_type(StatusCode::OK, framing.content_type(), Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The body of a stream together with its writer.
struct StreamBody {
    /// `None` when everything is written.
    writing: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    buffer: SharedBuffer,
}

impl http_body::Body for StreamBody {
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
        let mut buffer = lock(&self.buffer);
        if let Some(bytes) = buffer.take() {
            return Poll::Ready(Some(Ok(Frame::data(bytes.freeze()))));
        }
        if self.writing.is_none() {
            return Poll::Ready(None);
        }
        buffer.wake_with(context.waker());
        Poll::Pending
    }
}
