//! Persistent threads that run one job together, in phases separated by barriers. What a job does is not here.
//!
//! Waiting is bounded spinning, then yielding, then sleeping: a job makes progress however few of the processor's
//! cores are left to it. Results must not depend on who does which task; [`Team::tasks`] promises only that each
//! task is done once.
#![expect(unsafe_code, reason = "lends a job to threads that outlive it")]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::io;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Pauses before a waiting thread gives its core away; a phase's stragglers are mostly back sooner.
const SPINS: u32 = 2_000;
/// Yields before it goes to sleep.
const YIELDS: u32 = 200;

/// A place where threads wait for a number to change.
#[derive(Debug, Default)]
struct Gate {
    value: AtomicUsize,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Gate {
    /// Waits until the value is no longer `seen`, or `stop` says so.
    fn wait(&self, seen: usize, stop: impl Fn() -> bool) {
        let changed = || self.value.load(Ordering::SeqCst) != seen || stop();
        for _ in 0..SPINS {
            if changed() {
                return;
            }
            spin_loop();
        }
        for _ in 0..YIELDS {
            if changed() {
                return;
            }
            thread::yield_now();
        }
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !changed() {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Moves the value on and wakes whoever sleeps.
    fn open(&self) {
        self.value.fetch_add(1, Ordering::SeqCst);
        self.rouse();
    }

    /// Lets sleepers look again.
    fn rouse(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.wake.notify_all();
        }
    }
}

/// A job as the threads see it. The lifetime is a lie that [`ThreadPool::run`] makes good by not returning early.
type Job = &'static (dyn Fn(&Team<'_>) + Sync);

/// Keeps neighbors' counters on different cache lines (two, for adjacent-line prefetch).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);

/// Sets of task counters: one in use, one just left, one being cleared for the next phase.
const SETS: usize = 3;

struct Shared {
    threads: usize,
    job: UnsafeCell<Option<Job>>,
    /// Opens when a job is there (or the pool ends).
    start: Padded<Gate>,
    /// Threads that have reached the barrier.
    arrived: Padded<AtomicUsize>,
    /// Opens when all have.
    barrier: Padded<Gate>,
    /// Threads still in the job.
    running: Padded<AtomicUsize>,
    /// Opens when none is.
    end: Padded<Gate>,
    panicked: AtomicBool,
    ending: AtomicBool,
    payload: Mutex<Option<Box<dyn Any + Send>>>,
    counters: [Vec<Padded<AtomicUsize>>; SETS],
}

// SAFETY: `job` is written only while no thread runs, before `start` opens, and read after; all else is atomic or locked.
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
        f.debug_struct("ThreadPool").field("threads", &self.shared.threads).finish()
    }
}

