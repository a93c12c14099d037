//! Small buffers inside large ones: slabs aligned for the GPU's page tables, named pieces, empty slabs given back.
//!
//! Buffers that the kernel wants stand-alone (rings, pointers, end of pipe, save areas) never come from here.

use super::allocations::Allocation;
use super::buffer::{AllocError, Buffer, FreeError};
use super::free_ranges::FreeRanges;
use super::name::Name;
use super::usage::Usage;
use crate::heap::OutOfMemory;
use crate::process::{DeviceIndex, Process};
use crate::sys::Window;
use alloc::vec::Vec;

/// Alignment of every piece: a cache line pair of L2, and more than any load needs.
const ALIGN: u64 = 256;

/// Bytes of a slab that holds several pieces.
const SLAB: u64 = 64 << 20;

/// A piece of a slab.
#[derive(Debug, PartialEq, Eq)]
pub struct SlabBlock {
    va: u64,
    bytes: u64,
}

impl SlabBlock {
    /// First address.
    pub fn va(&self) -> u64 {
        self.va
    }

    /// Bytes, rounded up to 256.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[derive(Debug)]
struct Slab {
    buffer: Buffer,
    /// Offsets into the buffer.
    free: FreeRanges,
}

/// Slabs of one usage on one device.
#[derive(Debug)]
pub struct SlabAllocator {
    device: DeviceIndex,
    usage: Usage,
    slabs: Vec<Slab>,
}

impl SlabAllocator {
    /// An arena that holds nothing yet.
    pub fn new(device: DeviceIndex, usage: Usage) -> Self {
        assert!(!usage.is_exact(), "{usage:?} must be stand-alone");
        Self { device, usage, slabs: Vec::new() }
    }

    /// Bytes taken from the kernel.
    pub fn held(&self) -> u64 {
        self.slabs.iter().map(|slab| slab.buffer.bytes()).sum()
    }

    /// A piece of at least `bytes`. A piece that would fill a slab gets one of its own size.
    pub fn allocate(
        &mut self,
        process: &mut Process<'_>,
        bytes: u64,
        name: Name,
    ) -> Result<SlabBlock, AllocError> {
        let rounded = bytes.checked_next_multiple_of(ALIGN).filter(|&rounded| rounded != 0);
        let rounded = rounded.ok_or(AllocError::Size(bytes))?;
        let found = self.slabs.iter_mut().find_map(|slab| slab.take(rounded));
        let va = match found {
            Some(va) => va,
            None => self.grow(process, rounded, &name)?,
        };
        let (usage, gpu_id) = (self.usage, process.device(self.device).gpu_id());
        let entry = Allocation { va, bytes: rounded, gpu_id, usage, name, handle: None };
        let block = SlabBlock { va, bytes: rounded };
        match process.allocations.add(entry) {
            Ok(()) => Ok(block),
            Err(error) => {
                let _ = self.free(process, block);
                Err(error.into())
            }
        }
    }

    fn grow(&mut self, process: &mut Process<'_>, bytes: u64, name: &Name) -> Result<u64, AllocError> {
        let size = bytes.max(SLAB);
        let label = Name::format(format_args!("slab[{}] for {name}", self.slabs.len()));
        let slab = process.allocate(self.device, self.usage, size, label);
        // A slab that does not fit may still hold this piece.
        let buffer = match slab {
            Err(AllocError::NoMemory { .. }) if bytes < size => {
                process.allocate(self.device, self.usage, bytes, name.clone())?
            }
            result => result?,
        };
        let free =
            self.slabs.try_reserve(1).map_err(|_| OutOfMemory).and_then(|()| FreeRanges::new(buffer.bytes()));
        let mut slab = match free {
            Ok(free) => Slab { buffer, free },
            Err(error) => {
                let _ = process.free(buffer);
                return Err(error.into());
            }
        };
        let va = slab.take(bytes);
        self.slabs.push(slab);
        va.ok_or(AllocError::Size(bytes))
    }

    /// The CPU's view of a piece: the slab's window and the offset in it. `None` where the CPU does not reach it.
    pub fn window(&self, block: &SlabBlock) -> Option<(&Window, usize)> {
        let slab = self.slabs.iter().find(|slab| slab.holds(block.va))?;
        Some((slab.buffer.window()?, usize::try_from(block.va - slab.buffer.va()).ok()?))
    }

    /// The buffer that a piece lies in and its offset, for uploads.
    pub fn buffer(&self, block: &SlabBlock) -> Option<(&Buffer, u64)> {
        let slab = self.slabs.iter().find(|slab| slab.holds(block.va))?;
        Some((&slab.buffer, block.va - slab.buffer.va()))
    }

    /// Frees a piece; returns the bytes that went back to the kernel, which is 0 while its slab holds others.
    pub fn free(&mut self, process: &mut Process<'_>, block: SlabBlock) -> Result<u64, FreeError> {
        process.allocations.remove_piece(block.va);
        let Some(index) = self.slabs.iter().position(|slab| slab.holds(block.va)) else { return Ok(0) };
        let slab = &mut self.slabs[index];
        slab.free.release(block.va - slab.buffer.va(), block.bytes);
        if !slab.is_empty() {
            return Ok(0);
        }
        let slab = self.slabs.swap_remove(index);
        process.free(slab.buffer)
    }

    /// Frees everything; returns the bytes.
    pub fn destroy(mut self, process: &mut Process<'_>) -> Result<u64, FreeError> {
        let mut bytes = 0;
        while let Some(slab) = self.slabs.pop() {
            bytes += process.free(slab.buffer)?;
        }
        Ok(bytes)
    }
}

impl Slab {
    fn holds(&self, va: u64) -> bool {
        va >= self.buffer.va() && va - self.buffer.va() < self.buffer.bytes()
    }

    fn is_empty(&self) -> bool {
        self.free.bytes() == self.buffer.bytes()
    }

    /// The address of the first gap that is large enough.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        // All pieces are multiples of the alignment, for which no host memory is needed.
        let offset = self.free.allocate(bytes, ALIGN).ok().flatten()?;
        Some(self.buffer.va() + offset)
    }
}
