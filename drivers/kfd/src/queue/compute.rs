//! A compute queue in use: submitting, its completion counter, what is in flight. Creating one is in `create`.
//!
//! Every submission ends in one packet that waits for all before it and subtracts 1 from the queue's counter, so
//! submission `n` is complete when the counter has gone down by `n`. The counter is never set again.

use super::buffers::{Buffers, COUNTER_START, field, signal};
use super::options::QueueOptions;
use super::ring::Producer;
use super::submission::{PacketRange, Submission};
use crate::fault::Fault;
use crate::packet::Packet;
use crate::process::{DeviceIndex, Process, Signal};
use crate::sys::{CreateQueue, Window};
use core::fmt;

/// Why nothing was submitted.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubmitError {
    /// There are no packets.
    Empty,
    /// More packets than the ring has slots, ever: packets and slots.
    TooLong(usize, u64),
    /// The ring is full now: free slots. Wait for an earlier submission and try again.
    Full(u64),
    /// The queue has faulted, or its device is lost.
    Dead,
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("nothing to submit"),
            Self::TooLong(packets, slots) => write!(f, "{packets} packets for a ring of {slots}"),
            Self::Full(free) => write!(f, "the ring is full ({free} slots free): wait and try again"),
            Self::Dead => f.write_str("the queue is dead: destroy it and reopen the device"),
        }
    }
}

impl core::error::Error for SubmitError {}

/// Submissions remembered for fault reports.
const REMEMBERED: usize = 64;

/// Packets after which the doorbell is rung in a long submission, so that the GPU starts early.
const BATCH: usize = 64;

/// An AQL compute queue.
#[derive(Debug)]
pub struct Queue {
    device: DeviceIndex,
    id: u32,
    doorbell: usize,
    pub(super) arg: CreateQueue,
    options: QueueOptions,
    event: Signal,
    pub(super) age: u64,
    buffers: Buffers,
    producer: Producer,
    submitted: u64,
    recent: heapless::Deque<PacketRange, REMEMBERED>,
    pub(super) is_parked: bool,
    pub(super) fault: Option<Fault>,
}

impl Queue {
    pub(super) fn new(
        device: DeviceIndex,
        id: u32,
        doorbell: usize,
        arg: CreateQueue,
        options: QueueOptions,
        event: Signal,
        buffers: Buffers,
    ) -> Self {
        let producer = Producer::new(options.packets.into(), field::READ_INDEX, field::WRITE_INDEX);
        let recent = heapless::Deque::new();
        let (age, submitted, is_parked, fault) = (1, 0, false, None);
        Self {
            device,
            id,
            doorbell,
            arg,
            options,
            event,
            age,
            buffers,
            producer,
            submitted,
            recent,
            is_parked,
            fault,
        }
    }

    pub(super) fn into_parts(self) -> (DeviceIndex, u32, Signal, Buffers) {
        (self.device, self.id, self.event, self.buffers)
    }

    /// The device.
    pub fn device(&self) -> DeviceIndex {
        self.device
    }

    /// The kernel's id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The event that completions and errors of this queue set; setting it ends a wait.
    pub fn event(&self) -> Signal {
        self.event
    }

    /// The options it was made with.
    pub fn options(&self) -> QueueOptions {
        self.options
    }

    /// The number by which trap handlers and the kernel know it: its doorbell's place in the process's slice.
    pub(super) fn doorbell_id(&self) -> u32 {
        (self.doorbell / 8) as u32
    }

    pub(super) fn signals(&self) -> &Window {
        self.buffers.signals()
    }

    /// The last submission made.
    pub fn last(&self) -> Submission {
        Submission(self.submitted)
    }

    /// The last submission that is complete.
    #[inline]
    pub fn completed(&self) -> Submission {
        let value = self.signals().load64(signal::COMPLETION + signal::VALUE);
        Submission(COUNTER_START.wrapping_sub(value).min(self.submitted))
    }

    /// The fault that stopped the queue for good, if there was one.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Packets taken by the packet processor and packets written.
    pub fn indexes(&self) -> (u64, u64) {
        let written = self.producer.written();
        (self.producer.read_index(self.buffers.pointers()).min(written), written)
    }

    /// Address of the word to which a PM4 list may write how many of its dispatches it has started, so that hangs are
    /// distinguished from slow lists and faults name a dispatch; see [`Self::started`].
    pub fn started_va(&self) -> u64 {
        self.buffers.started()
    }

    /// Dispatches that the running list says it has started; 0 when no list has said anything since the queue was idle.
    pub fn started(&self) -> u32 {
        self.signals().load32(signal::STARTED)
    }

    /// GPU counter at start and end of the last packet of the last complete submission, when profiling.
    pub fn timestamps(&self) -> Option<(u64, u64)> {
        let stamps = [signal::START, signal::END].map(|at| self.signals().load64(signal::COMPLETION + at));
        (self.options.profile && stamps[1] != 0).then_some((stamps[0], stamps[1]))
    }

    /// Submissions that are not known to be complete: the recent ones after the last complete one.
    pub fn in_flight(&self) -> impl Iterator<Item = &PacketRange> {
        let completed = self.completed();
        self.recent.iter().filter(move |range| range.submission > completed)
    }

    /// Copies packets into the ring and rings the doorbell. The last packet is made to wait for all others and
    /// to count the submission; `label` comes back in fault reports. Allocates nothing and makes no system call
    /// unless the queue was parked.
    pub fn submit(
        &mut self,
        process: &Process<'_>,
        packets: &[Packet],
        label: u32,
    ) -> Result<Submission, SubmitError> {
        let (last, rest) = packets.split_last().ok_or(SubmitError::Empty)?;
        let slots = u64::from(self.options.packets);
        let count = packets.len() as u64;
        if count > slots {
            return Err(SubmitError::TooLong(packets.len(), slots));
        }
        let device = process.device(self.device);
        let doorbells =
            device.doorbells.as_ref().filter(|_| self.fault.is_none() && !process.is_lost(self.device));
        let doorbells = doorbells.ok_or(SubmitError::Dead)?;
        let free = self.producer.free(self.buffers.pointers(), count);
        if free < count {
            return Err(SubmitError::Full(free));
        }
        if self.is_parked && self.unpark(process).is_err() {
            return Err(SubmitError::Dead);
        }
        if self.completed() == self.last() {
            self.signals().store32(signal::STARTED, 0);
        }
        let first = self.producer.written();
        // Room was made above, so every batch is published.
        for batch in rest.chunks(BATCH) {
            let value = self.producer.publish(self.buffers.ring(), self.buffers.pointers(), batch);
            if let Some(value) = value.filter(|_| batch.len() == BATCH) {
                process.kernel().ring(doorbells, self.doorbell, value);
            }
        }
        let mut last = *last;
        last.set_barrier();
        last.set_completion_signal(self.buffers.completion_signal());
        if let Some(value) = self.producer.publish(self.buffers.ring(), self.buffers.pointers(), &[last]) {
            process.kernel().ring(doorbells, self.doorbell, value);
        }
        self.submitted += 1;
        let submission = Submission(self.submitted);
        if self.recent.is_full() {
            self.recent.pop_front();
        }
        let _ = self.recent.push_back(PacketRange { submission, label, first, count });
        if device.is_gone() || process.has_lost_page(self.device) {
            self.fault = Some(Fault::Gone(device.gpu_id(), self.flight()));
            return Err(SubmitError::Dead);
        }
        Ok(submission)
    }
}
