//! Persistent threads that run one job together, in phases separated by barriers. What a job does is not here.
//!
//! Waiting is bounded spinning, then yielding, then sleeping: a job makes progress however few of the processor's
//! cores are left to it. Results must not depend on which thread does a task; [`Team::tasks`] promises only that each
//! task is done once.
#![expect(unsafe_code, reason = "lends a job to threads that outlive it")]

mod atomics;
mod sync;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, UnsafeCell};
use core::ops::Range;
use core::panic::AssertUnwindSafe;
use std::io;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use sync::{Stopped, TeamSync};

/// Words that threads can agree on in a phase.
pub(crate) const WORDS: usize = 32;

/// A job as the threads see it. It lives shorter than `'static`: [`ThreadPool::run`] returns only when no thread uses it.
type Job = &'static (dyn Fn(&Team<'_>) + Sync);

struct Shared {
    sync: TeamSync,
    job: UnsafeCell<Option<Job>>,
    payload: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is written only by `ThreadPool::run` between two jobs, in `TeamSync::begin`, and read after that; the
// rest is atomic or locked.
unsafe impl Sync for Shared {}
// SAFETY: as above; the job itself is `Sync`.
unsafe impl Send for Shared {}

/// Threads that wait for jobs.
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl core::fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ThreadPool").field("threads", &self.threads()).finish()
    }
}

