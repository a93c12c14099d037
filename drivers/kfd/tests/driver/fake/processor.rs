//! The packet processors of the fake kernel's GPUs. A dispatch is noted and completes at once.

use super::events::Raised;
use super::queues::Queue;
use super::{Fake, State};
use doorbell_kfd::sys::{HwException, MemoryException, queue_type};

/// A kernel dispatch as it was read from the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    pub header: u16,
    pub grid: [u32; 3],
    pub workgroup: [u16; 3],
    pub kernel_object: u64,
    pub kernarg: u64,
}

/// A fault of the GPU at its next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Packets are read and never complete.
    Hang,
    /// The dispatch touches an address that is not mapped.
    Fault(u64),
    /// The whole GPU is reset.
    Reset,
    /// The queue stops with this code in its inactive signal.
    QueueError(u64),
    /// A wave stops at this address for these exceptions, and the trap handler, if there is one, leaves a record.
    Wave {
        pc: u64,
        exceptions: u32,
        /// The kernel hears of it.
        is_reported: bool,
        /// And finds this page at fault.
        page: Option<u64>,
    },
}

fn load(state: &State, gpu: u32, va: u64) -> Option<u64> {
    let (buffer, offset) = state.memory.at(gpu, va)?;
    Some(buffer.window.load64(offset))
}

fn store(state: &State, gpu: u32, va: u64, value: u64) {
    if let Some((buffer, offset)) = state.memory.at(gpu, va) {
        buffer.window.store64(offset, value);
    }
}

/// A doorbell store, or a queue becoming active again.
pub fn ring(fake: &Fake, state: &mut State, gpu: u32, doorbell: usize, value: u64) {
    let mut queues = std::mem::take(&mut state.queues);
    let queue = queues.queues.values_mut().find(|queue| queue.gpu_id == gpu && queue.doorbell == doorbell);
    if let Some(queue) = queue {
        assert!(queue.rung.is_none_or(|rung| rung <= value), "a doorbell never goes back");
        queue.rung = Some(value);
        if queue.is_active && !queue.is_dead {
            if queue.kind == queue_type::SDMA {
                copy_engine(state, queue, value);
            } else {
                compute(fake, state, queue, value);
            }
        }
    }
    state.queues = queues;
}

/// Runs every queue up to its write pointer.
pub fn catch_up(fake: &Fake, state: &mut State) {
    let queues = state.queues.queues.values();
    let rung: Vec<_> = queues.map(|queue| (queue.gpu_id, queue.doorbell, queue.write_pointer)).collect();
    for (gpu, doorbell, write_pointer) in rung {
        if let Some(last) = load(state, gpu, write_pointer).and_then(|written| written.checked_sub(1)) {
            ring(fake, state, gpu, doorbell, last);
        }
    }
    state.dispatches.clear();
}

fn compute(fake: &Fake, state: &mut State, queue: &mut Queue, last: u64) {
    let gpu = queue.gpu_id;
    let written = load(state, gpu, queue.write_pointer).expect("write pointer");
    assert!(written == last + 1, "the write pointer is stored before the doorbell");
    while queue.read < written {
        let slot = queue.read * 64 % queue.ring_bytes;
        let (ring, offset) = state.memory.at(gpu, queue.ring + slot).expect("ring");
        let mut packet = [0u8; 64];
        ring.window.read(offset, &mut packet);
        let header = u16::from_le_bytes([packet[0], packet[1]]);
        assert_ne!(header & 0xff, 1, "a published packet must be valid");
        ring.window.store32(offset, 1);
        queue.read += 1;
        store(state, gpu, queue.read_pointer, queue.read);
        if let Some(trouble) = state.injection.trouble {
            strike(fake, state, queue, trouble);
            return;
        }
        execute(state, gpu, header, &packet);
    }
}

fn word(packet: &[u8; 64], at: usize) -> u64 {
    u64::from_le_bytes(packet[at..at + 8].try_into().expect("8 bytes"))
}

fn execute(state: &mut State, gpu: u32, header: u16, packet: &[u8; 64]) {
    let half = |at: usize| u16::from_le_bytes([packet[at], packet[at + 1]]);
    let single = |at: usize| u32::from_le_bytes(packet[at..at + 4].try_into().expect("4 bytes"));
    if header & 0xff == 2 {
        let dispatch = Dispatch {
            header,
            grid: [single(12), single(16), single(20)],
            workgroup: [half(4), half(6), half(8)],
            kernel_object: word(packet, 32),
            kernarg: word(packet, 40),
        };
        state.dispatches.push(dispatch);
    }
    complete(state, gpu, word(packet, 56));
}

