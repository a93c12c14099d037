//! Waiting for submissions, one poll at a time, and errors of a fault.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use doorbell_kfd::fault::Fault;
use doorbell_kfd::queue::{Queue, Submission, WaitError, WaitProgress};

use crate::device::GpuDevice;
use crate::error::GpuError;

/// Polls a submission once: true if it is complete.
pub(super) fn poll(
    device: &mut GpuDevice<'_>,
    queue: &mut Queue,
    submission: Submission,
    progress: &mut WaitProgress,
    hang_ms: u32,
    names: &[String],
) -> Result<bool, GpuError> {
    let GpuDevice { process, delay, .. } = device;
    match queue.poll(process, submission, progress, hang_ms, &mut &mut **delay) {
        Ok(complete) => Ok(complete),
        Err(WaitError::Refused(errno)) => Err(GpuError::Wait(errno)),
        Err(_) => Err(match queue.fault() {
            Some(fault) => GpuError::Fault(Box::new(fault.clone()), kernel_of(fault, names)),
            None => GpuError::Lost(None),
        }),
    }
}

/// The last kernel of a submission that was started: the packet processor has taken its packet, or its list says so.
fn kernel_of(fault: &Fault, names: &[String]) -> Option<String> {
    let flight = fault.in_flight();
    let first = flight.ranges.first()?.first;
    let started = match flight.started {
        0 => flight.read.saturating_sub(first),
        started => started.into(),
    };
    // A multi-step submission runs the same kernels several times.
    let last = (usize::try_from(started).ok()?.max(1) - 1).checked_rem(names.len())?;
    Some(format!("{} ({} of {} dispatches of the step)", names.get(last)?, last + 1, names.len()))
}

pub(super) fn wait(
    device: &mut GpuDevice<'_>,
    queue: &mut Queue,
    submission: Submission,
    progress: &mut WaitProgress,
    hang_ms: u32,
    names: &[String],
) -> Result<(), GpuError> {
    while !poll(device, queue, submission, progress, hang_ms, names)? {}
    Ok(())
}
