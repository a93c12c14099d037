//! Events: creation, setting, waiting, the event page.
//!
//! Source: `kfd_events.c` of the three kernels, docs/facts/kfd.md. Not here: interrupts (`command`).

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use doorbell_kfd::sys::{CreateEvent, Errno, EventData, WaitEvents, Window, event_type, wait_result};

#[derive(Clone, Debug, Default)]
struct Event {
    kind: u32,
    is_set: bool,
    auto_reset: bool,
    age: u64,
    data: [u64; 4],
}

/// All events of the process.
#[derive(Debug, Default)]
pub(super) struct Events {
    all: BTreeMap<u32, Event>,
    page: Option<Arc<Window>>,
    signals: u32,
    others: u32,
}

/// Slots of the page that the process brings, and those used of the kernel's own, which is as large.
pub(super) const SLOTS: u32 = 4096;
const OWN_SLOTS: u32 = 256;
/// First id of events that are no signals.
const OTHERS: u32 = 0x4000_0000;

impl Events {
    /// Takes the process's event page, with every slot unsignalled.
    pub(super) fn set_page(&mut self, page: Arc<Window>) -> Result<(), Errno> {
        if self.page.is_some() || page.len() != SLOTS as usize * 8 {
            return Err(Errno::EINVAL);
        }
        for slot in 0..SLOTS as usize {
            page.store64(slot * 8, u64::MAX);
        }
        self.page = Some(page);
        Ok(())
    }

    pub(super) fn create(&mut self, arg: &mut CreateEvent) -> Result<(), Errno> {
        let known = [event_type::SIGNAL, event_type::HW_EXCEPTION, event_type::MEMORY];
        let id = if arg.event_type == event_type::SIGNAL {
            arg.event_page_offset = 1 << 63;
            let slots = if self.page.is_some() { SLOTS } else { OWN_SLOTS };
            if self.signals + 1 >= slots {
                return Err(Errno::ENOSPC);
            }
            self.signals += 1;
            self.signals
        } else if known.contains(&arg.event_type) {
            self.others += 1;
            OTHERS + self.others - 1
        } else {
            return Err(Errno::EINVAL);
        };
        // Only signals have a slot.
        let slot = if arg.event_type == event_type::SIGNAL { id } else { 0 };
        (arg.event_id, arg.event_trigger_data, arg.event_slot_index) = (id, id, slot);
        let event =
            Event { kind: arg.event_type, auto_reset: arg.auto_reset != 0, age: 1, ..Event::default() };
        self.all.insert(id, event);
        Ok(())
    }

    pub(super) fn destroy(&mut self, id: u32) -> Result<(), Errno> {
        self.all.remove(&id).map(drop).ok_or(Errno::EINVAL)
    }

    /// SET_EVENT and RESET_EVENT, which exist for signals only.
    pub(super) fn change(&mut self, id: u32, set: bool) -> Result<(), Errno> {
        let event = self.all.get_mut(&id).filter(|event| event.kind == event_type::SIGNAL);
        let event = event.ok_or(Errno::EINVAL)?;
        event.is_set = set;
        event.age += u64::from(set);
        Ok(())
    }

    /// An interrupt: only a slot that was written counts, and it is reset.
    pub(super) fn interrupt(&mut self, id: u32) {
        if let Some(page) = &self.page {
            let slot = id as usize * 8;
            if slot >= page.len() || page.load64(slot) == u64::MAX {
                return;
            }
            page.store64(slot, u64::MAX);
        }
        let _ = self.change(id, true);
    }

    /// Sets all events of a kind with these data.
    pub(super) fn raise(&mut self, kind: u32, data: [u64; 4]) {
        for event in self.all.values_mut().filter(|event| event.kind == kind) {
            (event.is_set, event.data) = (true, data);
        }
    }

    /// Checks the events of a wait once; the result field says whether the condition holds.
    pub(super) fn wait(
        &mut self,
        arg: &mut WaitEvents,
        slots: &mut [EventData],
        minor: u32,
    ) -> Result<(), Errno> {
        if arg.num_events > 4096 {
            return Err(Errno::ENOMEM);
        }
        arg.wait_result = wait_result::FAIL;
        let count = slots.len().min(arg.num_events as usize);
        let slots = &mut slots[..count];
        if slots.iter().any(|slot| !self.all.contains_key(&slot.event_id)) {
            return Err(Errno::EINVAL);
        }
        let holds = |event: &Event, slot: &EventData| {
            let moved =
                minor >= 14 && event.kind == event_type::SIGNAL && slot.age() != 0 && slot.age() != event.age;
            event.is_set || moved
        };
        let ready = slots.iter().filter(|slot| holds(&self.all[&slot.event_id], slot)).count();
        let complete = count == 0 || if arg.wait_for_all != 0 { ready == count } else { ready > 0 };
        arg.wait_result = if complete { wait_result::COMPLETE } else { wait_result::TIMEOUT };
        if !complete {
            arg.timeout = 0;
            return Ok(());
        }
        for slot in slots {
            let Some(event) = self.all.get_mut(&slot.event_id) else { continue };
            if !holds(event, slot) {
                continue;
            }
            let signal = event.kind == event_type::SIGNAL;
            slot.memory_exception_data = if signal { [event.age, 0, 0, 0] } else { event.data };
            event.is_set &= !event.auto_reset;
        }
        Ok(())
    }
}
