//! Queues: creation by the kernel's buffer rules, the ring and doorbell protocol, waiting, parking, SDMA.
//!
//! What packets say is [`crate::packet`]'s matter.

mod compute;
mod control;
mod create;
mod dma;
mod profile;
mod ring;
mod save_area;
mod wait;

pub use compute::{PacketRange, Queue, Submission, SubmitError};
pub use control::Priority;
pub use create::{CreateError, QueueOptions};
pub use dma::{CopyEngine, CopyError, CopyFence};
pub use profile::{Interval, Profile};
pub use ring::{Producer, RingMemory};
pub use save_area::SaveArea;
pub use wait::{
    CompletionCounter, SleepResult, Sleeper, WaitError, WaitLimits, WaitOutcome, WaitProgress, wait_until,
};
