//! Memory in whole cache lines, so that vectors of 64 bytes do not straddle two. The owners decide what lies in it.
#![expect(unsafe_code, reason = "shows lines as numbers, and owns an allocation of zeros")]

use core::alloc::Layout;
use core::ptr::NonNull;
use doorbell_core::heap::{self, Heap, OutOfMemory, Vec};

/// A cache line; as sixteen lanes of four bytes, a vector.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u8; LINE]);

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// A buffer that only grows; new bytes are 0.
#[derive(Debug)]
pub(crate) struct Lines<'h>(Vec<'h, Line>);

impl<'h> Lines<'h> {
    /// A buffer without memory.
    pub(crate) fn new(heap: Heap<'h>) -> Self {
        Self(Vec::new_in(heap))
    }

    /// Grows to at least `bytes` bytes in all.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let lines = bytes.div_ceil(LINE);
        if lines > self.0.len() {
            heap::grow(&mut self.0, lines)?;
            self.0.resize(lines, Line([0; LINE]));
        }
        Ok(())
    }

    /// Grows to at least `count` numbers of four bytes.
    pub(crate) fn grow_numbers(&mut self, count: usize) -> Result<(), OutOfMemory> {
        self.grow(count.saturating_mul(4))
    }

    /// The lines.
    pub(crate) fn lines_mut(&mut self) -> &mut [Line] {
        &mut self.0
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: a line is 64 bytes without padding.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr().cast(), LINE * self.0.len()) }
    }

    /// The bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; the lines are borrowed for as long.
        unsafe { core::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), LINE * self.0.len()) }
    }

    /// The bytes as floats.
    pub(crate) fn floats(&self) -> &[f32] {
        // SAFETY: a line is 16 aligned words without padding, and every word is a float.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr().cast(), 16 * self.0.len()) }
    }

    /// The bytes as floats.
    pub(crate) fn floats_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `floats`; every float is a word, and the lines are borrowed for as long.
        unsafe { core::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), 16 * self.0.len()) }
    }
}

/// Lines as words.
pub(crate) fn words_mut(lines: &mut [Line]) -> &mut [i32] {
    // SAFETY: a line is 16 aligned words without padding, every word is an integer, and the lines are borrowed for as
    // long.
    unsafe { core::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), 16 * lines.len()) }
}

/// Bytes that begin as 0, in pages that the system hands out when they are first touched.
pub(crate) struct Zeroed<'h> {
    base: NonNull<u8>,
    layout: Layout,
    heap: Heap<'h>,
}

// SAFETY: the bytes belong to this value alone, and the heap is a reference to a `Sync` allocator.
unsafe impl Send for Zeroed<'_> {}
// SAFETY: a shared reference only reads the bytes.
unsafe impl Sync for Zeroed<'_> {}

impl core::fmt::Debug for Zeroed<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Zeroed").field("bytes", &self.layout.size()).finish_non_exhaustive()
    }
}

impl<'h> Zeroed<'h> {
    /// `bytes` zeros, on a cache line.
    pub(crate) fn new(bytes: usize, heap: Heap<'h>) -> Result<Self, OutOfMemory> {
        let layout = Layout::from_size_align(bytes, LINE).map_err(|_| OutOfMemory { bytes })?;
        let base = heap.allocate_zeroed(layout).map_err(|_| OutOfMemory { bytes })?;
        Ok(Self { base: base.cast(), layout, heap })
    }

    /// The bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the allocation, which `new` had zeroed, is this value's, which is borrowed for as long.
        unsafe { core::slice::from_raw_parts_mut(self.base.as_ptr(), self.layout.size()) }
    }

    /// The bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: as in `bytes_mut`; only a borrow of the whole value writes.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Zeroed<'_> {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it from this heap with this layout, and it is freed once.
        unsafe { self.heap.deallocate(self.base, self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_core::heap::Global;

    #[test]
    fn lines_are_bytes_floats_and_words() {
        let mut lines = Lines::new(&Global);
        lines.grow(65).unwrap();
        assert_eq!((lines.bytes().len(), lines.floats().len()), (128, 32));
        lines.floats_mut()[17] = 1.0;
        assert_eq!(lines.bytes()[68..72], 1f32.to_ne_bytes());
        assert_eq!(words_mut(lines.lines_mut())[17], 1f32.to_bits().cast_signed());
        assert_eq!(lines.bytes().as_ptr().addr() % LINE, 0);
    }

    #[test]
    fn zeros_are_written_and_freed() {
        let mut zeroed = Zeroed::new(100, &Global).unwrap();
        assert!(zeroed.bytes().iter().all(|byte| *byte == 0));
        zeroed.bytes_mut()[99] = 7;
        assert_eq!(zeroed.bytes()[99], 7);
        assert_eq!(Zeroed::new(usize::MAX, &Global).unwrap_err(), OutOfMemory { bytes: usize::MAX });
    }
}
