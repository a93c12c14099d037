//! An SDMA queue: copies between staging and device memory beside compute. Where none is free, callers go without.
//!
//! Source: `amdkfd/kfd_device_queue_manager.c:allocate_sdma_queue` (`ENOMEM` when all are taken); packets must not
//! wrap in the ring and the write pointer, in bytes, must not catch up with the read pointer.

use super::buffers::Buffers;
use super::options::Priority;
use crate::memory::{AllocError, Usage};
use crate::packet::sdma::{self, COPY_BYTES};
use crate::process::{DeviceIndex, Process};
use crate::sys::{CreateQueue, Errno, Window, queue_type};
use core::fmt;
use embedded_hal::delay::DelayNs;

const RING_BYTES: u32 = 65536;

/// Offsets in the pointer page.
const WRITE: usize = 0;
const READ: usize = 128;

/// Offset of the fence word in the signal page.
const FENCE: usize = 0;

/// Words of one request: caches, copy, caches, fence.
const REQUEST_WORDS: usize = sdma::CACHE_WORDS * 2 + sdma::COPY_WORDS + sdma::FENCE_WORDS;

/// Why there is no engine, or a copy did not end.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyError {
    /// All SDMA queues of the device are taken, by whichever process: copy by other means.
    NoneFree,
    /// A buffer could not be allocated.
    Alloc(AllocError),
    /// CREATE_QUEUE was refused otherwise.
    Refused(Errno),
    /// The engine makes no progress: milliseconds waited.
    Hang(u32),
    /// The device is lost.
    Lost,
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoneFree => f.write_str("all SDMA queues of the device are taken"),
            Self::Alloc(error) => write!(f, "SDMA queue: {error}"),
            Self::Refused(errno) => write!(f, "SDMA queue: {errno}"),
            Self::Hang(ms) => write!(f, "the SDMA engine has made no progress for {ms} ms"),
            Self::Lost => f.write_str("the device is lost; reopen it"),
        }
    }
}

impl core::error::Error for CopyError {}

/// A copy under way: the value its fence writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyFence(u32);

/// An SDMA queue.
#[derive(Debug)]
pub struct CopyEngine {
    device: DeviceIndex,
    id: u32,
    doorbell: usize,
    buffers: Buffers,
    /// Bytes written to the ring.
    written: u64,
    issued: u32,
}

impl CopyEngine {
    /// Makes one on a device.
    pub fn create(process: &mut Process<'_>, device: DeviceIndex) -> Result<Self, CopyError> {
        let mut buffers = Buffers::default();
        let result = buffers
            .add(process, device, Usage::Ring, RING_BYTES.into(), "SDMA ring")
            .and_then(|()| buffers.add(process, device, Usage::Pointers, 4096, "SDMA pointers"))
            .and_then(|()| buffers.add(process, device, Usage::Signals, 4096, "SDMA fence"));
        if let Err(error) = result {
            let _ = buffers.free(process);
            return Err(CopyError::Alloc(error));
        }
        for at in [WRITE, READ] {
            buffers.pointers().store64(at, 0);
        }
        buffers.signals().store32(FENCE, 0);
        let pointers = buffers.0[1].va();
        let mut arg = CreateQueue {
            ring_base_address: buffers.0[0].va(),
            write_pointer_address: pointers + WRITE as u64,
            read_pointer_address: pointers + READ as u64,
            ring_size: RING_BYTES,
            gpu_id: process.device(device).gpu_id(),
            queue_type: queue_type::SDMA,
            queue_percentage: 100,
            queue_priority: Priority::Normal.number(),
            ..CreateQueue::default()
        };
        match process.create_queue(device, &mut arg) {
            Ok((id, doorbell)) => Ok(Self { device, id, doorbell, buffers, written: 0, issued: 0 }),
            Err(errno) => {
                let _ = buffers.free(process);
                Err(if errno == Errno::ENOMEM { CopyError::NoneFree } else { CopyError::Refused(errno) })
            }
        }
    }

    /// Takes the queue down and frees its buffers.
    pub fn destroy(self, process: &mut Process<'_>) -> Result<(), Errno> {
        process.destroy_queue(self.device, self.id)?;
        self.buffers.free(process).map_err(|error| error.errno)
    }

    fn free_bytes(&self) -> u64 {
        let read = self.buffers.pointers().load64(READ).min(self.written);
        u64::from(RING_BYTES) - (self.written - read)
    }

    fn put(&mut self, words: &[u32]) {
        let at = (self.written % u64::from(RING_BYTES)) as usize;
        self.buffers.ring().write(at, bytemuck::cast_slice(words));
        self.written += size_of_val(words) as u64;
    }

    /// Queues a copy of `bytes` (1 to 1 GiB) between addresses mapped on the device. `Ok(None)` when the ring is
    /// full: wait for an earlier ticket. Kernels that wrote the source have to be complete.
    pub fn copy(
        &mut self,
        process: &Process<'_>,
        to: u64,
        from: u64,
        bytes: u64,
    ) -> Result<Option<CopyFence>, CopyError> {
        assert!((1..=COPY_BYTES).contains(&bytes), "{bytes} bytes in one copy");
        const REQUEST: u64 = (REQUEST_WORDS * 4) as u64;
        let doorbells = process.device(self.device).doorbells.as_ref();
        let doorbells = doorbells.filter(|_| !process.is_lost(self.device)).ok_or(CopyError::Lost)?;
        let tail = u64::from(RING_BYTES) - self.written % u64::from(RING_BYTES);
        let padding = if tail < REQUEST { tail } else { 0 };
        // Never equal: a full ring would look empty.
        if self.free_bytes() <= padding + REQUEST {
            return Ok(None);
        }
        // A zero word is a NOP.
        for _ in 0..padding / 4 {
            self.put(&[0]);
        }
        self.issued = self.issued.wrapping_add(1);
        let fence = self.buffers.0[2].va() + FENCE as u64;
        self.put(&sdma::before_copy());
        self.put(&sdma::copy(to, from, bytes));
        self.put(&sdma::after_copy());
        self.put(&sdma::fence(fence, self.issued));
        self.buffers.pointers().store64(WRITE, self.written);
        process.kernel().ring(doorbells, self.doorbell, self.written);
        Ok(Some(CopyFence(self.issued)))
    }

    /// True if a copy is complete.
    pub fn is_complete(&self, ticket: CopyFence) -> bool {
        let fence: &Window = self.buffers.signals();
        // Tickets wrap; at most a ring full of them is under way.
        fence.load32(FENCE).wrapping_sub(ticket.0) < 1 << 31
    }

    /// Waits for a copy, at most `limit_ms`.
    pub fn wait(&self, ticket: CopyFence, limit_ms: u32, delay: &mut dyn DelayNs) -> Result<(), CopyError> {
        const STEP_US: u32 = 20;
        for _ in 0..=u64::from(limit_ms) * 1000 / u64::from(STEP_US) {
            if self.is_complete(ticket) {
                return Ok(());
            }
            delay.delay_us(STEP_US);
        }
        Err(CopyError::Hang(limit_ms))
    }
}
