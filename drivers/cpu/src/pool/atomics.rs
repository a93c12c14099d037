//! The atomics and locks of `sync`; the test `loom` replaces them by others.

pub(super) use core::sync::atomic::{AtomicBool, AtomicUsize};
pub(super) use std::sync::{Condvar, Mutex};

pub(super) use core::hint::spin_loop as pause;
pub(super) use std::thread::yield_now;

/// Pauses before a waiting thread gives its core away; a phase's last threads mostly arrive sooner.
pub(super) const SPINS: u32 = 2_000;
/// Yields before it goes to sleep.
pub(super) const YIELDS: u32 = 200;
