//! Priority, and parking: an idle queue is taken off the hardware so that an idle program draws no power.
//!
//! Source: `amdkfd/kfd_chardev.c:kfd_ioctl_update_queue` (a percentage of 0 deactivates). Time is the caller's.

use super::compute::{Queue, Submission};
use crate::process::Process;
use crate::sys::{Errno, UpdateQueue, call};

/// A queue's weight against others of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// Behind everything else.
    Low,
    /// As ROCm's default.
    #[default]
    Normal,
    /// Before everything else.
    High,
}

impl Priority {
    /// The kernel's number, 0 to 15. 2 to 4 are avoided: newer schedulers read them as medium to real-time.
    pub const fn number(self) -> u32 {
        match self {
            Self::Low => 0,
            Self::Normal => 7,
            Self::High => 11,
        }
    }
}

impl Queue {
    fn update(&self, process: &Process<'_>, queue_percentage: u32) -> Result<(), Errno> {
        let mut arg = UpdateQueue {
            ring_base_address: self.arg.ring_base_address,
            queue_id: self.id(),
            ring_size: self.arg.ring_size,
            queue_percentage,
            queue_priority: self.arg.queue_priority,
        };
        call(process.kernel(), process.kfd.fd(), &mut arg)
    }

    /// Whether it is off the hardware.
    pub fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// Takes the queue off the hardware; `false` when work is under way. The next submission brings it back.
    pub fn park(&mut self, process: &Process<'_>) -> Result<bool, Errno> {
        if self.completed() < self.last() || self.fault.is_some() {
            return Ok(false);
        }
        if !self.is_parked {
            self.update(process, 0)?;
            self.is_parked = true;
        }
        Ok(true)
    }

    /// Brings the queue back.
    pub fn unpark(&mut self, process: &Process<'_>) -> Result<(), Errno> {
        if self.is_parked {
            self.update(process, 100)?;
            self.is_parked = false;
        }
        Ok(())
    }
}

/// Parks a queue after a time without submissions.
#[derive(Clone, Copy, Debug)]
pub struct IdleTimer {
    limit_ms: u64,
    since_ms: u64,
    seen: Submission,
}

impl IdleTimer {
    /// A timer that parks after `limit_ms`.
    pub const fn new(limit_ms: u64, now_ms: u64) -> Self {
        Self { limit_ms, since_ms: now_ms, seen: Submission(0) }
    }

    /// Looks at the queue at time `now_ms` of any clock that does not go back; answers whether it is parked.
    pub fn tick(&mut self, queue: &mut Queue, process: &Process<'_>, now_ms: u64) -> Result<bool, Errno> {
        if queue.last() != self.seen || queue.completed() < queue.last() {
            (self.seen, self.since_ms) = (queue.last(), now_ms);
        }
        if queue.is_parked() || now_ms.saturating_sub(self.since_ms) >= self.limit_ms {
            return queue.park(process);
        }
        Ok(false)
    }
}
