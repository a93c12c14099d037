//! Waiting for a submission: spin, then sleep in the kernel, always together with the exception events.
//!
//! The procedure is written over two small traits so that a test can drive it through every interleaving of a
//! completion with the waiter's steps. Source: `amdkfd/kfd_events.c:kfd_wait_on_events` (event age closes the gap
//! between the last look and the sleep); 200 µs of spinning is what ROCR-Runtime does.

use super::buffers::signal;
use super::compute::Queue;
use super::submission::Submission;
use crate::fault::{Fault, InFlight, MemoryFault, QueueErrors, WaveFault};
use crate::process::{Exception, Process, suspends};
use crate::sys::{Errno, EventData, WaitEvents, wait_result};
use core::fmt;
use embedded_hal::delay::DelayNs;

/// The state of the work that is waited for.
pub trait CompletionCounter {
    /// Amount of work that is complete.
    fn completed(&self) -> u64;
    /// Anything that changes while work goes on.
    fn progress(&self) -> u64;
    /// True if the GPU or the kernel has written an error that is visible without a system call.
    fn has_error(&self) -> bool;
}

/// Reason why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepResult {
    /// The event was set, perhaps for another reason.
    Woken,
    /// The time is over.
    TimedOut,
    /// An exception event was set.
    Exception,
}

/// A way to sleep until something happens.
pub trait Sleeper {
    /// True if it can sleep without missing a wake-up. Otherwise the caller polls.
    fn can_sleep(&self) -> bool;
    /// Sleeps at most `timeout_ms`; 0 only polls.
    fn sleep(&mut self, timeout_ms: u32) -> Result<SleepResult, Errno>;
}

/// Time limits of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitLimits {
    /// Microseconds of spinning before the first sleep.
    pub spin_us: u32,
    /// Milliseconds without any progress after which the GPU counts as hanging.
    pub hang_ms: u32,
}

impl Default for WaitLimits {
    fn default() -> Self {
        Self { spin_us: 200, hang_ms: 10_000 }
    }
}

/// Result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The counter is there.
    Complete,
    /// The other side wrote an error.
    Error,
    /// An exception event was set.
    Exception,
    /// No progress for this many milliseconds.
    Hang(u32),
}

/// Longest single sleep, so that progress is looked at.
const SLICE_MS: u32 = 1000;

/// Step of spinning and of polling where sleeping is not safe.
const SPIN_NS: u32 = 1000;
const POLL_US: u32 = 50;

/// Waits until `counter` reaches `target`.
pub fn wait_until(
    counter: &impl CompletionCounter,
    sleeper: &mut impl Sleeper,
    target: u64,
    patience: WaitLimits,
    delay: &mut impl DelayNs,
) -> Result<WaitOutcome, Errno> {
    let look = || {
        if counter.completed() >= target {
            return Some(WaitOutcome::Complete);
        }
        counter.has_error().then_some(WaitOutcome::Error)
    };
    for _ in 0..u64::from(patience.spin_us) * 1000 / u64::from(SPIN_NS) {
        if let Some(outcome) = look() {
            return Ok(outcome);
        }
        delay.delay_ns(SPIN_NS);
    }
    let (mut progress, mut quiet_us, mut idle_wakes) = (counter.progress(), 0u64, 0u32);
    let hang_us = u64::from(patience.hang_ms) * 1000;
    loop {
        if let Some(outcome) = look() {
            return Ok(outcome);
        }
        let left_ms = u32::try_from((hang_us - quiet_us.min(hang_us)).div_ceil(1000)).unwrap_or(SLICE_MS);
        let timeout_ms = if sleeper.can_sleep() { left_ms.min(SLICE_MS) } else { 0 };
        let slept = sleeper.sleep(timeout_ms)?;
        if let Some(outcome) = look() {
            return Ok(outcome);
        }
        quiet_us += match slept {
            SleepResult::Exception => return Ok(WaitOutcome::Exception),
            SleepResult::TimedOut if timeout_ms > 0 => u64::from(timeout_ms) * 1000,
            // The event of an earlier completion wakes once; more than that must not become a busy loop.
            SleepResult::Woken if idle_wakes == 0 => 0,
            SleepResult::Woken | SleepResult::TimedOut => {
                let pause =
                    (POLL_US << idle_wakes.min(5)).min(if sleeper.can_sleep() { 1600 } else { POLL_US });
                delay.delay_us(pause);
                pause.into()
            }
        };
        idle_wakes = if slept == SleepResult::Woken { idle_wakes.saturating_add(1) } else { 0 };
        let now = counter.progress();
        if now != progress {
            (progress, quiet_us) = (now, 0);
        } else if quiet_us >= hang_us {
            return Ok(WaitOutcome::Hang(patience.hang_ms));
        }
    }
}

/// Longest time to wait for the kernel's report of a memory violation, in milliseconds.
const VIOLATION_MS: u32 = 50;

/// Progress of a submission over several polls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitProgress {
    progress: u64,
    quiet_ms: u32,
}

impl WaitProgress {
    /// Longest look, in milliseconds.
    pub const POLL_MS: u32 = 1;
}

