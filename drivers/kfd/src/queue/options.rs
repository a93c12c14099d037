//! Options of a compute queue: its size and its priority.

/// A queue's weight against others of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// Behind everything else.
    Low,
    /// ROCm's default.
    #[default]
    Normal,
    /// Before everything else.
    High,
}

impl Priority {
    /// The kernel's number, 0 to 15. 2 to 4 are avoided: newer schedulers read them as medium to real-time.
    pub const fn number(self) -> u32 {
        match self {
            Self::Low => 0,
            Self::Normal => 7,
            Self::High => 11,
        }
    }
}

/// Options of a compute queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Packets of the ring: a power of two from 64 to 65536. 1024 holds a decode step of 900 dispatches.
    pub packets: u32,
    /// Against other queues of the device.
    pub priority: Priority,
    /// Have the packet processor write start and end of the last packet of each submission.
    pub profile: bool,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { packets: 1024, priority: Priority::Normal, profile: false }
    }
}
