//! The team where there is no operating system: the caller, alone. The team of threads is in `pool`.

use core::marker::PhantomData;
use core::ops::Range;

/// A pool of the calling thread only.
#[derive(Debug)]
pub struct ThreadPool(());

/// More than one thread was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneThread;

impl ThreadPool {
    /// A pool of one thread; the caller of [`Self::run`].
    ///
    /// # Errors
    /// When more are wanted.
    pub fn new(threads: usize) -> Result<Self, OneThread> {
        if threads > 1 { Err(OneThread) } else { Ok(Self(())) }
    }

    /// Threads: one.
    #[must_use]
    pub fn threads(&self) -> usize {
        1
    }

    /// Runs `job` and returns when it is done.
    pub fn run(&mut self, job: &(dyn Fn(&Team<'_>) + Sync)) {
        job(&Team(PhantomData));
    }
}

/// A thread's view of the job that it does alone.
#[derive(Debug)]
pub struct Team<'p>(PhantomData<&'p ThreadPool>);

impl Team<'_> {
    /// This thread's number: 0.
    #[must_use]
    pub fn index(&self) -> usize {
        0
    }

    /// Threads in the team: 1.
    #[must_use]
    pub fn threads(&self) -> usize {
        1
    }

    /// Tasks `0..count` of the current phase: all of them, in order.
    pub fn tasks(&self, count: usize) -> Range<usize> {
        0..count
    }

    /// Ends the phase; there is nobody to wait for.
    pub fn barrier(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn one_thread_does_everything_in_order() {
        assert_eq!(ThreadPool::new(2).err(), Some(OneThread));
        let mut pool = ThreadPool::new(1).unwrap();
        let next = AtomicUsize::new(0);
        pool.run(&|team| {
            assert_eq!((team.index(), team.threads()), (0, 1));
            for task in team.tasks(5) {
                assert_eq!(next.fetch_add(1, Relaxed), task);
            }
            team.barrier();
        });
        assert_eq!(next.into_inner(), 5);
    }
}
