//! The synchronization of the thread pool in all interleavings and reorderings of a few threads that loom finds, up to a
//! number of preemptions. What the pool does with real threads is tested beside it.
#![expect(unsafe_code, reason = "cells in which loom finds races")]

extern crate alloc;

/// The types that `pool/sync.rs` takes from its parent, by loom. Threads go to sleep at once.
mod atomics {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize};
    pub(super) use loom::sync::{Condvar, Mutex};
    pub(super) use loom::thread::{yield_now as pause, yield_now};

    pub(super) const SPINS: u32 = 0;
    pub(super) const YIELDS: u32 = 0;
}

#[path = "../src/pool/sync.rs"]
#[expect(clippy::reversed_empty_ranges, reason = "no pauses and no yields")]
mod sync;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use sync::TeamSync;

/// Checks `model` in all schedules of at most this many preemptions.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A pool's state: the job is a number, and each task writes it to a cell of its own.
struct Pool {
    sync: TeamSync,
    job: UnsafeCell<usize>,
    cells: Vec<UnsafeCell<usize>>,
}

// SAFETY: loom fails where two threads use a cell at once and one writes it.
unsafe impl Sync for Pool {}
// SAFETY: as above.
unsafe impl Send for Pool {}

impl Pool {
    fn new(threads: usize, tasks: usize) -> Arc<Self> {
        let cells = (0..tasks).map(|_| UnsafeCell::new(0)).collect();
        Arc::new(Self { sync: TeamSync::new(threads, 1), job: UnsafeCell::new(0), cells })
    }

    fn read(cell: &UnsafeCell<usize>) -> usize {
        // SAFETY: loom fails when another thread writes the cell meanwhile.
        cell.with(|cell| unsafe { *cell })
    }

    fn write(cell: &UnsafeCell<usize>, number: usize) {
        // SAFETY: loom fails when another thread uses the cell meanwhile.
        cell.with_mut(|cell| unsafe { *cell = number });
    }

    /// The phases of a job on thread `index`: all tasks, then all cells are read.
    fn work(&self, index: usize) {
        let job = Self::read(&self.job);
        for step in 0..self.sync.threads() {
            let owner = (index + step) % self.sync.threads();
            while let Some(tasks) = self.sync.claim(0, owner, self.cells.len(), |_, _| 1) {
                tasks.for_each(|task| Self::write(&self.cells[task], job));
            }
        }
        self.sync.barrier(index, 0).expect("no thread fails");
        assert!(self.cells.iter().all(|cell| Self::read(cell) == job));
    }

    fn run(&self, job: usize) {
        let end = self.sync.begin(|| Self::write(&self.job, job));
        self.work(0);
        self.sync.leave();
        self.sync.wait_end(end);
        assert!(self.cells.iter().all(|cell| Self::read(cell) == job));
    }
}

/// A worker that takes part in jobs until the pool ends; returns their number.
fn worker(pool: &Arc<Pool>, index: usize) -> thread::JoinHandle<usize> {
    let pool = Arc::clone(pool);
    thread::spawn(move || {
        let mut jobs = 0;
        while pool.sync.wait_start(jobs) {
            jobs += 1;
            pool.work(index);
            pool.sync.leave();
        }
        jobs
    })
}

#[test]
fn two_threads_do_each_task_of_two_jobs_once() {
    check(2, || {
        let pool = Pool::new(2, 2);
        let other = worker(&pool, 1);
        pool.run(7);
        pool.run(8);
        pool.sync.finish();
        assert_eq!(other.join().unwrap(), 2);
        assert!(!pool.sync.take_failure());
    });
}

#[test]
fn three_threads_meet_at_a_barrier() {
    check(1, || {
        let pool = Pool::new(3, 1);
        let others = [worker(&pool, 1), worker(&pool, 2)];
        pool.run(5);
        pool.sync.finish();
        assert!(others.into_iter().all(|other| other.join().unwrap() == 1));
    });
}

#[test]
fn a_failure_brings_the_others_out_of_their_barrier() {
    check(3, || {
        let sync = Arc::new(TeamSync::new(2, 1));
        let failing = Arc::clone(&sync);
        let end = sync.begin(|| {});
        let other = thread::spawn(move || {
            failing.fail();
            failing.leave();
        });
        assert!(sync.barrier(0, 0).is_err());
        sync.leave();
        sync.wait_end(end);
        assert!(sync.take_failure());
        other.join().unwrap();
    });
}

#[test]
fn threads_with_different_values_do_not_both_agree() {
    check(3, || {
        let sync = Arc::new(TeamSync::new(2, 1));
        let second = Arc::clone(&sync);
        let other = thread::spawn(move || second.agree(0, 0, 5));
        let first = sync.agree(0, 0, 4);
        assert!(!(first && other.join().unwrap()));
        assert!(!sync.agree(0, 0, usize::MAX));
    });
}
