//! The team where there is no operating system: the calling thread. The team of threads is in `pool`.

use core::cell::Cell;
use core::ops::Range;

/// Words that threads can agree on in a phase.
#[cfg(not(feature = "std"))]
pub(crate) const WORDS: usize = 32;

/// A pool of the calling thread only.
#[derive(Debug)]
pub struct ThreadPool(());

/// More than one thread was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneThread;

impl ThreadPool {
    /// A pool of one thread; the caller of [`Self::run`].
    ///
    /// # Errors
    /// When more are requested.
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
        job(&Team { taken: Cell::new(0), pool: self });
    }
}

/// The thread's view of its job.
#[derive(Debug)]
pub struct Team<'p> {
    /// Tasks taken in this phase.
    taken: Cell<usize>,
    #[expect(dead_code, reason = "borrows the pool as the other team does")]
    pool: &'p ThreadPool,
}

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

    /// The next run of the tasks `0..count`, as long as `wanted` returns for the first task and the number left.
    pub(crate) fn claim(
        &self,
        _cursor: &Cell<usize>,
        count: usize,
        wanted: impl Fn(usize, usize) -> usize,
    ) -> Option<Range<usize>> {
        let first = self.taken.get();
        let left = count.checked_sub(first).filter(|left| *left > 0)?;
        let end = first + wanted(first, left).clamp(1, left);
        self.taken.set(end);
        Some(first..end)
    }

    /// True: no other thread has passed another value.
    pub(crate) fn agrees(&self, _index: usize, _value: usize) -> bool {
        true
    }

    /// Ends the phase.
    pub fn barrier(&self) {
        self.taken.set(0);
    }
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
            assert!(team.agrees(0, 1));
            assert_eq!(team.claim(&Cell::new(0), 5, |_, _| 3), Some(0..3));
            assert_eq!(team.claim(&Cell::new(0), 5, |_, _| 3), Some(3..5));
            assert_eq!(team.claim(&Cell::new(0), 5, |_, _| 3), None);
        });
        assert_eq!(next.into_inner(), 5);
    }
}
