//! Parking: an idle queue is taken off the hardware so that an idle program draws no power.
//!
//! Source: `amdkfd/kfd_chardev.c:kfd_ioctl_update_queue` (a percentage of 0 deactivates).

use super::compute::Queue;
use crate::process::Process;
use crate::sys::{Errno, UpdateQueue, call};

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

    /// True if it is off the hardware.
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
