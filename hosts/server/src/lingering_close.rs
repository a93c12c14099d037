//! The end of a connection: what the client is still sending is read and dropped until it closes, too. A client that
//! reads nothing of what is written to it comes to an end as well.
//!
//! A socket that is closed with bytes unread, or gets some afterwards, resets its connection, and with it an answer on its
//! way: who sends a large body would see no refusal, but an error of the network.

use core::future::Future as _;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// Bytes that are dropped at a time.
const DRAIN_CHUNK: usize = 4096;

/// A socket whose shutdown waits for the client's, and whose writes wait for its reads.
pub(crate) struct LingeringStream {
    socket: TcpStream,
    /// For so long.
    patience: Duration,
    /// What is left of it, from the shutdown on.
    left: Option<Pin<Box<Sleep>>>,
    /// What is left of it, while nothing can be written.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl LingeringStream {
    pub(crate) fn new(socket: TcpStream, patience: Duration) -> Self {
        Self { socket, patience, left: None, stuck: None }
    }

    fn socket(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().socket)
    }
}

impl AsyncRead for LingeringStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.socket().poll_read(context, to)
    }
}

impl AsyncWrite for LingeringStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let Self { socket, patience, stuck, .. } = self.get_mut();
        let written = Pin::new(socket).poll_write(context, from);
        if written.is_ready() {
            *stuck = None;
            return written;
        }
        ready!(stuck.get_or_insert_with(|| Box::pin(sleep(*patience))).as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, patience, left, .. } = self.get_mut();
        let left = match left {
            Some(left) => left,
            None => {
                ready!(Pin::new(&mut *socket).poll_shutdown(context))?;
                left.insert(Box::pin(sleep(*patience)))
            }
        };
        while left.as_mut().poll(context).is_pending() {
            let mut dropped = [0; DRAIN_CHUNK];
            let mut dropped = ReadBuf::new(&mut dropped);
            // an error is an end as well
            let read = ready!(Pin::new(&mut *socket).poll_read(context, &mut dropped));
            if read.is_err() || dropped.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}
