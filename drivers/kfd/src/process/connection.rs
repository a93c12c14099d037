//! The connection of this process to KFD: its devices, buffers and events. Opening it is in `bring_up`.

use super::device::Device;
use super::device_index::DeviceIndex;
use super::file::OpenFile;
use super::signal::Events;
use crate::memory::{AddressSpace, Allocations};
use crate::sys::{BusGuard, Kernel};
use alloc::vec::Vec;
use core::fmt;

/// First minor whose WAIT_EVENTS closes the race between looking and sleeping.
const EVENT_AGE_MINOR: u32 = 14;

/// The answer to GET_VERSION.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Always 1 so far.
    pub major: u32,
    /// The number by which features are detected.
    pub minor: u32,
}

impl Version {
    /// True if a wait can pass the last event age that it saw, so that it may sleep. Otherwise the host polls.
    pub fn has_event_age(self) -> bool {
        self.minor >= EVENT_AGE_MINOR
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// This process's connection to KFD with its devices, buffers and events.
///
/// The kernel ties all of it to the address space, not to the file: one per program.
#[derive(Debug)]
pub struct Process<'k> {
    pub(crate) kernel: &'k dyn Kernel,
    pub(crate) kfd: OpenFile<'k>,
    pub(super) version: Version,
    pub(crate) devices: Vec<Device<'k>>,
    /// Tells when the kernel has taken a buffer's page away. Dropped before the address space.
    pub(crate) guard: Option<BusGuard>,
    pub(crate) space: AddressSpace,
    pub(crate) allocations: Allocations,
    pub(crate) events: Option<Events>,
    /// Queues that the kernel knows.
    pub(crate) queues: Vec<u32>,
    /// Number of suspends of the system when the devices were opened, or last reopened.
    pub(crate) suspends: u64,
}

impl fmt::Debug for dyn Kernel + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kernel")
    }
}

impl<'k> Process<'k> {
    /// The interface's version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The devices, in the order in which they were named.
    pub fn devices(&self) -> &[Device<'k>] {
        &self.devices
    }

    /// One device. An index of another process panics.
    pub fn device(&self, index: DeviceIndex) -> &Device<'k> {
        &self.devices[usize::from(index.0)]
    }

    /// True if a reset, a fault or a lost page has made a device unusable until [`Process::reopen`].
    pub fn is_lost(&self, index: DeviceIndex) -> bool {
        self.device(index).is_lost() || self.has_lost_page(index)
    }

    /// True if an access has found a page of the device's buffers gone.
    pub(crate) fn has_lost_page(&self, index: DeviceIndex) -> bool {
        let at = self.guard.as_ref().and_then(BusGuard::gone_at);
        // An address without an allocation may have belonged to any device.
        at.is_some_and(|at| {
            self.allocations.owner(at).is_none_or(|gpu_id| gpu_id == self.device(index).gpu_id())
        })
    }

    /// Every allocation by address.
    pub fn allocations(&self) -> &Allocations {
        &self.allocations
    }

    /// The kernel all of this runs on.
    pub fn kernel(&self) -> &'k dyn Kernel {
        self.kernel
    }
}

/// Number of suspends since the system started; 0 if it cannot be suspended.
pub(crate) fn suspends(kernel: &dyn Kernel) -> u64 {
    let mut text = [0; 24];
    let read = kernel.read("/sys/power/suspend_stats/success", &mut text);
    let text = read.ok().and_then(|count| core::str::from_utf8(text.get(..count)?).ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