impl ThreadPool {
    /// A pool of `threads` (at least one) with the caller of [`Self::run`] as the first.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn new(threads: usize) -> io::Result<Self> {
        let threads = threads.max(1);
        let counters = || (0..threads).map(|_| Padded::default()).collect();
        let shared = Arc::new(Shared {
            threads,
            job: UnsafeCell::new(None),
            start: Padded::default(),
            arrived: Padded::default(),
            barrier: Padded::default(),
            running: Padded::default(),
            end: Padded::default(),
            panicked: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            payload: Mutex::new(None),
            counters: [counters(), counters(), counters()],
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
        self.shared.threads
    }

    /// Runs `job` on every thread at once and returns when all are done.
    ///
    /// # Panics
    /// With the payload of a thread that panicked; the others are stopped at their next barrier.
    pub fn run(&mut self, job: &(dyn Fn(&Team<'_>) + Sync)) {
        let shared = &*self.shared;
        for set in &shared.counters {
            set.iter().for_each(|counter| counter.0.store(0, Ordering::Relaxed));
        }
        shared.arrived.0.store(0, Ordering::Relaxed);
        shared.running.0.store(shared.threads, Ordering::Relaxed);
        let end = shared.end.0.value.load(Ordering::Acquire);
        // SAFETY: the reference is used only until `end` opens, and this function waits for that.
        let job: Job = unsafe { core::mem::transmute::<&(dyn Fn(&Team<'_>) + Sync), Job>(job) };
        // SAFETY: no thread is in a job (`&mut self`, and the last run waited for all), so none reads it now.
        unsafe { *shared.job.get() = Some(job) };
        shared.start.0.open();
        take_part(shared, 0, job);
        shared.end.0.wait(end, || false);
        if shared.panicked.swap(false, Ordering::SeqCst) {
            let payload = shared.payload.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(payload) = payload {
                resume_unwind(payload);
            }
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        self.shared.start.0.open();
        for worker in self.workers.drain(..) {
            // A worker catches the job's panics; there is nothing to learn from its result.
            let _ = worker.join();
        }
    }
}

/// The life of a worker.
fn work(shared: &Shared, index: usize) {
    let mut seen = 0;
    loop {
        shared.start.0.wait(seen, || false);
        seen += 1;
        if shared.ending.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: `start` has opened, so `run` has written the job and writes no other before `end` opens.
        if let Some(job) = unsafe { *shared.job.get() } {
            take_part(shared, index, job);
        }
    }
}

/// Marks a stop at a barrier because another thread has panicked.
struct Stopped;

/// Runs the job as thread `index`; the last to leave opens `end`.
fn take_part(shared: &Shared, index: usize, job: Job) {
    let team = Team { shared, index, phase: core::cell::Cell::new(0) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job(&team))) {
        if !payload.is::<Stopped>() {
            let mut first = shared.payload.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(payload);
        }
        shared.panicked.store(true, Ordering::SeqCst);
        shared.barrier.0.rouse();
    }
    if shared.running.0.fetch_sub(1, Ordering::AcqRel) == 1 {
        shared.end.0.open();
    }
}

/// A thread's view of the job it takes part in. Every thread must go through the same phases.
pub struct Team<'p> {
    shared: &'p Shared,
    index: usize,
    phase: core::cell::Cell<usize>,
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
        self.shared.threads
    }

    /// Tasks `0..count` of the current phase, each to exactly one thread: first a contiguous share of one's own, in
    /// order, then whatever others have left. At most one call per phase.
    pub fn tasks(&self, count: usize) -> impl Iterator<Item = usize> {
        let threads = self.shared.threads;
        let counters = &self.shared.counters[self.phase.get() % SETS];
        let share = move |thread: usize| thread * count / threads..(thread + 1) * count / threads;
        (0..threads).flat_map(move |step| {
            let owner = (self.index + step) % threads;
            let range = share(owner);
            core::iter::from_fn(move || {
                // An exhausted share costs no write.
                if counters[owner].0.load(Ordering::Relaxed) >= range.len() {
                    return None;
                }
                let task = range.start + counters[owner].0.fetch_add(1, Ordering::Relaxed);
                (task < range.end).then_some(task)
            })
        })
    }

    /// Ends the phase: waits until every thread has come here. What was written before is visible after.
    ///
    /// # Panics
    /// When another thread has panicked, to bring this one out of the job too.
    pub fn barrier(&self) {
        let shared = self.shared;
        // Cleared for the phase after next: its users left it before the last barrier.
        shared.counters[(self.phase.get() + 2) % SETS][self.index].0.store(0, Ordering::Relaxed);
        self.phase.set(self.phase.get() + 1);
        if shared.threads == 1 {
            return;
        }
        let seen = shared.barrier.0.value.load(Ordering::Acquire);
        if shared.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == shared.threads {
            shared.arrived.0.store(0, Ordering::Relaxed);
            shared.barrier.0.open();
        } else {
            shared.barrier.0.wait(seen, || shared.panicked.load(Ordering::SeqCst));
        }
        if shared.panicked.load(Ordering::SeqCst) {
            resume_unwind(Box::new(Stopped));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use core::sync::atomic::AtomicU32;

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
}
