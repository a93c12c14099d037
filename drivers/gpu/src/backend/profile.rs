//! Times of every dispatch by the device's own clock, where the backend was made for that.

use alloc::string::String;
use alloc::vec::Vec;
use doorbell_kfd::packet::Packet;
use doorbell_kfd::queue::{Interval, Profile, Queue};

use crate::error::GpuError;

/// When one kernel ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The kernel.
    pub kernel: String,
    /// Rows of the step.
    pub rows: u32,
    /// Nanoseconds of the device's clock at its start.
    pub start: u64,
    /// Those at its end.
    pub end: u64,
}

/// The dispatches timed so far.
#[derive(Default)]
pub(super) struct Timings {
    signals: Option<Profile>,
    list: Vec<Timing>,
}

impl Timings {
    pub(super) fn new(signals: Option<Profile>) -> Self {
        Self { signals, list: Vec::new() }
    }

    pub(super) fn signals(&mut self) -> Option<Profile> {
        self.signals.take()
    }

    /// The dispatches since the last call.
    pub(super) fn take(&mut self) -> Vec<Timing> {
        core::mem::take(&mut self.list)
    }

    /// Has every packet of the next submission timed.
    pub(super) fn attach(&mut self, packets: &mut [Packet]) -> Result<(), GpuError> {
        let attached = self.signals.as_mut().is_none_or(|signals| signals.attach(packets));
        attached.then_some(()).ok_or(GpuError::Tables)
    }

    /// Notes the times of the submission that has just become complete; `names` are those of its kernels, once if it
    /// ran them several times.
    pub(super) fn note(&mut self, queue: &Queue, names: &[String], rows: u32) {
        let Some(signals) = &self.signals else { return };
        let hz = signals.counter_hz();
        let timed = signals.intervals(queue).zip(names.iter().cycle());
        self.list.extend(timed.filter_map(|(interval, kernel)| {
            let interval = interval?;
            let since_zero = |end| Interval { start: 0, end }.nanoseconds(hz);
            let [start, end] = [interval.start, interval.end].map(since_zero);
            Some(Timing { kernel: kernel.clone(), rows, start, end })
        }));
    }
}