/// Decrements a signal's value and raises its event.
fn complete(state: &mut State, gpu: u32, signal: u64) {
    let Some((buffer, offset)) = state.memory.at(gpu, signal) else {
        assert_eq!(signal, 0, "a completion signal in unmapped memory");
        return;
    };
    buffer.window.store64(offset + 32, 1000);
    buffer.window.store64(offset + 40, 1500);
    buffer.window.fetch_sub64(offset + 8, 1);
    let mailbox = buffer.window.load64(offset + 16);
    let event = buffer.window.load32(offset + 24);
    if mailbox != 0 {
        store(state, gpu, mailbox, event.into());
        state.events.signal(event);
        store(state, gpu, mailbox, u64::MAX);
    }
}

fn strike(_: &Fake, state: &mut State, queue: &mut Queue, trouble: Trouble) {
    queue.is_dead = true;
    let gpu_id = queue.gpu_id;
    match trouble {
        Trouble::Hang => {}
        Trouble::Fault(va) => page_fault(state, gpu_id, va),
        Trouble::Reset => {
            let exception = HwException { reset_type: 0, reset_cause: 0, memory_lost: true, gpu_id };
            state.events.raise(Raised::Hardware(exception));
        }
        Trouble::QueueError(code) => {
            // amd_queue_t starts at read_dispatch_id − 0x80; queue_inactive_signal is at 0xC0.
            let signal = load(state, gpu_id, queue.read_pointer - 0x80 + 0xC0).expect("queue struct");
            store(state, gpu_id, signal + 8, code);
        }
        Trouble::Wave { pc, exceptions, is_reported, page } => {
            let Some(&(_, tma)) = state.traps.get(&gpu_id) else { return };
            let message = (u64::from(exceptions) << 10) | (queue.doorbell as u64 / 8);
            for slot in [3, 4] {
                store(state, gpu_id, tma + 16 * slot, pc);
                store(state, gpu_id, tma + 16 * slot + 8, message << 32 | 1 << 11);
            }
            if is_reported {
                let payload = load(state, gpu_id, queue.save_area + 24).expect("header");
                let event = load(state, gpu_id, queue.save_area + 32).expect("header");
                store(state, gpu_id, payload, exceptions.into());
                state.events.signal((event & 0xffff_ffff) as u32);
            }
            if let Some(va) = page {
                page_fault(state, gpu_id, va);
            }
        }
    }
}

fn page_fault(state: &mut State, gpu_id: u32, va: u64) {
    state.events.raise(Raised::Memory(MemoryException {
        not_present: true,
        read_only: false,
        no_execute: false,
        imprecise: false,
        va: va & !4095,
        gpu_id,
        error_type: 0,
    }));
}

/// COPY_LINEAR, FENCE, TRAP, GCR and padding (`sdma_v6_0.c`).
fn copy_engine(state: &mut State, queue: &mut Queue, end: u64) {
    let gpu = queue.gpu_id;
    assert_eq!(load(state, gpu, queue.write_pointer), Some(end), "write pointer before doorbell");
    if state.injection.trouble == Some(Trouble::Hang) {
        return;
    }
    while queue.read < end {
        let at = queue.read % queue.ring_bytes;
        let word = |state: &State, index: u64| {
            let va = queue.ring + (at + index * 4) % queue.ring_bytes;
            let (buffer, offset) = state.memory.at(gpu, va).expect("ring");
            buffer.window.load32(offset)
        };
        let long = |state: &State, index: u64| {
            u64::from(word(state, index)) | u64::from(word(state, index + 1)) << 32
        };
        let header = word(state, 0);
        let words = match header & 0xff {
            0 => 1,
            1 => {
                let bytes = u64::from(word(state, 1)) + 1;
                let (from, to) = (long(state, 3), long(state, 5));
                copy(state, gpu, from, to, bytes);
                7
            }
            5 => {
                let value = word(state, 3);
                let (buffer, offset) = state.memory.at(gpu, long(state, 1)).expect("fence target");
                buffer.window.store32(offset, value);
                4
            }
            6 => {
                let event = word(state, 1);
                state.events.signal(event);
                2
            }
            17 => 5,
            other => panic!("unknown SDMA operation {other}"),
        };
        assert!(at + words * 4 <= queue.ring_bytes, "packets do not wrap");
        queue.read += words * 4;
    }
    store(state, gpu, queue.read_pointer, queue.read);
}

fn copy(state: &State, gpu: u32, from: u64, to: u64, bytes: u64) {
    let mut chunk = vec![0; bytes as usize];
    let (source, offset) = state.memory.at(gpu, from).expect("copy source");
    source.window.read(offset, &mut chunk);
    let (target, offset) = state.memory.at(gpu, to).expect("copy target");
    target.window.write(offset, &chunk);
}
