//! Memory in whole cache lines, so that vectors of 64 bytes do not straddle two. What lies in it is its owner's matter.

use doorbell_core::heap::{self, Heap, OutOfMemory, Vec};

/// A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// A buffer that only grows; new bytes are 0.
#[derive(Debug)]
pub(crate) struct Lines<'h>(Vec<'h, Line>);

impl<'h> Lines<'h> {
    /// No memory yet.
    pub(crate) fn new(heap: Heap<'h>) -> Self {
        Self(Vec::new_in(heap))
    }

    /// Makes room for so many bytes in all.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let lines = bytes.div_ceil(LINE);
        if lines > self.0.len() {
            heap::grow(&mut self.0, lines)?;
            self.0.resize(lines, Line([0; LINE]));
        }
        Ok(())
    }

    /// Bytes there are.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * LINE
    }

    /// The first byte.
    pub(crate) fn pointer(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }

    /// The first byte.
    pub(crate) fn pointer_mut(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}
