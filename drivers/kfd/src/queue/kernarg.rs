//! A ring of kernel arguments: addresses are used again only after the submission that read them is complete.
//!
//! What the arguments are is the caller's matter.

use super::compute::Submission;
use crate::memory::{AllocError, Buffer, FreeError, Name, Usage};
use crate::process::{DeviceIndex, Process};
use crate::sys::Window;

/// The first dispatch that reads arguments acquires from the system, so an address may come again after that.
#[derive(Debug)]
pub struct Kernargs {
    buffer: Buffer,
    /// Bytes given out since the start, wrapped ones included; offsets are this modulo the size.
    taken: u64,
    /// Bytes free again.
    freed: u64,
    /// Ends of submissions that are under way: submission and `taken` at that time.
    marks: heapless::Deque<(Submission, u64), 64>,
}

const ALIGN: u64 = 64;

impl Kernargs {
    /// A ring of `bytes` (rounded up to pages).
    pub fn new(process: &mut Process<'_>, device: DeviceIndex, bytes: u64) -> Result<Self, AllocError> {
        let buffer = process.allocate(device, Usage::Kernarg, bytes, Name::new("queue: kernargs"))?;
        Ok(Self { buffer, taken: 0, freed: 0, marks: heapless::Deque::new() })
    }

    /// Gives the memory back.
    pub fn destroy(self, process: &mut Process<'_>) -> Result<u64, FreeError> {
        process.free(self.buffer)
    }

    /// Room for `bytes`: the address and the window with its offset to write at. `None` when everything is still
    /// being read, or is more than the ring has.
    pub fn take(&mut self, bytes: u64) -> Option<(u64, &Window, usize)> {
        let size = self.buffer.bytes();
        let need = bytes.max(1).checked_next_multiple_of(ALIGN).filter(|&need| need <= size)?;
        let offset = self.taken % size;
        // Arguments do not wrap: the tail that is too short is skipped.
        let skip = if offset + need > size { size - offset } else { 0 };
        if self.taken + skip + need - self.freed > size {
            return None;
        }
        let at = (self.taken + skip) % size;
        self.taken += skip + need;
        Some((self.buffer.va() + at, self.buffer.host(), usize::try_from(at).ok()?))
    }

    /// Everything taken since the last mark is read by `submission`. `false` when more submissions are under way
    /// than can be remembered: call [`Self::recycle`] first.
    #[must_use]
    pub fn mark(&mut self, submission: Submission) -> bool {
        self.marks.push_back((submission, self.taken)).is_ok()
    }

    /// Frees what submissions up to `complete` have read.
    pub fn recycle(&mut self, complete: Submission) {
        while let Some(&(submission, end)) = self.marks.front()
            && submission <= complete
        {
            self.freed = end;
            self.marks.pop_front();
        }
    }
}
