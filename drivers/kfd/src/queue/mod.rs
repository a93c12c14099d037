//! Queues: creation by the kernel's buffer rules, the ring and doorbell protocol, waiting, parking, SDMA.
//!
//! The contents of packets are in [`crate::packet`].

mod buffers;
mod compute;
mod control;
mod create;
mod dma;
mod options;
mod profile;
mod ring;
mod save_area;
mod submission;
mod wait;

pub use compute::{Queue, SubmitError};
pub use create::CreateError;
pub use dma::{CopyEngine, CopyError, CopyFence};
pub use options::{Priority, QueueOptions};
pub use profile::{Interval, Profile};
pub use ring::{Producer, RingMemory};
pub use save_area::SaveArea;
pub use submission::{PacketRange, Submission};
pub use wait::{
    CompletionCounter, SleepResult, Sleeper, WaitError, WaitLimits, WaitOutcome, WaitProgress, wait_until,
};
