//! Ends a process's connection in the order the kernel accepts: queues, buffers, events, files.
//!
//! Source: `amdkfd/kfd_process_queue_manager.c:pqm_destroy_queue`, `amdgpu_amdkfd_gpuvm.c` (`unmap_bo_from_gpuvm`
//! refuses buffers of live queues, FREE refuses mapped ones, the event page cannot be freed).

use super::connection::{Process, suspends};
use super::device::Exception;
use super::device_index::DeviceIndex;
use crate::memory::Totals;
use crate::sys::{DestroyQueue, call};
use core::fmt;

/// Resources that the caller had not given back when the process was shut down. They are freed all the same.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    /// Buffers.
    pub buffers: Totals,
    /// Queues.
    pub queues: usize,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { count, bytes } = self.buffers;
        write!(f, "{count} buffers ({bytes} bytes) and {} queues were not given back", self.queues)
    }
}

impl core::error::Error for Leak {}

impl Process<'_> {
    /// Ends everything and reports what was left over. The event page stays until the program ends.
    pub fn shutdown(mut self) -> Result<(), Leak> {
        let leak = self.close();
        if leak.buffers.count == 0 && leak.queues == 0 { Ok(()) } else { Err(leak) }
    }

    /// After a reset: destroys every queue and buffer of this process, whoever holds it, and makes the devices
    /// usable again where the kernel agrees. Files, address space and events stay, as the kernel ties them to
    /// the program. Freeing buffers that callers still hold returns [`crate::memory::FreeError`]; they may be dropped.
    pub fn reopen(&mut self) -> Leak {
        let leak = self.clear();
        for device in &mut self.devices {
            device.lost = false;
            device.exception = Exception::default();
        }
        self.suspends = suspends(self.kernel);
        self.guard = None;
        self.guard = self.kernel.guard_span(self.space.span());
        leak
    }

    fn clear(&mut self) -> Leak {
        let queues = self.queues.len();
        while let Some(queue_id) = self.queues.pop() {
            let _ = call(self.kernel, self.kfd.fd(), &mut DestroyQueue { queue_id, pad: 0 });
        }
        for index in 0..self.devices.len() {
            self.devices[index].guard = None;
            if let Some(window) = self.devices[index].doorbells.take() {
                self.kernel.unmap(window);
            }
            if let Some(mmio) = self.devices[index].mmio.take() {
                let _ = self.free(mmio);
            }
            if let Ok(device) = u8::try_from(index) {
                self.drop_trap_handler(DeviceIndex(device));
            }
        }
        let page = self.events.as_ref().and_then(|events| events.page.as_ref()).map(|page| page.handle());
        let mut buffers = Totals::default();
        while let Some(entry) =
            self.allocations.entries().iter().find(|entry| entry.handle.is_some() && entry.handle != page)
        {
            let (entry, handle) = (entry.clone(), entry.handle);
            buffers.count += 1;
            buffers.bytes += entry.bytes;
            if let Some(handle) = handle {
                self.release(handle, &entry);
            }
        }
        Leak { buffers, queues }
    }

    fn close(&mut self) -> Leak {
        let leak = self.clear();
        if let Some(events) = self.events.take() {
            self.destroy_event(events.memory);
            self.destroy_event(events.hardware);
            if let Some(page) = events.page {
                self.allocations.remove(page.handle());
            }
        }
        leak
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        self.close();
    }
}
