//! Logs the events that the kernel reports about a GPU: heat, resets, evicted queues. They explain slow answers of a
//! program that runs for a long time.
//!
//! Not here: faults, which the backend handles.

use core::time::Duration;
use doorbell_kfd::process::{EvictionCause, GpuEvent, GpuEventKind, GpuEvents};
use tracing::Level;

/// Time between two reads of the kernel's events.
const INTERVAL: Duration = Duration::from_secs(1);

/// Logs events on a thread of its own until the kernel's event file can no longer be read.
pub(crate) fn follow(mut events: GpuEvents<'static>) {
    let follow = move || {
        while events.read(&mut |event| log(&event)).is_ok() {
            std::thread::sleep(INTERVAL);
        }
    };
    // without a thread these events are not logged; answers are not affected
    let _ = std::thread::Builder::new().name("gpu events".into()).spawn(follow);
}

fn log(event: &GpuEvent<'_>) {
    let (level, message) = describe(event);
    let kernel = event.text;
    if level == Level::WARN {
        tracing::warn!(kernel, "{message}");
    } else {
        tracing::info!(kernel, "{message}");
    }
}

/// The log level and message of an event.
fn describe(event: &GpuEvent<'_>) -> (Level, &'static str) {
    match (event.kind, event.cause()) {
        (GpuEventKind::PageFault, _) => (Level::WARN, "a program accessed GPU memory that is not mapped"),
        (GpuEventKind::ThermalThrottle, _) => {
            (Level::WARN, "the GPU is hot and runs slower; check its cooling")
        }
        (GpuEventKind::PreReset, _) => (Level::WARN, "the GPU is being reset"),
        (GpuEventKind::PostReset, _) => (Level::WARN, "the GPU has been reset"),
        (GpuEventKind::QueueEviction, Some(EvictionCause::Memory)) => (
            Level::WARN,
            "the GPU waits: its memory is full, and buffers are moved; close other programs that use it",
        ),
        (GpuEventKind::QueueEviction, Some(EvictionCause::SharedMemory | EvictionCause::UserMemory)) => {
            (Level::INFO, "the GPU waits: host memory that it reads is moved")
        }
        (GpuEventKind::QueueEviction, Some(EvictionCause::Suspend)) => {
            (Level::INFO, "the GPU waits: the system is being suspended")
        }
        (GpuEventKind::QueueEviction, _) => (Level::INFO, "the GPU waits: the kernel has stopped its queues"),
        (GpuEventKind::QueueRestore, _) => (Level::INFO, "the GPU continues"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_descriptions() {
        for (line, level, message) in [
            ("1 1092:doorbell", Level::WARN, "accessed GPU memory"),
            ("2 ff:1", Level::WARN, "is hot"),
            ("3 5", Level::WARN, "is being reset"),
            ("4 5", Level::WARN, "has been reset"),
            ("9 123456789 -4242 a1b2 2", Level::WARN, "memory is full"),
            ("9 123456789 -4242 a1b2 0", Level::INFO, "host memory"),
            ("9 123456789 -4242 a1b2 3", Level::INFO, "suspended"),
            ("9 123456789 -4242 a1b2 77", Level::INFO, "stopped its queues"),
            ("a 123456789 -4242 a1b2 0", Level::INFO, "continues"),
        ] {
            let found = describe(&GpuEvent::parse(line.as_bytes()).unwrap());
            assert!(found.0 == level && found.1.contains(message), "{line}: {found:?}");
        }
    }
}
