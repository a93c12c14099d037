//! A queue of the command processor.
//!
//! Not here: the kernel's checks at creation (`kernel`).

/// Content of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueKind {
    /// PM4 words; pointers count dwords.
    Pm4,
    /// SDMA words; pointers count bytes.
    Sdma,
    /// AQL packets; pointers count packets.
    Aql,
}

/// One queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queue {
    /// Number that the kernel gave it.
    pub id: u32,
    /// Content of the ring.
    pub kind: QueueKind,
    /// Address of the ring.
    pub ring: u64,
    /// Bytes of the ring, a power of two.
    pub bytes: u64,
    /// Address of the read pointer.
    pub read_pointer: u64,
    /// Address of the write pointer.
    pub write_pointer: u64,
    /// Number of its doorbell within the process.
    pub doorbell: u32,
    /// Last doorbell value.
    pub rung: Option<u64>,
    /// Packets, dwords or bytes consumed.
    pub read: u64,
    /// Mapped to hardware.
    pub is_active: bool,
    /// Stopped for good by an error or a fault.
    pub is_stopped: bool,
    /// The indirect buffer that waits for a condition.
    pub(super) waiting: Option<IndirectBuffer>,
}

/// An indirect buffer and the position in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IndirectBuffer {
    /// Address.
    pub(super) address: u64,
    /// Length.
    pub(super) dwords: u32,
    /// Dwords consumed.
    pub(super) position: usize,
}

impl Queue {
    /// An active queue that has consumed nothing.
    pub fn new(id: u32, kind: QueueKind, ring: u64, bytes: u64, pointers: [u64; 2]) -> Self {
        let [read_pointer, write_pointer] = pointers;
        Self {
            id,
            kind,
            ring,
            bytes,
            read_pointer,
            write_pointer,
            doorbell: 0,
            rung: None,
            read: 0,
            is_active: true,
            is_stopped: false,
            waiting: None,
        }
    }
}
