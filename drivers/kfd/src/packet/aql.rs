//! AQL packets: 64 bytes each, the header's 16 bits last to become valid.
//!
//! Source: HSA platform system architecture, `runtime/hsa-runtime/inc/hsa.h` and `amd_hsa_queue.h` of ROCR-Runtime
//! for the layouts.

use bytemuck::{Pod, Zeroable};

/// Packet types (bits 0–7 of the header).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum PacketKind {
    /// AMD's own packets.
    Vendor = 0,
    /// A slot that holds no packet.
    Invalid = 1,
    /// Runs a kernel.
    Dispatch = 2,
    /// Waits for all of up to five signals.
    BarrierAnd = 3,
    /// Calls a host agent; never used here.
    Agent = 4,
    /// Waits for any of up to five signals.
    BarrierOr = 5,
}

/// Scope of cache coherence at a packet's start (acquire) or completion (release).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum Scope {
    /// Not at all.
    None = 0,
    /// Within this GPU: the caches above L2.
    Agent = 1,
    /// With the host and other devices: L2 too.
    System = 2,
}

/// The first 16 bits of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Packet type.
    pub kind: PacketKind,
    /// Start only when all earlier packets of the queue are complete.
    pub barrier: bool,
    /// Caches at the start.
    pub acquire: Scope,
    /// Caches at completion.
    pub release: Scope,
}

impl Header {
    /// The 16 bits.
    pub const fn bits(self) -> u16 {
        self.kind as u16
            | (self.barrier as u16) << 8
            | (self.acquire as u16) << 9
            | (self.release as u16) << 11
    }
}

/// One packet as it lies in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Packet(pub [u32; 16]);

const BARRIER: u32 = 1 << 8;
const SIGNAL: usize = 14;

const fn low(value: u64) -> u32 {
    (value & 0xffff_ffff) as u32
}

const fn high(value: u64) -> u32 {
    (value >> 32) as u32
}

impl Packet {
    /// A slot that holds no packet.
    pub const INVALID: Self = Self([PacketKind::Invalid as u32; 16]);

    fn set64(&mut self, dword: usize, value: u64) {
        (self.0[dword], self.0[dword + 1]) = (low(value), high(value));
    }

    /// The header's bits.
    pub fn header(&self) -> u16 {
        (self.0[0] & 0xffff) as u16
    }

    /// Address of the completion signal, 0 for none.
    pub fn completion_signal(&self) -> u64 {
        u64::from(self.0[SIGNAL]) | u64::from(self.0[SIGNAL + 1]) << 32
    }

    /// Sets the completion signal.
    pub fn set_completion_signal(&mut self, va: u64) {
        self.set64(SIGNAL, va);
    }

    /// Makes the packet wait for all earlier ones.
    pub fn set_barrier(&mut self) {
        self.0[0] |= BARRIER;
    }
}

/// A kernel dispatch.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// Work-items of a workgroup per dimension, each at least 1.
    pub workgroup: [u16; 3],
    /// Work-items of the grid per dimension, each at least 1.
    pub grid: [u32; 3],
    /// LDS bytes of a workgroup, static and dynamic.
    pub group_bytes: u32,
    /// Address of the kernel descriptor.
    pub kernel_object: u64,
    /// Address of the arguments, 16-byte aligned.
    pub kernarg: u64,
}

impl Dispatch {
    /// The packet without a completion signal.
    pub fn encode(&self, header: Header) -> Packet {
        let [x, y, z] = self.workgroup.map(u32::from);
        let [_, rows, planes] = self.grid;
        let dimensions = if planes > 1 {
            3
        } else if rows > 1 {
            2
        } else {
            1
        };
        let mut packet = Packet([0; 16]);
        packet.0[0] = u32::from(header.bits()) | dimensions << 16;
        packet.0[1] = x | y << 16;
        packet.0[2] = z;
        packet.0[3..6].copy_from_slice(&self.grid);
        packet.0[7] = self.group_bytes;
        packet.set64(8, self.kernel_object);
        packet.set64(10, self.kernarg);
        packet
    }
}

/// A packet that waits until each of these signals is 0; address 0 is ignored.
pub fn barrier_and(header: Header, signals: [u64; 5]) -> Packet {
    let mut packet = Packet([0; 16]);
    packet.0[0] = Header { kind: PacketKind::BarrierAnd, ..header }.bits().into();
    for (index, signal) in signals.into_iter().enumerate() {
        packet.set64(2 + 2 * index, signal);
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_words_equal_those_of_real_runtimes() {
        let word = |kind, barrier, acquire, release| Header { kind, barrier, acquire, release }.bits();
        assert_eq!(word(PacketKind::Dispatch, true, Scope::Agent, Scope::Agent), 0x0B02);
        assert_eq!(word(PacketKind::Dispatch, true, Scope::None, Scope::Agent), 0x0902);
        assert_eq!(word(PacketKind::Dispatch, true, Scope::System, Scope::System), 0x1502);
        assert_eq!(word(PacketKind::BarrierAnd, true, Scope::System, Scope::System), 0x1503);
        assert_eq!(word(PacketKind::Dispatch, false, Scope::None, Scope::None), 0x0002);
    }

    #[test]
    fn fields_are_where_the_packet_processor_reads_them() {
        let header = Header {
            kind: PacketKind::Dispatch,
            barrier: true,
            acquire: Scope::Agent,
            release: Scope::Agent,
        };
        let dispatch = Dispatch {
            workgroup: [256, 2, 3],
            grid: [1024, 20, 30],
            group_bytes: 0x4321,
            kernel_object: 0x1122_3344_5566_7788,
            kernarg: 0x99AA_BBCC_DDEE_FF00,
        };
        let mut packet = dispatch.encode(header);
        packet.set_completion_signal(0x0102_0304_0506_0708);
        let bytes: &[u8] = bytemuck::bytes_of(&packet);
        let at = |offset: usize, len: usize| {
            bytes[offset..offset + len].iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte))
        };
        let fields = [(0, 2, 0x0B02), (2, 2, 3), (4, 2, 256), (6, 2, 2), (8, 2, 3), (10, 2, 0)];
        let more = [(12, 4, 1024), (16, 4, 20), (20, 4, 30), (24, 4, 0), (28, 4, 0x4321)];
        let last = [
            (32, 8, 0x1122_3344_5566_7788),
            (40, 8, 0x99AA_BBCC_DDEE_FF00),
            (48, 8, 0),
            (56, 8, 0x0102_0304_0506_0708),
        ];
        for (offset, len, value) in fields.into_iter().chain(more).chain(last) {
            assert_eq!(at(offset, len), value, "offset {offset}");
        }
        assert_eq!(dispatch.encode(header).completion_signal(), 0);
        let barrier = barrier_and(header, [1, 0, 3, 0, 5]);
        assert_eq!(barrier.header(), 0x0B03);
        assert_eq!((barrier.0[2], barrier.0[6], barrier.0[10]), (1, 3, 5));
    }
}
