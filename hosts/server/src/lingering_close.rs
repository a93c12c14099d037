//! Lingering close: after the last answer, bytes that the client still sends are read and dropped until it closes its
//! side. Also a write timeout for clients that do not read, and a time limit for the head of a request.
//!
//! A socket that is closed with unread bytes, or that receives more afterwards, resets the connection and with it an
//! answer in transit: a client that sends a large body would see a network error in place of the refusal.

use crate::head_clock::HeadClock;
use core::future::Future as _;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// Bytes that are read and dropped at once.
const DRAIN_CHUNK: usize = 4096;

/// Limits of waiting at a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// Of a client that reads nothing, or does not close.
    pub(crate) idle: Duration,
    /// For the head of a request, from its first byte on; for the first one from the beginning.
    pub(crate) head: Duration,
}

/// A socket whose shutdown waits until the client has shut down, whose writes fail if the client does not read, and whose
/// reads fail if a head does not end.
pub(crate) struct LingeringStream {
    socket: TcpStream,
    timeouts: Timeouts,
    clock: HeadClock,
    /// Timer that runs from the shutdown on.
    lingering: Option<Pin<Box<Sleep>>>,
    /// Timer that runs while nothing can be written.
    blocked: Option<Pin<Box<Sleep>>>,
    /// Timer that runs while a head has begun.
    head: Option<Pin<Box<Sleep>>>,
}

impl LingeringStream {
    pub(crate) fn new(socket: TcpStream, timeouts: Timeouts, clock: HeadClock) -> Self {
        let head = Some(Box::pin(sleep(timeouts.head)));
        Self { socket, timeouts, clock, lingering: None, blocked: None, head }
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
        let Self { socket, timeouts, clock, head, .. } = self.get_mut();
        let before = to.filled().len();
        let read = Pin::new(socket).poll_read(context, to);
        if clock.is_answering() {
            *head = None;
        } else if to.filled().len() > before {
            head.get_or_insert_with(|| Box::pin(sleep(timeouts.head)));
        }
        match head {
            Some(timer) if read.is_pending() => {
                ready!(timer.as_mut().poll(context));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            _ => read,
        }
    }
}

impl AsyncWrite for LingeringStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let Self { socket, timeouts, blocked, .. } = self.get_mut();
        let written = Pin::new(socket).poll_write(context, from);
        if written.is_ready() {
            *blocked = None;
            return written;
        }
        ready!(blocked.get_or_insert_with(|| Box::pin(sleep(timeouts.idle))).as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, timeouts, lingering, .. } = self.get_mut();
        let timer = match lingering {
            Some(timer) => timer,
            None => {
                ready!(Pin::new(&mut *socket).poll_shutdown(context))?;
                lingering.insert(Box::pin(sleep(timeouts.idle)))
            }
        };
        while timer.as_mut().poll(context).is_pending() {
            let mut dropped = [0; DRAIN_CHUNK];
            let mut dropped = ReadBuf::new(&mut dropped);
            // an error ends the connection as well
            let read = ready!(Pin::new(&mut *socket).poll_read(context, &mut dropped));
            if read.is_err() || dropped.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}
