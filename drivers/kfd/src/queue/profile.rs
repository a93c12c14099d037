//! When each packet of a submission began and ended, by one signal a packet. What the packets are called is the
//! caller's matter.
//!
//! The packet processor writes start and end into a packet's completion signal when the queue was made with
//! [`QueueOptions::profile`](super::QueueOptions). Source: HSA runtime specification 2.8 (`amd_signal_t`),
//! ROCR-Runtime `amd_hsa_signal.h`.

use super::buffers::signal;
use super::compute::Queue;
use crate::memory::{AllocError, Buffer, FreeError, Name, Usage};
use crate::packet::Packet;
use crate::process::{DeviceIndex, Process};

/// Bytes of a signal.
const SIGNAL: usize = 64;

/// Start and end of one packet in ticks of the GPU's counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Start.
    pub start: u64,
    /// End, not before the start.
    pub end: u64,
}

impl Interval {
    /// Nanoseconds from start to end at `hz` ticks per second.
    pub fn nanoseconds(self, hz: u64) -> u64 {
        let ticks = u128::from(self.end.saturating_sub(self.start));
        let nanoseconds = (ticks * 1_000_000_000).checked_div(hz.into()).unwrap_or(0);
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }
}

/// Signals for the packets of one submission, used again for the next.
#[derive(Debug)]
pub struct Profile {
    buffer: Buffer,
    hz: u64,
    /// Packets of the submission that they stand for.
    count: usize,
}

impl Profile {
    /// Signals for submissions of up to `packets` packets.
    pub fn new(process: &mut Process<'_>, device: DeviceIndex, packets: usize) -> Result<Self, AllocError> {
        let bytes = packets.max(1).checked_mul(SIGNAL).ok_or(AllocError::OutOfMemory)? as u64;
        let buffer = process.allocate(device, Usage::Signals, bytes, Name::new("queue: profile"))?;
        Ok(Self { buffer, hz: process.device(device).counter_hz(), count: 0 })
    }

    /// Gives the memory back.
    pub fn destroy(self, process: &mut Process<'_>) -> Result<u64, FreeError> {
        process.free(self.buffer)
    }

    /// Ticks per second.
    pub fn counter_hz(&self) -> u64 {
        self.hz
    }

    /// Gives every packet a signal of its own, except the last one: submitting makes that count the submission.
    /// `false`, and nothing is changed, when there are more packets than signals. An earlier submission with these
    /// signals must be complete.
    #[must_use]
    pub fn attach(&mut self, packets: &mut [Packet]) -> bool {
        const USER: u64 = 1;
        let window = self.buffer.host();
        if packets.len() > window.len() / SIGNAL {
            return false;
        }
        self.count = packets.len();
        let rest = packets.len().saturating_sub(1);
        for (index, packet) in packets[..rest].iter_mut().enumerate() {
            let at = index * SIGNAL;
            // No mailbox: only the end of the submission wakes a waiter.
            for (field, value) in [
                (signal::KIND, USER),
                (signal::VALUE, 1),
                (signal::MAILBOX, 0),
                (signal::START, 0),
                (signal::END, 0),
            ] {
                window.store64(at + field, value);
            }
            packet.set_completion_signal(self.buffer.va() + at as u64);
        }
        true
    }

    /// The intervals of the packets, in their order, once the submission is complete and is the queue's last one.
    /// `None` for a packet without times: its queue was created without profiling.
    pub fn intervals<'p>(&'p self, queue: &'p Queue) -> impl Iterator<Item = Option<Interval>> + 'p {
        let window = self.buffer.host();
        (0..self.count).map(move |index| {
            let (start, end) = if index + 1 == self.count {
                queue.timestamps()?
            } else {
                let at = index * SIGNAL;
                (window.load64(at + signal::START), window.load64(at + signal::END))
            };
            (end != 0 && start <= end).then_some(Interval { start, end })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds() {
        let interval = Interval { start: 5, end: 105 };
        assert_eq!(interval.nanoseconds(100_000_000), 1000);
        assert_eq!(interval.nanoseconds(0), 0);
        assert_eq!(Interval { start: 0, end: u64::MAX }.nanoseconds(1), u64::MAX);
    }
}
