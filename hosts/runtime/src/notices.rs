//! What the kernel tells about a GPU beside faults, for the log of a program that runs for long: it explains answers that
//! are slow. What is to be done about faults is the backend's matter.

use core::time::Duration;
use doorbell_kfd::process::{EvictionCause, GpuEvent, GpuEventKind, GpuEvents};
use tracing::Level;

/// How often the kernel is asked.
const INTERVAL: Duration = Duration::from_secs(1);

/// Logs what comes, on a thread of its own, for as long as the kernel can be asked.
pub(crate) fn follow(mut notices: GpuEvents<'static>) {
    let follow = move || {
        while notices.read(&mut |notice| log(&notice)).is_ok() {
            std::thread::sleep(INTERVAL);
        }
    };
    // without a thread the log says less, and answers come as before
    let _ = std::thread::Builder::new().name("notices".into()).spawn(follow);
}

fn log(notice: &GpuEvent<'_>) {
    let (level, words) = told(notice);
    let kernel = notice.text;
    if level == Level::WARN {
        tracing::warn!(kernel, "{words}");
    } else {
        tracing::info!(kernel, "{words}");
    }
}

/// A notice in words, and how much it matters.
fn told(notice: &GpuEvent<'_>) -> (Level, &'static str) {
    match (notice.kind, notice.cause()) {
        (GpuEventKind::PageFault, _) => (Level::WARN, "a program touched GPU memory that it doesn't have"),
        (GpuEventKind::ThermalThrottle, _) => {
            (Level::WARN, "the GPU is hot and runs slower; see to its cooling")
        }
        (GpuEventKind::PreReset, _) => (Level::WARN, "the GPU is being reset"),
        (GpuEventKind::PostReset, _) => (Level::WARN, "the GPU has been reset"),
        (GpuEventKind::QueueEviction, Some(EvictionCause::Memory)) => (
            Level::WARN,
            "the GPU waits: its memory is short, and buffers have to move; end other programs on it",
        ),
        (GpuEventKind::QueueEviction, Some(EvictionCause::SharedMemory | EvictionCause::UserMemory)) => {
            (Level::INFO, "the GPU waits: memory that it reads moves on the host")
        }
        (GpuEventKind::QueueEviction, Some(EvictionCause::Suspend)) => {
            (Level::INFO, "the GPU waits: the system is being suspended")
        }
        (GpuEventKind::QueueEviction, _) => (Level::INFO, "the GPU waits: the kernel has stopped its queues"),
        (GpuEventKind::QueueRestore, _) => (Level::INFO, "the GPU goes on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_have_words() {
        for (line, level, words) in [
            ("1 1092:doorbell", Level::WARN, "touched GPU memory"),
            ("2 ff:1", Level::WARN, "is hot"),
            ("3 5", Level::WARN, "is being reset"),
            ("4 5", Level::WARN, "has been reset"),
            ("9 123456789 -4242 a1b2 2", Level::WARN, "memory is short"),
            ("9 123456789 -4242 a1b2 0", Level::INFO, "moves on the host"),
            ("9 123456789 -4242 a1b2 3", Level::INFO, "suspended"),
            ("9 123456789 -4242 a1b2 77", Level::INFO, "stopped its queues"),
            ("a 123456789 -4242 a1b2 0", Level::INFO, "goes on"),
        ] {
            let found = told(&GpuEvent::parse(line.as_bytes()).unwrap());
            assert!(found.0 == level && found.1.contains(words), "{line}: {found:?}");
        }
    }
}
