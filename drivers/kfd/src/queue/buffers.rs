//! The buffers of a queue, and the offsets of everything in them.
//!
//! Source: `amd_hsa_queue.h` and `amd_hsa_signal.h` of ROCR-Runtime.

use crate::memory::{AllocError, Buffer, FreeError, Name, Usage};
use crate::process::{DeviceIndex, Process};
use crate::sys::Window;

/// Offsets in the pointer page: an `amd_queue_t`.
pub(super) mod field {
    pub(crate) const TYPE_AND_FEATURES: usize = 0x00;
    pub(crate) const BASE_ADDRESS: usize = 0x08;
    pub(crate) const SIZE: usize = 0x18;
    pub(crate) const WRITE_INDEX: usize = 0x38;
    pub(crate) const LDS_APERTURE: usize = 0x40;
    pub(crate) const SCRATCH_APERTURE: usize = 0x44;
    pub(crate) const MAX_CU_ID: usize = 0x48;
    pub(crate) const MAX_WAVE_ID: usize = 0x4C;
    pub(crate) const READ_INDEX: usize = 0x80;
    pub(crate) const READ_INDEX_OFFSET: usize = 0x88;
    pub(crate) const PROPERTIES: usize = 0xB4;
    pub(crate) const SCRATCH_MAX_USE: usize = 0xB8;
    pub(crate) const INACTIVE_SIGNAL: usize = 0xC0;
}

/// Offsets in the signal page.
pub(super) mod signal {
    /// The completion counter, an `amd_signal_t`.
    pub(crate) const COMPLETION: usize = 0;
    /// The signal to which the packet processor writes queue errors, an `amd_signal_t`.
    pub(crate) const INACTIVE: usize = 64;
    /// The word into which the kernel ORs exception bits.
    pub(crate) const EXCEPTIONS: usize = 128;
    /// The word in which a PM4 list counts the dispatches that it has started.
    pub(crate) const STARTED: usize = 192;
    /// Fields of an `amd_signal_t`.
    pub(crate) const KIND: usize = 0;
    pub(crate) const VALUE: usize = 8;
    pub(crate) const MAILBOX: usize = 16;
    pub(crate) const EVENT: usize = 24;
    pub(crate) const START: usize = 32;
    pub(crate) const END: usize = 40;
}

/// Start value of the completion counter: far from 0 in both directions.
pub(super) const COUNTER_START: u64 = 1 << 62;

/// The buffers of a queue, freed together.
#[derive(Debug, Default)]
pub(super) struct Buffers(pub(super) heapless::Vec<Buffer, 5>);

impl Buffers {
    pub(super) fn add(
        &mut self,
        process: &mut Process<'_>,
        device: DeviceIndex,
        usage: Usage,
        bytes: u64,
        name: &str,
    ) -> Result<(), AllocError> {
        let buffer = process.allocate(device, usage, bytes, Name::format(format_args!("queue: {name}")))?;
        // A queue has no more buffers than the list has room.
        let _ = self.0.push(buffer);
        Ok(())
    }

    pub(super) fn free(self, process: &mut Process<'_>) -> Result<(), FreeError> {
        let mut result = Ok(());
        for buffer in self.0 {
            result = result.and(process.free(buffer).map(drop));
        }
        result
    }
}

pub(super) const RING: usize = 0;
pub(super) const POINTERS: usize = 1;
pub(super) const SIGNALS: usize = 2;
pub(super) const END_OF_PIPE: usize = 3;
pub(super) const SAVE_AREA: usize = 4;

impl Buffers {
    pub(super) fn ring(&self) -> &Window {
        self.0[RING].host()
    }

    pub(super) fn pointers(&self) -> &Window {
        self.0[POINTERS].host()
    }

    pub(super) fn signals(&self) -> &Window {
        self.0[SIGNALS].host()
    }

    pub(super) fn va(&self, index: usize) -> u64 {
        self.0[index].va()
    }

    pub(super) fn completion_signal(&self) -> u64 {
        self.va(SIGNALS) + signal::COMPLETION as u64
    }

    pub(super) fn started(&self) -> u64 {
        self.va(SIGNALS) + signal::STARTED as u64
    }
}