/// Why a wait did not end well.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The GPU, its queue or its memory failed: see [`Queue::fault`].
    Faulted,
    /// WAIT_EVENTS was refused.
    Refused(Errno),
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Faulted => f.write_str("the queue has faulted"),
            Self::Refused(errno) => write!(f, "WAIT_EVENTS: {errno}"),
        }
    }
}

impl core::error::Error for WaitError {}

impl CompletionCounter for Queue {
    fn completed(&self) -> u64 {
        Self::completed(self).0
    }

    fn progress(&self) -> u64 {
        // The first two only grow; what a list counts begins anew with each.
        let started = u64::from(self.started()) << 40;
        Self::completed(self).0.wrapping_add(self.indexes().0).wrapping_add(started)
    }

    fn has_error(&self) -> bool {
        self.errors().is_some()
    }
}

/// Sleeps on the queue's event and both exception events.
struct QueueSleeper<'p, 'k> {
    process: &'p Process<'k>,
    can_sleep: bool,
    event: u32,
    age: u64,
    /// The queue's device.
    gpu_id: u32,
    /// Exceptions by device: a wait may report an exception of another device, and none is reported twice.
    exceptions: heapless::Vec<(u32, Exception), 8>,
}

impl QueueSleeper<'_, '_> {
    fn note(&mut self, gpu_id: u32, exception: Exception) -> bool {
        match self.exceptions.iter_mut().find(|held| held.0 == gpu_id) {
            Some(held) => held.1.merge(exception),
            // With more devices than the list holds, the rest would be reported as hanging.
            None => drop(self.exceptions.push((gpu_id, exception))),
        }
        gpu_id == self.gpu_id
    }
}

impl Sleeper for QueueSleeper<'_, '_> {
    fn can_sleep(&self) -> bool {
        self.can_sleep
    }

    fn sleep(&mut self, timeout_ms: u32) -> Result<SleepResult, Errno> {
        let mut elements = heapless::Vec::<EventData, 3>::new();
        let age = if self.can_sleep { self.age } else { 0 };
        let _ = elements.push(EventData::with_age(self.event, age));
        if let Some(events) = &self.process.events {
            let _ = elements.push(EventData::new(events.memory.0));
            let _ = elements.push(EventData::new(events.hardware.0));
        }
        let mut arg = WaitEvents { timeout: timeout_ms, ..WaitEvents::default() };
        self.process.kernel().wait(self.process.kfd.fd(), &mut arg, &mut elements)?;
        if arg.wait_result != wait_result::COMPLETE {
            return Ok(SleepResult::TimedOut);
        }
        self.age = elements[0].age().max(1);
        // Only data with a gpu id was written by the kernel.
        let memory = elements.get(1).map(EventData::memory).filter(|memory| memory.gpu_id != 0);
        let hardware = elements.get(2).map(EventData::hw).filter(|hardware| hardware.gpu_id != 0);
        let mut is_ours = false;
        if let Some(exception) = memory {
            is_ours |= self.note(exception.gpu_id, Exception { memory, hardware: None });
        }
        if let Some(exception) = hardware {
            is_ours |= self.note(exception.gpu_id, Exception { memory: None, hardware });
        }
        Ok(if is_ours { SleepResult::Exception } else { SleepResult::Woken })
    }
}

impl Queue {
    /// Errors that the packet processor or the kernel wrote for this queue.
    pub fn errors(&self) -> Option<QueueErrors> {
        let packet = self.signals().load64(signal::INACTIVE + signal::VALUE);
        let exceptions = self.signals().load64(signal::EXCEPTIONS);
        (packet != 0 || exceptions != 0).then_some(QueueErrors { packet, exceptions })
    }

    /// Waits until a submission is complete. On a fault the queue is dead, and the device too unless only the
    /// queue failed; nothing is tried again.
    pub fn wait(
        &mut self,
        process: &mut Process<'_>,
        target: Submission,
        patience: WaitLimits,
        delay: &mut impl DelayNs,
    ) -> Result<(), WaitError> {
        match self.outcome(process, target, patience, delay)? {
            WaitOutcome::Complete => Ok(()),
            outcome => self.fail(process, outcome),
        }
    }

    fn outcome(
        &mut self,
        process: &mut Process<'_>,
        target: Submission,
        patience: WaitLimits,
        delay: &mut impl DelayNs,
    ) -> Result<WaitOutcome, WaitError> {
        if self.fault.is_some() {
            return Err(WaitError::Faulted);
        }
        if process.device(self.device()).exception.is_some() {
            return Ok(WaitOutcome::Exception);
        }
        self.wait_and_note(process, target, patience, delay).map_err(WaitError::Refused)
    }

    /// Notes why a wait has ended badly.
    fn fail<T>(&mut self, process: &mut Process<'_>, outcome: WaitOutcome) -> Result<T, WaitError> {
        self.fault = Some(match outcome {
            WaitOutcome::Complete | WaitOutcome::Exception => self.exception(process),
            WaitOutcome::Error => self.stopped(process),
            WaitOutcome::Hang(ms) => self.hang(process, ms),
        });
        Err(WaitError::Faulted)
    }

