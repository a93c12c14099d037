//! The synchronization of a pool's threads: the start and end of a job, shares of tickets, and barriers.
//!
//! No job and no thread is here. Atomics, locks and pauses come from `super::atomics`, so that the test `loom` can run
//! this file under its own.

use super::atomics::{AtomicBool, AtomicUsize, Condvar, Mutex, SPINS, YIELDS, pause, yield_now};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};

/// A number that threads wait on.
struct Gate {
    value: AtomicUsize,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Gate {
    fn new() -> Self {
        let number = || AtomicUsize::new(0);
        Self { value: number(), sleepers: number(), lock: Mutex::new(()), wake: Condvar::new() }
    }

    /// Waits until the value is no longer `seen`, or `stop` returns true.
    fn wait(&self, seen: usize, stop: impl Fn() -> bool) {
        let changed = || self.value.load(SeqCst) != seen || stop();
        for _ in 0..SPINS {
            if changed() {
                return;
            }
            pause();
        }
        for _ in 0..YIELDS {
            if changed() {
                return;
            }
            yield_now();
        }
        let mut guard = self.lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.sleepers.fetch_add(1, SeqCst);
        while !changed() {
            guard = self.wake.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        self.sleepers.fetch_sub(1, SeqCst);
    }

    /// Increments the value and wakes all sleepers.
    fn open(&self) {
        self.value.fetch_add(1, SeqCst);
        self.rouse();
    }

    /// Wakes all sleepers, so that they look again.
    ///
    /// Sleepers are counted before they look for the last time. The addition of 0 comes either after that count, and
    /// finds it, or before it, and then what was written before the addition is seen in that last look.
    fn rouse(&self) {
        if self.sleepers.fetch_add(0, SeqCst) > 0 {
            drop(self.lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
            self.wake.notify_all();
        }
    }
}

/// Keeps neighbors' counters on different cache lines (two, for adjacent-line prefetch).
#[repr(align(128))]
struct Padded<T>(T);

/// Sets of counters: one in use, one just left, one being cleared for the next phase.
const SETS: usize = 3;

/// The counters of a phase.
struct PhaseSet {
    /// Tickets taken of each thread's share.
    tickets: Vec<Padded<AtomicUsize>>,
    /// Numbers that the threads agree on, each plus 1; 0 is not set yet.
    words: Padded<Vec<AtomicUsize>>,
}

impl PhaseSet {
    fn new(threads: usize, words: usize) -> Self {
        let number = || AtomicUsize::new(0);
        let tickets = (0..threads).map(|_| Padded(number())).collect();
        Self { tickets, words: Padded((0..words).map(|_| number()).collect()) }
    }

    fn clear_words(&self) {
        self.words.0.iter().filter(|word| word.load(Relaxed) != 0).for_each(|word| word.store(0, Relaxed));
    }
}

/// Another thread of the job has panicked.
#[derive(Debug)]
pub(crate) struct Stopped;

/// The state that the threads of a pool share.
pub(crate) struct TeamSync {
    threads: usize,
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
    phases: [PhaseSet; SETS],
}

impl TeamSync {
    /// State for `threads` threads that agree on up to `words` words in a phase.
    pub(crate) fn new(threads: usize, words: usize) -> Self {
        let set = || PhaseSet::new(threads, words);
        Self {
            threads,
            start: Padded(Gate::new()),
            arrived: Padded(AtomicUsize::new(0)),
            barrier: Padded(Gate::new()),
            running: Padded(AtomicUsize::new(0)),
            end: Padded(Gate::new()),
            panicked: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            phases: [set(), set(), set()],
        }
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Starts a job, which `write` makes visible to the workers; returns what [`Self::wait_end`] takes.
    ///
    /// No job may be running.
    pub(crate) fn begin(&self, write: impl FnOnce()) -> usize {
        for set in &self.phases {
            set.tickets.iter().for_each(|counter| counter.0.store(0, Relaxed));
            set.clear_words();
        }
        self.arrived.0.store(0, Relaxed);
        self.running.0.store(self.threads, Relaxed);
        let end = self.end.0.value.load(Acquire);
        write();
        self.start.0.open();
        end
    }

    /// Waits for job number `seen`, from 0; false when the pool ends instead.
    pub(crate) fn wait_start(&self, seen: usize) -> bool {
        self.start.0.wait(seen, || false);
        !self.ending.load(SeqCst)
    }

    /// Ends a thread's part of the job.
    pub(crate) fn leave(&self) {
        if self.running.0.fetch_sub(1, AcqRel) == 1 {
            self.end.0.open();
        }
    }

    /// Waits until every thread has left the job.
    pub(crate) fn wait_end(&self, end: usize) {
        self.end.0.wait(end, || false);
    }

    /// Brings the other threads out of the job at their next barrier.
    pub(crate) fn fail(&self) {
        self.panicked.store(true, SeqCst);
        self.barrier.0.rouse();
    }

    /// True if a thread failed in the job that has ended.
    pub(crate) fn take_failure(&self) -> bool {
        self.panicked.swap(false, SeqCst)
    }

    /// Ends the workers.
    pub(crate) fn finish(&self) {
        self.ending.store(true, SeqCst);
        self.start.0.open();
    }

    /// Ends phase number `phase` for thread `index`: waits for all threads. What was written before is visible after.
    pub(crate) fn barrier(&self, index: usize, phase: usize) -> Result<(), Stopped> {
        // Cleared for the phase after next: its users left it before the last barrier.
        let next = &self.phases[(phase + 2) % SETS];
        next.tickets[index].0.store(0, Relaxed);
        if index == 0 {
            next.clear_words();
        }
        if self.threads == 1 {
            return Ok(());
        }
        let seen = self.barrier.0.value.load(Acquire);
        if self.arrived.0.fetch_add(1, AcqRel) + 1 == self.threads {
            self.arrived.0.store(0, Relaxed);
            self.barrier.0.open();
        } else {
            self.barrier.0.wait(seen, || self.panicked.load(SeqCst));
        }
        if self.panicked.load(SeqCst) { Err(Stopped) } else { Ok(()) }
    }

    /// Claims tickets of thread `owner`'s share of `count` in phase number `phase`: as many as `wanted` returns for the
    /// first of them and the number that is left, at least one. Each ticket is claimed once if all threads pass the same
    /// count.
    pub(crate) fn claim(
        &self,
        phase: usize,
        owner: usize,
        count: usize,
        wanted: impl Fn(usize, usize) -> usize,
    ) -> Option<Range<usize>> {
        let share = owner * count / self.threads..(owner + 1) * count / self.threads;
        let counter = &self.phases[phase % SETS].tickets[owner].0;
        let mut taken = counter.load(Relaxed);
        // An exhausted share costs no write.
        while taken < share.len() {
            let first = share.start + taken;
            let left = share.end - first;
            let number = wanted(first, left).clamp(1, left);
            match counter.compare_exchange(taken, taken + number, Relaxed, Relaxed) {
                Ok(_) => return Some(first..first + number),
                Err(now) => taken = now,
            }
        }
        None
    }

    /// True if no thread has passed another value for word `index` of phase number `phase`.
    pub(crate) fn agree(&self, phase: usize, index: usize, value: usize) -> bool {
        let (word, value) = (&self.phases[phase % SETS].words.0[index], value.wrapping_add(1));
        let known = match word.load(Relaxed) {
            0 => word.compare_exchange(0, value, Relaxed, Relaxed).unwrap_or_else(|known| known),
            known => known,
        };
        value != 0 && (known == value || known == 0)
    }
}
