//! Trap handlers, interrupt messages, and the exception state of a wave.
//!
//! Not here: entering and leaving a handler (`trap_entry.rs`).

use super::fault::Cause;

/// A handler of the process.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trap {
    /// Address of its first instruction.
    pub handler: u64,
    /// Its data pointer.
    pub data: u64,
    /// Number of the queue's doorbell within the process.
    pub doorbell: u32,
}

/// An interrupt message of a wave.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Low 24 bits of m0.
    pub data: u32,
    /// Sent by a trap handler.
    pub privileged: bool,
}

/// Exception state of a wave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exceptions {
    /// Executes a trap handler.
    pub(crate) privileged: bool,
    /// Stops when it leaves the handler.
    pub(crate) halt: bool,
    /// TRAPSTS on gfx11, EXCP_FLAG_PRIV on gfx12.
    pub(crate) flags: u32,
    /// Address and cause of the last entry into the handler.
    pub(crate) cause: Option<(u64, Cause)>,
}