    /// One look at a submission by a caller that has other things to do: whether it is complete. It takes
    /// [`WaitProgress::POLL_MS`] at most, and less when the submission completes meanwhile. What looks in a row have
    /// seen is kept in `watch`; without progress for `hang_ms` the GPU counts as hanging. Faults are as in
    /// [`Self::wait`].
    pub fn poll(
        &mut self,
        process: &mut Process<'_>,
        target: Submission,
        watch: &mut WaitProgress,
        hang_ms: u32,
        delay: &mut impl DelayNs,
    ) -> Result<bool, WaitError> {
        if self.fault.is_none() && self.completed() >= target {
            return Ok(true);
        }
        let progress = CompletionCounter::progress(self);
        if progress != watch.progress {
            *watch = WaitProgress { progress, quiet_ms: 0 };
        }
        let patience = WaitLimits { spin_us: 0, hang_ms: WaitProgress::POLL_MS };
        match self.outcome(process, target, patience, delay)? {
            WaitOutcome::Complete => Ok(true),
            WaitOutcome::Hang(_) => {
                watch.quiet_ms = watch.quiet_ms.saturating_add(WaitProgress::POLL_MS);
                if watch.quiet_ms < hang_ms {
                    return Ok(false);
                }
                self.fail(process, WaitOutcome::Hang(watch.quiet_ms))
            }
            outcome => self.fail(process, outcome),
        }
    }

    /// Waits, and marks every device that an exception event named as lost.
    fn wait_and_note(
        &mut self,
        process: &mut Process<'_>,
        target: Submission,
        patience: WaitLimits,
        delay: &mut impl DelayNs,
    ) -> Result<WaitOutcome, Errno> {
        let mut sleeper = QueueSleeper {
            process,
            can_sleep: process.version().has_event_age() && self.event().mailbox.is_some(),
            event: self.event().id.0,
            age: self.age,
            gpu_id: process.device(self.device()).gpu_id(),
            exceptions: heapless::Vec::new(),
        };
        let mut outcome = wait_until(self, &mut sleeper, target.0, patience, delay);
        // After a page fault the kernel reports the page with its address, too.
        if matches!(outcome, Ok(WaitOutcome::Error)) && self.errors().is_some_and(QueueErrors::is_violation) {
            for _ in 0..VIOLATION_MS {
                if sleeper.sleep(0) == Ok(SleepResult::Exception) {
                    outcome = Ok(WaitOutcome::Exception);
                    break;
                }
                delay.delay_ms(1);
            }
        }
        let QueueSleeper { age, exceptions, .. } = sleeper;
        self.age = age;
        for (gpu_id, exception) in exceptions {
            for device in process.devices.iter_mut().filter(|device| device.gpu_id() == gpu_id) {
                device.lost = true;
                device.exception.merge(exception);
            }
        }
        outcome
    }

    /// The fault of a queue that has stopped.
    fn stopped(&self, process: &Process<'_>) -> Fault {
        let errors = self.errors().unwrap_or_default();
        if !errors.is_wave() {
            return Fault::Queue(errors, self.flight());
        }
        self.wave(process, errors).unwrap_or_else(|| Fault::Queue(errors, self.flight()))
    }

    /// The fault that the trap handler has recorded, if any.
    fn wave(&self, process: &Process<'_>, mut errors: QueueErrors) -> Option<Fault> {
        let (record, waves) = process.trapped(self.device(), self.doorbell_id())?;
        errors.exceptions |= record.exceptions;
        let near = process.allocations().nearest(record.pc);
        Some(Fault::Wave(WaveFault { errors, record, near, waves }, self.flight()))
    }

    /// The reason for a hang. The trap handler may have recorded a wave that the kernel has not reported.
    fn hang(&self, process: &mut Process<'_>, ms: u32) -> Fault {
        if let Some(fault) = self.wave(process, QueueErrors::default()) {
            return fault;
        }
        if suspends(process.kernel()) == process.suspends {
            return Fault::Hang(ms, self.flight());
        }
        // The count stays: queues of the other devices have slept as well.
        let device = &mut process.devices[usize::from(self.device().0)];
        device.lost = true;
        Fault::Suspended(device.gpu_id(), ms, self.flight())
    }

    /// A reset explains a fault that came with it, not the other way round.
    fn exception(&self, process: &Process<'_>) -> Fault {
        let Exception { memory, hardware } = process.device(self.device()).exception;
        match (hardware, memory) {
            (Some(hardware), _) => Fault::Reset(hardware, self.flight()),
            (None, Some(exception)) => {
                let near = process.allocations().nearest(exception.va);
                Fault::Memory(MemoryFault { exception, near }, self.flight())
            }
            (None, None) => Fault::Queue(self.errors().unwrap_or_default(), self.flight()),
        }
    }

    pub(super) fn flight(&self) -> InFlight {
        let (read, written) = self.indexes();
        let mut ranges = heapless::Vec::new();
        for range in self.in_flight() {
            if ranges.push(*range).is_err() {
                break;
            }
        }
        InFlight { read, written, started: self.started(), ranges }
    }
}
