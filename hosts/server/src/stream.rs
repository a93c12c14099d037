//! Bodies of answers: one document, or a stream that is written while it comes into being.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use core::convert::Infallible;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use http_body::Frame;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Interval, MissedTickBehavior, interval_at};

/// Chunks that may wait for a slow reader before the writer has to.
const BACKLOG: usize = 256;

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

/// The reader has gone; whoever writes should stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone;

/// Where a stream is written.
pub(crate) struct Writer {
    chunks: Sender<Bytes>,
    framing: Framing,
}

impl Writer {
    /// An event of data alone, or a line.
    pub(crate) async fn data(&self, document: &Value) -> Result<(), Gone> {
        match self.framing {
            Framing::Events => self.raw(format!("data: {document}\n\n")).await,
            Framing::Lines => self.raw(format!("{document}\n")).await,
        }
    }

    /// An event with a name.
    pub(crate) async fn event(&self, name: &str, document: &Value) -> Result<(), Gone> {
        self.raw(format!("event: {name}\ndata: {document}\n\n")).await
    }

    /// The end mark of `OpenAI`'s streams.
    pub(crate) async fn done(&self) -> Result<(), Gone> {
        self.raw("data: [DONE]\n\n".into()).await
    }

    async fn raw(&self, text: String) -> Result<(), Gone> {
        self.chunks.send(Bytes::from(text)).await.map_err(|_| Gone)
    }
}

/// A streamed answer, written by the future that `write` makes. It ends early when the reader goes.
pub(crate) fn stream<F>(framing: Framing, keep_alive: Duration, write: impl FnOnce(Writer) -> F) -> Response
where
    F: Future<Output = Result<(), Gone>> + Send + 'static,
{
    let (chunks, receiver) = channel(BACKLOG);
    let watch = chunks.clone();
    let writing = write(Writer { chunks, framing });
    tokio::spawn(async move {
        // dropping the writing future cancels what it waits for
        tokio::select! {
            () = watch.closed() => {}
            _ = writing => {}
        }
    });
    let silence = (framing == Framing::Events).then(|| {
        let mut silence = interval_at(tokio::time::Instant::now() + keep_alive, keep_alive);
        silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
        silence
    });
    let mut response =
        with_type(StatusCode::OK, framing.content_type(), Body::new(Chunks { receiver, silence }));
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The body of a stream.
struct Chunks {
    receiver: Receiver<Bytes>,
    silence: Option<Interval>,
}

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Poll::Ready(chunk) = self.receiver.poll_recv(context) {
            if let Some(silence) = &mut self.silence {
                silence.reset();
            }
            return Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))));
        }
        if let Some(silence) = &mut self.silence
            && silence.poll_tick(context).is_ready()
        {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b": keep-alive\n\n")))));
        }
        Poll::Pending
    }
}
