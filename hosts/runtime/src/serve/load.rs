//! How busy the engine is, readable from any thread without waiting for it.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Classes of steps by the requests in them: up to 1, 2, 4 and so on, of which the last holds all that are allowed.
pub(super) const CLASSES: usize = 9;

/// Numbers that the engine's thread keeps up to date.
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

/// The numbers at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Requests that run or wait.
    pub live: u64,
    /// Requests that have produced something or are being computed.
    pub running: u64,
    /// Polls of the engine in which something happened.
    pub steps: u64,
    /// Requests that were being computed in these, summed.
    pub busy: u64,
    /// How many of the polls had up to 1, 2, 4 ... 256 requests being computed.
    pub batches: [u64; CLASSES],
    /// Tokens generated in these.
    pub tokens: u64,
    /// KV pages that nobody holds.
    pub pages_free: u64,
    /// KV pages in all.
    pub pages: u64,
    /// Whether the last step failed on the device.
    pub device_lost: bool,
    /// Whether the engine's thread has ended.
    pub ended: bool,
}

impl Load {
    /// The numbers now; each is right, together they may be from two moments.
    pub fn snapshot(&self) -> Snapshot {
        let number = |value: &AtomicU64| value.load(Ordering::Relaxed);
        Snapshot {
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
