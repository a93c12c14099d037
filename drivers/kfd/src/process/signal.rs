//! Events of a process: their ids, and where GPUs write to raise them.

use crate::memory::Buffer;

/// An event's id. Signal ids are slots of the event page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventId(pub u32);

/// A signal event and where the GPU writes to raise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// The event, which is also the value to write.
    pub id: EventId,
    /// Address of its slot; `None` when this process has no event page of its own, so that the host polls.
    pub mailbox: Option<u64>,
}

/// The events of a process.
#[derive(Debug)]
pub struct Events {
    /// Cannot be freed before the process ends.
    pub(crate) page: Option<Buffer>,
    pub(crate) memory: EventId,
    pub(crate) hardware: EventId,
}
