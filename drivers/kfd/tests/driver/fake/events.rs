//! Events of the fake kernel (`kfd_events.c`).

use super::{State, read, write};
use doorbell_kfd::sys::{
    CreateEvent, DestroyEvent, Errno, EventData, HwException, MemoryException, Request, ResetEvent, SetEvent,
    WaitEvents, event_type, request, wait_result,
};
use std::collections::BTreeMap;

#[derive(Default)]
struct Event {
    kind: u32,
    is_set: bool,
    auto_reset: bool,
    age: u64,
    data: [u64; 4],
}

#[derive(Default)]
pub struct Table {
    events: BTreeMap<u32, Event>,
    has_page: bool,
    next_signal: u32,
    next_other: u32,
}

/// An exception raised by a test or by the processor.
#[derive(Clone, Copy, Debug)]
pub enum Raised {
    Memory(MemoryException),
    Hardware(HwException),
}

impl Table {
    /// Handles an interrupt with this context id.
    pub fn signal(&mut self, id: u32) {
        if let Some(event) = self.events.get_mut(&id) {
            event.is_set = true;
            event.age += 1;
        }
    }

    pub fn raise(&mut self, raised: Raised) {
        let (kind, data) = match raised {
            Raised::Memory(exception) => (event_type::MEMORY, exception.encode()),
            Raised::Hardware(exception) => (event_type::HW_EXCEPTION, exception.encode()),
        };
        for event in self.events.values_mut().filter(|event| event.kind == kind) {
            (event.is_set, event.data) = (true, data);
        }
    }
}

pub fn call(state: &mut State, request: Request, arg: &mut [u8], pointed: &mut [u8]) -> Result<(), Errno> {
    match request {
        request::CREATE_EVENT => {
            let mut create = read(arg);
            let result = self::create(state, &mut create);
            write(arg, &create);
            result
        }
        request::DESTROY_EVENT => {
            let DestroyEvent { event_id, .. } = read(arg);
            state.events.events.remove(&event_id).map(drop).ok_or(Errno::EINVAL)
        }
        request::SET_EVENT | request::RESET_EVENT => {
            let SetEvent { event_id, .. } = read(arg);
            let _: ResetEvent = read(arg);
            let event = state.events.events.get_mut(&event_id).ok_or(Errno::EINVAL)?;
            if event.kind != event_type::SIGNAL {
                return Err(Errno::EINVAL);
            }
            event.is_set = request == request::SET_EVENT;
            event.age += u64::from(event.is_set);
            Ok(())
        }
        _ => {
            let mut wait = read(arg);
            let result = self::wait(state, &mut wait, pointed);
            write(arg, &wait);
            result
        }
    }
}

fn create(state: &mut State, arg: &mut CreateEvent) -> Result<(), Errno> {
    if arg.event_page_offset != 0 {
        let page = state.memory.by_handle(arg.event_page_offset).ok_or(Errno::EINVAL)?;
        if state.events.has_page || page.size != 32768 {
            return Err(Errno::EINVAL);
        }
        for slot in 0..4096 {
            page.window.store64(slot * 8, u64::MAX);
        }
        state.events.has_page = true;
        state.memory.event_page = Some(arg.event_page_offset);
    }
    let id = if arg.event_type == event_type::SIGNAL {
        arg.event_page_offset = 1 << 63;
        state.events.next_signal += 1;
        if state.events.next_signal >= 4096 {
            return Err(Errno::ENOSPC);
        }
        state.events.next_signal
    } else {
        state.events.next_other += 1;
        0x4000_0000 + state.events.next_other - 1
    };
    (arg.event_id, arg.event_trigger_data) = (id, id);
    if arg.event_type == event_type::SIGNAL {
        arg.event_slot_index = id;
    }
    let event = Event { kind: arg.event_type, auto_reset: arg.auto_reset != 0, age: 1, ..Event::default() };
    state.events.events.insert(id, event);
    Ok(())
}

/// Nothing happens while a test sleeps, so an unsatisfied wait times out at once.
fn wait(state: &mut State, arg: &mut WaitEvents, pointed: &mut [u8]) -> Result<(), Errno> {
    let mut any = false;
    state.waits += 1;
    arg.wait_result = wait_result::FAIL;
    for slot in pointed.chunks_exact_mut(size_of::<EventData>()).take(arg.num_events as usize) {
        let mut data: EventData = read(slot);
        let event = state.events.events.get_mut(&data.event_id).ok_or(Errno::EINVAL)?;
        let is_signal = event.kind == event_type::SIGNAL;
        let has_moved = is_signal && data.age() != 0 && data.age() != event.age;
        if event.is_set || has_moved {
            any = true;
            data.memory_exception_data = if is_signal { [event.age, 0, 0, 0] } else { event.data };
            event.is_set &= !event.auto_reset;
            write(slot, &data);
        }
    }
    arg.wait_result = if any { wait_result::COMPLETE } else { wait_result::TIMEOUT };
    if !any {
        arg.timeout = 0;
    }
    Ok(())
}
