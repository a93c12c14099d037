//! Injected faults.

use doorbell_kfd::sys::{Errno, Request};

/// Faults to inject. They can be changed while the kernel runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Injection {
    /// ALLOC calls that succeed before one fails with ENOMEM.
    pub allocations_left: Option<u32>,
    /// Every call is refused with EINTR this many times before it is done.
    pub interruptions: u32,
    /// This request is always refused.
    pub refuse: Option<(Request, Errno)>,
    /// WAIT_EVENTS calls that complete although nothing happened.
    pub spurious: u32,
    /// A GPU reset happens before the packet processor takes its next packet after this many doorbells.
    pub reset_after: Option<u32>,
    /// GPUs take no more packets after this many doorbells.
    pub hang_after: Option<u32>,
    /// After this many doorbells every GPU faults on the first page of the oldest allocation that is mapped there.
    pub fault_after: Option<u32>,
    /// Queues are evicted at a doorbell and run only at the next wait.
    pub evicted: bool,
}
