//! Work that takes time, away from the thread that serves sockets, and split by size: large requests wait for each
//! other and leave threads to small ones.

use crate::error::{Failure, FailureKind};
use alloc::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinError};

/// Size of a request, bytes, from which on its work counts as medium: tens of milliseconds.
pub(crate) const MEDIUM: usize = 32 << 10;

/// Size of a request, bytes, from which on its work counts as large: up to seconds.
const LARGE: usize = 1 << 20;

/// Threads that medium and large work may take; others stay free for small work.
const MEDIUM_THREADS: usize = 3;
const LARGE_THREADS: usize = 2;

/// The limits of work in progress.
pub(crate) struct WorkPool {
    medium: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// Takes work off the queue that nobody waits for any more. Work in progress goes on.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl WorkPool {
    pub(crate) fn new() -> Self {
        let limit = |threads| Arc::new(Semaphore::new(threads));
        Self { medium: limit(MEDIUM_THREADS), large: limit(LARGE_THREADS) }
    }

    /// Runs the work of a request of `size` bytes on a blocking thread.
    ///
    /// # Errors
    /// That of the work, or [`FailureKind::Internal`] if it panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        size: usize,
        act: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let permit = self.permit(size).await;
        // held until the work has ended, even if its client is gone
        let working = tokio::task::spawn_blocking(move || {
            let done = act();
            drop(permit);
            done
        });
        let _abort = AbortOnDrop(working.abort_handle());
        working.await.map_err(|error: JoinError| Failure::new(FailureKind::Internal, error))?
    }

    async fn permit(&self, size: usize) -> Option<OwnedSemaphorePermit> {
        let semaphore = match size {
            0..MEDIUM => return None,
            MEDIUM..LARGE => &self.medium,
            _ => &self.large,
        };
        // it is never closed
        Arc::clone(semaphore).acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// With as many threads as the program has, any number of large requests leaves some to small ones.
    #[test]
    fn small_work_overtakes_any_amount_of_large_work() {
        let threads = MEDIUM_THREADS + LARGE_THREADS + 1;
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(threads).build();
        runtime.unwrap().block_on(async {
            let pool = Arc::new(WorkPool::new());
            let (begin, begun) = channel();
            let mut ends = Vec::new();
            for size in [LARGE, MEDIUM].repeat(20) {
                let (end, ended) = channel::<()>();
                ends.push(end);
                let (pool, begin) = (Arc::clone(&pool), begin.clone());
                tokio::spawn(async move {
                    pool.run(size, move || {
                        _ = begin.send(());
                        _ = ended.recv();
                        Ok(())
                    })
                    .await
                });
            }
            tokio::task::yield_now().await;
            assert_eq!(pool.run(0, || Ok(5)).await.unwrap(), 5);
            // no more are in progress than they may take
            assert_eq!(begun.iter().take(MEDIUM_THREADS + LARGE_THREADS).count(), 5);
            assert!(begun.try_recv().is_err());
            drop(ends);
        });
    }

    #[test]
    fn work_that_panics_is_a_failure() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let failed = runtime.block_on(WorkPool::new().run(0, || -> Result<(), Failure> { panic!("work") }));
        assert_eq!(failed.unwrap_err().kind, FailureKind::Internal);
    }
}