impl ThreadPool {
    /// A pool of `threads` (at least one) with the caller of [`Self::run`] as the first.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn new(threads: usize) -> io::Result<Self> {
        let threads = threads.max(1);
        let shared = Arc::new(Shared {
            sync: TeamSync::new(threads, WORDS),
            job: UnsafeCell::new(None),
            payload: Mutex::new(None),
        });
        let mut pool = Self { shared, workers: Vec::new() };
        for index in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let thread = thread::Builder::new().name(alloc::format!("cpu-{index}"));
            pool.workers.push(thread.spawn(move || work(&shared, index))?);
        }
        Ok(pool)
    }

    /// Threads, the caller's included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.shared.sync.threads()
    }

    /// Runs `job` on every thread at once and returns when all are done.
    ///
    /// # Panics
    /// With the payload of a thread that panicked; the others are stopped at their next barrier.
    pub fn run(&mut self, job: &(dyn Fn(&Team<'_>) + Sync)) {
        let shared = &*self.shared;
        // SAFETY: the reference is used until `wait_end` returns, which this function waits for.
        let job: Job = unsafe { core::mem::transmute::<&(dyn Fn(&Team<'_>) + Sync), Job>(job) };
        let end = shared.sync.begin(|| {
            // SAFETY: no thread is in a job (`&mut self`, and the last run waited for all), so none reads it now.
            unsafe { *shared.job.get() = Some(job) };
        });
        take_part(shared, 0, job);
        shared.sync.wait_end(end);
        if shared.sync.take_failure() {
            let payload = shared.payload.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(payload) = payload {
                resume_unwind(payload);
            }
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.sync.finish();
        for worker in self.workers.drain(..) {
            // A worker catches the job's panics; its result holds nothing.
            let _ = worker.join();
        }
    }
}

/// A worker's loop.
fn work(shared: &Shared, index: usize) {
    let mut seen = 0;
    while shared.sync.wait_start(seen) {
        seen += 1;
        // SAFETY: `wait_start` returned, so `run` has written the job and writes no other before all have left.
        if let Some(job) = unsafe { *shared.job.get() } {
            take_part(shared, index, job);
        }
    }
}

/// Runs the job as thread `index`.
fn take_part(shared: &Shared, index: usize, job: Job) {
    let team = Team { sync: &shared.sync, index, phase: Cell::new(0) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job(&team))) {
        if !payload.is::<Stopped>() {
            let mut first = shared.payload.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(payload);
        }
        shared.sync.fail();
    }
    shared.sync.leave();
}

/// A thread's view of the job it takes part in. Every thread must go through the same phases.
pub struct Team<'p> {
    sync: &'p TeamSync,
    index: usize,
    phase: Cell<usize>,
}

impl core::fmt::Debug for Team<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Team").field("index", &self.index).field("phase", &self.phase).finish()
    }
}

impl Team<'_> {
    /// This thread's number, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Threads in the team.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.sync.threads()
    }

    /// Tasks `0..count` of the current phase, each to exactly one thread: first this thread's contiguous share, in
    /// order, then tasks that other threads have left. At most one call per phase, with the same count in all threads.
    pub fn tasks(&self, count: usize) -> impl Iterator<Item = usize> {
        let cursor = Cell::new(0);
        core::iter::from_fn(move || self.claim(&cursor, count, |_, _| 1).map(|range| range.start))
    }

    /// The next run of the tasks `0..count`, as long as `wanted` returns for the first task and the number left in its
    /// thread's share. `cursor` is 0 at the beginning of a phase.
    pub(crate) fn claim(
        &self,
        cursor: &Cell<usize>,
        count: usize,
        wanted: impl Fn(usize, usize) -> usize,
    ) -> Option<Range<usize>> {
        while cursor.get() < self.threads() {
            let owner = (self.index + cursor.get()) % self.threads();
            if let Some(range) = self.sync.claim(self.phase.get(), owner, count, &wanted) {
                return Some(range);
            }
            cursor.set(cursor.get() + 1);
        }
        None
    }

    /// True if no thread has passed another value for word `index` in this phase.
    pub(crate) fn agrees(&self, index: usize, value: usize) -> bool {
        self.threads() == 1 || self.sync.agree(self.phase.get(), index, value)
    }

    /// Ends the phase: waits until every thread has come here. What was written before is visible after.
    ///
    /// # Panics
    /// When another thread has panicked, to bring this one out of the job too.
    pub fn barrier(&self) {
        let phase = self.phase.replace(self.phase.get() + 1);
        if let Err(stopped) = self.sync.barrier(self.index, phase) {
            resume_unwind(Box::new(stopped));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

    #[test]
    fn every_task_of_every_phase_is_done_once() {
        for threads in [1, 2, 3, 8] {
            let mut pool = ThreadPool::new(threads).unwrap();
            for _ in 0..20 {
                let done: Vec<Vec<AtomicU32>> =
                    (0..50).map(|phase| (0..phase * 3).map(|_| AtomicU32::new(0)).collect()).collect();
                pool.run(&|team| {
                    for phase in &done {
                        for task in team.tasks(phase.len()) {
                            phase[task].fetch_add(1, Ordering::Relaxed);
                        }
                        team.barrier();
                        assert!(phase.iter().all(|task| task.load(Ordering::Relaxed) == 1));
                    }
                });
            }
        }
    }

    #[test]
    fn phases_are_in_order_beside_a_busy_thread() {
        let stop = Arc::new(AtomicBool::new(false));
        let cores = thread::available_parallelism().map_or(2, usize::from);
        let hogs: Vec<_> = (0..cores)
            .map(|_| {
                let stop = Arc::clone(&stop);
                thread::spawn(move || while !stop.load(Ordering::Relaxed) {})
            })
            .collect();
        let mut pool = ThreadPool::new(4).unwrap();
        let cells: Vec<AtomicUsize> = (0..64).map(|_| AtomicUsize::new(0)).collect();
        pool.run(&|team| {
            for phase in 0..200 {
                for task in team.tasks(cells.len()) {
                    assert_eq!(cells[task].swap(phase + 1, Ordering::Relaxed), phase);
                }
                team.barrier();
            }
        });
        stop.store(true, Ordering::Relaxed);
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
        assert!(cells.iter().all(|cell| cell.load(Ordering::Relaxed) == 200));
    }

    #[test]
    fn a_panic_comes_out_and_the_pool_goes_on() {
        let mut pool = ThreadPool::new(3).unwrap();
        for culprit in 0..3 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(&|team| {
                    team.barrier();
                    assert_ne!(team.index(), culprit, "thread {culprit}");
                    team.barrier();
                    team.barrier();
                });
            }));
            let payload = result.unwrap_err();
            let text = payload.downcast_ref::<alloc::string::String>().unwrap();
            assert!(text.contains(&alloc::format!("thread {culprit}")), "{text}");
            let sum = AtomicUsize::new(0);
            pool.run(&|team| {
                team.barrier();
                sum.fetch_add(team.index() + 1, Ordering::Relaxed);
            });
            assert_eq!(sum.load(Ordering::Relaxed), 6);
        }
    }

    #[test]
    fn own_share_comes_first_and_in_order() {
        let mut pool = ThreadPool::new(1).unwrap();
        let seen = Mutex::new(vec![]);
        pool.run(&|team| seen.lock().unwrap().extend(team.tasks(5)));
        assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn runs_of_tasks_are_claimed_once_whatever_their_length() {
        for threads in [1, 2, 3] {
            let mut pool = ThreadPool::new(threads).unwrap();
            let done: Vec<AtomicU32> = (0..1000).map(|_| AtomicU32::new(0)).collect();
            pool.run(&|team| {
                let cursor = Cell::new(0);
                while let Some(run) = team.claim(&cursor, done.len(), |first, _| first % 7) {
                    for task in &done[run] {
                        task.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            assert!(done.iter().all(|task| task.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn threads_agree_or_learn_that_they_do_not() {
        let mut pool = ThreadPool::new(2).unwrap();
        let refused = AtomicUsize::new(0);
        pool.run(&|team| {
            for phase in 0..7 {
                assert!(team.agrees(3, 5 + phase));
                team.barrier();
            }
            if !team.agrees(3, team.index()) {
                refused.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert_eq!(refused.into_inner(), 1);
    }
}
