//! Buffers of open streams, and the clock that writes a comment into those that have been silent.
//!
//! One clock serves all streams, on a thread that writes none of them: a thread with a timer of its own checks it with
//! every token, and so does the system. Not here: who writes and sends the buffers (`stream`).

use alloc::sync::{Arc, Weak};
use bytes::{BufMut as _, BytesMut};
use core::task::Waker;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a buffer at first: the events of a few tokens. Bytes that were sent make room again.
const CAPACITY: usize = 2048;

/// Bytes of a stream that have been written and not sent yet.
pub(crate) struct StreamBuffer {
    pub(crate) bytes: BytesMut,
    /// True if nothing was sent since the last tick.
    silent: bool,
    /// Wakes the task that sends.
    sender: Waker,
}

/// A stream's buffer, shared by its writer, its sender and the clock.
pub(crate) type SharedBuffer = Arc<Mutex<StreamBuffer>>;

/// Locks a buffer. A writer that panicked leaves whole events behind.
pub(crate) fn lock(buffer: &Mutex<StreamBuffer>) -> MutexGuard<'_, StreamBuffer> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StreamBuffer {
    /// An empty buffer.
    pub(crate) fn shared() -> SharedBuffer {
        let (bytes, sender) = (BytesMut::with_capacity(CAPACITY), Waker::noop().clone());
        Arc::new(Mutex::new(Self { bytes, silent: false, sender }))
    }

    /// Takes the bytes to send, if there are any.
    pub(crate) fn take(&mut self) -> Option<BytesMut> {
        if self.bytes.is_empty() {
            return None;
        }
        self.silent = false;
        Some(self.bytes.split())
    }

    /// Sets the task to wake when the clock has written a comment.
    pub(crate) fn wake_with(&mut self, waker: &Waker) {
        self.sender.clone_from(waker);
    }

    /// Writes a comment if nothing was sent since the tick before.
    fn tick(&mut self) {
        // bytes that wait for a slow reader are output enough
        if core::mem::replace(&mut self.silent, true) && self.bytes.is_empty() {
            self.bytes.put_slice(b": keep-alive\n\n");
            self.sender.wake_by_ref();
        }
    }
}

/// The streams that get comments.
#[derive(Default)]
pub(crate) struct OpenStreams(Mutex<Vec<Weak<Mutex<StreamBuffer>>>>);

impl OpenStreams {
    /// Adds a stream; it is removed some time after it has been dropped.
    pub(crate) fn add(&self, stream: &SharedBuffer) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|stream| stream.strong_count() > 0);
        all.push(Arc::downgrade(stream));
    }

    fn tick(&self) {
        // copied, so that streams that begin or end meanwhile need not wait for all others
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for stream in all.iter().filter_map(Weak::upgrade) {
            lock(&stream).tick();
        }
    }
}

/// Writes comments for ever. A silent stream gets one after at most `interval`, which is two ticks.
pub(crate) async fn run(streams: Arc<OpenStreams>, interval: Duration) {
    let tick = (interval / 2).max(Duration::from_millis(1));
    loop {
        tokio::time::sleep(tick).await;
        streams.tick();
    }
}
