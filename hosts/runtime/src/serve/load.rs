//! Counters of the engine's load, which any thread can read without waiting.
//!
//! Not here: metrics in the format of a protocol (`doorbell-server`).

use super::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Classes of steps by the number of their requests: up to 1, 2, 4 and so on to 256, the largest `--parallel`.
pub(super) const CLASSES: usize = 9;

/// Counters that the engine's thread keeps up to date.
#[derive(Debug, Default)]
pub struct Load {
    pub(super) live: AtomicU64,
    pub(super) running: AtomicU64,
    pub(super) steps: AtomicU64,
    pub(super) busy: AtomicU64,
    pub(super) batches: [AtomicU64; CLASSES],
    pub(super) tokens: AtomicU64,
    pub(super) pages_free: AtomicU64,
    pub(super) pages: AtomicU64,
    pub(super) device_lost: AtomicBool,
    pub(super) ended: AtomicBool,
}

/// Values of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadSnapshot {
    /// Requests that run or wait.
    pub live: u64,
    /// Requests that have started: part of the prompt is computed.
    pub running: u64,
    /// Polls of the engine that reported events.
    pub steps: u64,
    /// Sum of the running requests over these polls.
    pub busy: u64,
    /// Numbers of these polls with up to 1, 2, 4 ... 256 running requests.
    pub batches: [u64; CLASSES],
    /// Generated tokens.
    pub tokens: u64,
    /// KV pages that are free or can be evicted.
    pub pages_free: u64,
    /// All KV pages.
    pub pages: u64,
    /// True if the last step failed on the device.
    pub device_lost: bool,
    /// True if the engine's thread has ended.
    pub ended: bool,
}

impl Load {
    /// Reads the counters. Each value is correct, but they may be from different moments.
    pub fn snapshot(&self) -> LoadSnapshot {
        let number = |value: &AtomicU64| value.load(Ordering::Relaxed);
        LoadSnapshot {
            live: number(&self.live),
            running: number(&self.running),
            steps: number(&self.steps),
            busy: number(&self.busy),
            batches: core::array::from_fn(|class| number(&self.batches[class])),
            tokens: number(&self.tokens),
            pages_free: number(&self.pages_free),
            pages: number(&self.pages),
            device_lost: self.device_lost.load(Ordering::Relaxed),
            ended: self.ended.load(Ordering::Relaxed),
        }
    }
}
