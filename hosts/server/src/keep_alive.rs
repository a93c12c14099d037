//! Comments in streams that have been silent, so that nobody takes them for dead.
//!
//! One clock for all streams, and not on the thread that writes them: a thread with a clock of its own looks at it with
//! each token, and so does the system.

use crate::app::App;
use crate::stream::Pending;
use alloc::sync::{Arc, Weak};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

/// The streams that may get comments.
#[derive(Default)]
pub(crate) struct Streams(Mutex<Vec<Weak<Mutex<Pending>>>>);

impl Streams {
    /// Takes a stream in, for as long as it lives.
    pub(crate) fn add(&self, stream: &Arc<Mutex<Pending>>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|stream| stream.strong_count() > 0);
        all.push(Arc::downgrade(stream));
    }

    fn tick(&self) {
        // streams that end meanwhile must not wait for all others
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for stream in all.iter().filter_map(Weak::upgrade) {
            stream.lock().unwrap_or_else(PoisonError::into_inner).tick();
        }
    }
}

/// Has comments written for ever. Two ticks without a word are at most the time that may pass.
pub(crate) async fn run(app: Arc<App>) {
    let half = (app.settings.keep_alive_interval / 2).max(Duration::from_millis(1));
    loop {
        tokio::time::sleep(half).await;
        app.streams.tick();
    }
}
