//! A memory instruction in flight: addresses, lanes, data, and the registers of its result.
//!
//! Not here: forming addresses (`memory_ops`), moving the data (`perform.rs`).

use alloc::vec::Vec;

use super::registers::{APERTURE, Lanes, PRIVATE_BASE, SHARED_BASE};
use super::transfer::Transfer;

/// Memory that a request accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MemoryKind {
    /// The GPU's address space.
    Global,
    /// Chosen by the address.
    Flat,
    /// The group's LDS.
    Lds,
    /// The lane's scratch.
    Scratch,
    /// Scalar memory: one address for the wave.
    Scalar,
    /// Lanes of registers; nothing is accessed.
    Lanes,
}

/// Registers of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Destination {
    /// None.
    Nothing,
    /// Vector registers: first, count.
    Vector(usize, usize),
    /// Scalar registers: first, count.
    Scalar(usize, usize),
}

/// Caches that an access bypasses, and its ordering.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reach {
    /// GL0 does not answer.
    pub(crate) past_gl0: bool,
    /// GL1 does not answer either: the access meets those of all groups.
    pub(crate) past_gl1: bool,
    /// All earlier stores of the wave were acknowledged at issue.
    pub(crate) released: bool,
    /// A read-modify-write.
    pub(crate) atomic: bool,
    /// Through the scalar cache.
    pub(crate) scalar: bool,
}

/// One memory instruction in flight.
#[derive(Clone)]
pub(crate) struct Request {
    /// Memory that a request accesses.
    pub(crate) memory: MemoryKind,
    /// Bytes of each lane.
    pub(crate) transfer: Transfer,
    /// Lanes that take part.
    pub(crate) exec: u32,
    /// Lanes whose access is out of a buffer's bounds: loads give 0, stores do nothing.
    pub(crate) outside: u32,
    /// First address of each lane.
    pub(crate) address: [u64; 32],
    /// Distance of the second access of pairs.
    pub(crate) second: i64,
    /// Data registers as they were at issue.
    pub(crate) data: Vec<Lanes>,
    /// Bits of each data register without a value, where that is watched.
    pub(crate) poison: Vec<Lanes>,
    /// Caches that it bypasses.
    pub(crate) reach: Reach,
    /// Registers of the result.
    pub(crate) destination: Destination,
}

/// Memory and address of one access.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Location {
    Global(u64),
    Lds(u64),
    Scratch(u64),
}

impl Request {
    /// The memory that an address leads to.
    pub(crate) fn location(&self, address: u64) -> Location {
        match self.memory {
            MemoryKind::Global | MemoryKind::Scalar | MemoryKind::Lanes => Location::Global(address),
            MemoryKind::Lds => Location::Lds(address),
            MemoryKind::Scratch => Location::Scratch(address),
            MemoryKind::Flat if address.wrapping_sub(SHARED_BASE) < APERTURE => {
                Location::Lds(address - SHARED_BASE)
            }
            MemoryKind::Flat if address.wrapping_sub(PRIVATE_BASE) < APERTURE => {
                Location::Scratch(address - PRIVATE_BASE)
            }
            MemoryKind::Flat => Location::Global(address),
        }
    }

    /// LDS bytes that one lane touches, for the race check: start, length, and the second piece of pairs.
    pub(crate) fn lds_pieces(&self, lane: usize) -> [Option<(usize, usize)>; 2] {
        let piece = |address: u64| match self.location(address) {
            Location::Lds(at) if self.memory != MemoryKind::Lanes => {
                Some((usize::try_from(at).ok()?, self.transfer.bytes()))
            }
            _ => None,
        };
        let first = self.address[lane];
        [piece(first), if self.second == 0 { None } else { piece(first.wrapping_add_signed(self.second)) }]
    }

    /// Global bytes that one lane touches.
    pub(crate) fn global_piece(&self, lane: usize) -> Option<(u64, usize)> {
        match self.location(self.address[lane]) {
            Location::Global(at) if self.memory != MemoryKind::Lanes => Some((at, self.transfer.bytes())),
            _ => None,
        }
    }

    /// True if global memory may be touched.
    pub(crate) fn is_global(&self) -> bool {
        matches!(self.memory, MemoryKind::Global | MemoryKind::Flat | MemoryKind::Scalar)
    }

    /// Scratch bytes that one lane touches, as a range of the wave's scratch memory.
    pub(crate) fn scratch_piece(&self, scratch_lane: usize, lane: usize) -> Option<(usize, usize)> {
        match self.location(self.address[lane]) {
            Location::Scratch(at) if self.memory != MemoryKind::Lanes => {
                Some((usize::try_from(at).ok()? + lane * scratch_lane, self.transfer.bytes()))
            }
            _ => None,
        }
    }
}
