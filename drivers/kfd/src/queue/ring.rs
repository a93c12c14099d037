//! The producer's side of an AQL ring: slots, publishing order, backpressure. One producer per queue.
//!
//! Source: HSA platform system architecture 2.8; the order packets → write pointer → doorbell, and no write
//! pointer ahead of valid packets, because the scheduler re-reads it when it maps a queue again
//! (ROCm/rocm-systems#10377).

use crate::packet::{Packet, PacketKind};
use crate::sys::Window;

/// Memory as the protocol uses it: a [`Window`], or a model of one in a test of all interleavings.
pub trait RingMemory {
    /// Loads 64 bits (acquire).
    fn load64(&self, offset: usize) -> u64;
    /// Stores 32 bits after everything before it (release).
    fn store32(&self, offset: usize, value: u32);
    /// Stores 64 bits after everything before it (release).
    fn store64(&self, offset: usize, value: u64);
    /// Stores bytes in no order.
    fn write(&self, offset: usize, bytes: &[u8]);
}

impl RingMemory for Window {
    #[inline]
    fn load64(&self, offset: usize) -> u64 {
        Self::load64(self, offset)
    }

    #[inline]
    fn store32(&self, offset: usize, value: u32) {
        Self::store32(self, offset, value);
    }

    #[inline]
    fn store64(&self, offset: usize, value: u64) {
        Self::store64(self, offset, value);
    }

    #[inline]
    fn write(&self, offset: usize, bytes: &[u8]) {
        Self::write(self, offset, bytes);
    }
}

/// Bytes of a packet's header and setup, stored last and at once.
const HEAD: usize = 4;

/// The producer's side of a ring.
#[derive(Clone, Debug)]
pub struct Producer {
    slots: u64,
    written: u64,
    /// The read index as last loaded: it only grows.
    read: u64,
    read_at: usize,
    write_at: usize,
}

impl Producer {
    /// A producer for a ring of `slots` packets (a power of two), whose read and write indexes lie at these
    /// offsets of the pointer page, both zero.
    pub fn new(slots: u64, read_at: usize, write_at: usize) -> Self {
        assert!(slots.is_power_of_two(), "{slots} slots");
        Self { slots, written: 0, read: 0, read_at, write_at }
    }

    /// Marks every slot as holding no packet.
    pub fn clear(&self, ring: &impl RingMemory) {
        for slot in 0..self.slots {
            ring.write(offset_of(slot), bytemuck::bytes_of(&Packet::INVALID));
        }
    }

    /// Packets written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Packets that the processor has taken, which says that their slots are free and nothing about completion.
    pub fn read_index(&self, pointers: &impl RingMemory) -> u64 {
        pointers.load64(self.read_at)
    }

    /// Slots free for packets, looking at the read index only if the last look does not suffice for `wanted`.
    pub fn free(&mut self, pointers: &impl RingMemory, wanted: u64) -> u64 {
        let known = self.slots - (self.written - self.read);
        if known >= wanted {
            return known;
        }
        // An index ahead of what was written is nonsense that a broken device may show: it frees nothing.
        let now = self.read_index(pointers);
        if now <= self.written {
            self.read = self.read.max(now);
        }
        self.slots - (self.written - self.read)
    }

    /// Writes packets and then the write index; returns the doorbell value, the index of the last packet.
    /// `None` when there are none or they do not fit now, and nothing is written.
    pub fn publish(
        &mut self,
        ring: &impl RingMemory,
        pointers: &impl RingMemory,
        packets: &[Packet],
    ) -> Option<u64> {
        let count = packets.len() as u64;
        if count == 0 || self.free(pointers, count) < count {
            return None;
        }
        for (packet, index) in packets.iter().zip(self.written..) {
            debug_assert_ne!(packet.header() & 0xff, PacketKind::Invalid as u16, "a packet to run");
            let at = offset_of(index % self.slots);
            let bytes: &[u8] = bytemuck::bytes_of(packet);
            ring.write(at + HEAD, &bytes[HEAD..]);
            ring.store32(at, packet.0[0]);
        }
        self.written += count;
        pointers.store64(self.write_at, self.written);
        Some(self.written - 1)
    }
}

/// Slots are indexes below the ring's size, which fits memory.
fn offset_of(slot: u64) -> usize {
    slot as usize * size_of::<Packet>()
}
