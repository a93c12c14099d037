//! Processor time for measurements: what a busy machine does not change.

pub(crate) use rustix::time::ClockId;

/// Seconds by a clock of Linux.
pub(crate) fn seconds(clock: ClockId) -> f64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
