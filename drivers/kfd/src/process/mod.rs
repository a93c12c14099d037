//! A process's connection to KFD: bring-up in the one order that works, devices, events, teardown.
//!
//! Buffers are in [`crate::memory`], queues in [`crate::queue`].

mod bring_up;
mod device;
mod events;
mod file;
mod gpu_events;
mod teardown;
mod trap;

pub(crate) use bring_up::suspends;
pub use bring_up::{BringUpError, MINIMUM_MINOR, Process, Stage, Version};
pub(crate) use device::Exception;
pub use device::{Clocks, Device, DeviceIndex};
pub use events::{EventId, Events, Signal};
pub use gpu_events::{EvictionCause, GpuEvent, GpuEventKind, GpuEvents};
pub use teardown::Leak;
pub use trap::{TrapError, TrapRecord};
