//! A process's connection to KFD: bring-up in the one order that works, devices, events, teardown.
//!
//! Buffers are in [`crate::memory`], queues in [`crate::queue`].

mod bring_up;
mod connection;
mod device;
mod device_index;
mod events;
mod file;
mod gpu_events;
mod queries;
mod signal;
mod teardown;
mod trap;
mod trap_record;

pub use bring_up::{BringUpError, MINIMUM_MINOR, Stage};
pub(crate) use connection::suspends;
pub use connection::{Process, Version};
pub use device::Device;
pub(crate) use device::Exception;
pub use device_index::DeviceIndex;
pub use gpu_events::{EvictionCause, GpuEvent, GpuEventKind, GpuEvents};
pub use queries::Clocks;
pub use signal::{EventId, Events, Signal};
pub use teardown::Leak;
pub use trap::TrapError;
pub use trap_record::TrapRecord;
