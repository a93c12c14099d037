//! A thread's working memory for products, and where the parts of unpacked strips lie in it.
#![expect(unsafe_code, reason = "hands out pointers into an aligned buffer")]

use crate::formats::Class;
use crate::lines::{LINE, Lines};
use crate::simd::STRIP;
use doorbell_core::heap::{Heap, OutOfMemory};

/// A thread's working memory: two unpacked strips, and a strip of fewer than sixteen rows padded to sixteen.
#[derive(Debug)]
pub struct Scratch<'a> {
    unpacked: Lines<'a>,
    padded: Lines<'a>,
}

impl<'a> Scratch<'a> {
    /// No memory yet.
    #[must_use]
    pub fn new(heap: Heap<'a>) -> Self {
        Self { unpacked: Lines::new(heap), padded: Lines::new(heap) }
    }

    /// Makes room for strips of `cols` columns in any format, and for padding rows of `padded_row_bytes` (0 when
    /// every matrix has a multiple of sixteen rows).
    ///
    /// # Errors
    /// When the heap refuses.
    pub fn reserve(&mut self, cols: usize, padded_row_bytes: usize) -> Result<(), OutOfMemory> {
        // Plain numbers take most: four bytes each.
        let unpacked = cols.saturating_mul(4 * STRIP * 2).saturating_add(2 * LINE);
        self.unpacked.grow(unpacked)?;
        self.padded.grow(padded_row_bytes.saturating_mul(STRIP))
    }

    /// Two regions for unpacked strips of `bytes` each.
    ///
    /// # Panics
    /// When [`Self::reserve`] was not called for as many columns.
    pub(super) fn strips(&mut self, bytes: usize) -> [*mut u8; 2] {
        let stride = bytes.next_multiple_of(LINE);
        assert!(2 * stride <= self.unpacked.bytes(), "scratch for two strips of {bytes} bytes");
        let base = self.unpacked.pointer_mut();
        // SAFETY: just checked that both regions lie in the buffer.
        [base, unsafe { base.add(stride) }]
    }

    /// A copy of `rows`, padded with zero rows to sixteen.
    ///
    /// # Panics
    /// When [`Self::reserve`] was not called for as long rows.
    pub(super) fn pad(&mut self, rows: &[u8], row_bytes: usize) -> *const u8 {
        let bytes = STRIP * row_bytes;
        assert!(bytes <= self.padded.bytes() && rows.len() <= bytes, "padding for rows of {row_bytes} bytes");
        let base = self.padded.pointer_mut();
        // SAFETY: just checked that sixteen rows fit the buffer, and `rows` is no part of it.
        unsafe {
            base.copy_from_nonoverlapping(rows.as_ptr(), rows.len());
            base.add(rows.len()).write_bytes(0, bytes - rows.len());
        }
        base
    }
}

/// Bytes of one unpacked vector of sixteen rows.
pub(super) const VECTOR: usize = 4 * STRIP;

/// Where the parts of an unpacked strip lie, in bytes from its start. Every part is vectors of sixteen rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// i32 scale per sub-block of a superblock.
    pub(super) sub_scales: usize,
    /// i16 pairs of minima of two sub-blocks.
    pub(super) minima: usize,
    /// f32 scale per block.
    pub(super) scales: usize,
    /// f32 minimum per block, or factor on minima.
    pub(super) floors: usize,
    /// All of it.
    pub(super) bytes: usize,
}

impl Parts {
    /// Groups of codes come first; then the scales of blocks of `block` codes, of which one of 256 has sub-blocks.
    pub(super) const fn new<C: Class>(cols: usize, block: usize) -> Self {
        let sub_scales = cols / 4 * VECTOR;
        let (subs, pairs) = match (block, C::MINIMA) {
            (256, true) => (cols / C::SUB, cols / C::SUB / 2),
            (256, false) => (cols / C::SUB, 0),
            _ => (0, 0),
        };
        let minima = sub_scales + subs * VECTOR;
        let scales = minima + pairs * VECTOR;
        let floors = scales + cols / block * VECTOR;
        let bytes = if C::MINIMA { floors + cols / block * VECTOR } else { floors };
        Self { sub_scales, minima, scales, floors, bytes }
    }
}
