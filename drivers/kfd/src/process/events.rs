//! Events: the page that GPUs signal through, one signal event per waiter, the two exception events.
//!
//! Source: `amdkfd/kfd_events.c` (`kfd_event_create`, `allocate_event_notification_slot`, `set_event_from_interrupt`).
//! Waiting is in [`crate::queue`].

use super::connection::Process;
use super::device_index::DeviceIndex;
use super::signal::{EventId, Events, Signal};
use crate::memory::{Handle, Name, Usage};
use crate::sys::{CreateEvent, DestroyEvent, Errno, call, event_type};

/// 4096 slots of 8 bytes; the kernel refuses smaller pages and hands out ids that no interrupt finds for
/// larger ones.
const PAGE_BYTES: u64 = 32768;

fn create(process: &Process<'_>, event_type: u32, page: Option<Handle>) -> Result<EventId, Errno> {
    let event_page_offset = page.map_or(0, |handle| handle.0);
    let mut arg = CreateEvent { event_page_offset, event_type, auto_reset: 1, ..CreateEvent::default() };
    call(process.kernel, process.kfd.fd(), &mut arg)?;
    Ok(EventId(arg.event_id))
}

/// Makes the event page and the two exception events. Where the process already has a page (a second
/// bring-up in one address space) the new one is given back and the host polls.
pub(super) fn create_events(process: &mut Process<'_>) -> Result<Events, Errno> {
    let name = Name::new("event page");
    let page = process.allocate(DeviceIndex(0), Usage::EventPage, PAGE_BYTES, name);
    let page = page.map_err(|error| error.errno().unwrap_or(Errno::ENOMEM))?;
    let (memory, page) = match create(process, event_type::MEMORY, Some(page.handle())) {
        Ok(memory) => (memory, Some(page)),
        Err(Errno::EINVAL) => {
            let _ = process.free(page);
            (create(process, event_type::MEMORY, None)?, None)
        }
        Err(errno) => {
            let _ = process.free(page);
            return Err(errno);
        }
    };
    let hardware = create(process, event_type::HW_EXCEPTION, None);
    match hardware {
        Ok(hardware) => Ok(Events { page, memory, hardware }),
        Err(errno) => {
            process.destroy_event(memory);
            Err(errno)
        }
    }
}

impl Process<'_> {
    /// Makes a signal event that resets itself when a wait is satisfied.
    pub fn create_signal(&self) -> Result<Signal, Errno> {
        let id = create(self, event_type::SIGNAL, None)?;
        let page = self.events.as_ref().and_then(|events| events.page.as_ref());
        Ok(Signal { id, mailbox: page.map(|page| page.va() + u64::from(id.0) * 8) })
    }

    /// Ends an event. A failure means that it is gone already.
    pub fn destroy_event(&self, id: EventId) {
        let _ = call(self.kernel, self.kfd.fd(), &mut DestroyEvent { event_id: id.0, pad: 0 });
    }
}
