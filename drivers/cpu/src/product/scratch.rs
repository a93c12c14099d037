//! A thread's working memory for products. The parts of unpacked strips in it are laid out in `view`.

use crate::lines::{LINE, Line, Lines};
use crate::simd::STRIP;
use doorbell_core::heap::{Heap, OutOfMemory};

/// A thread's working memory: two unpacked strips, and a strip of fewer than sixteen rows padded to sixteen.
#[derive(Debug)]
pub struct Scratch<'a> {
    pub(super) unpacked: Lines<'a>,
    pub(super) padding: Padding<'a>,
}

impl<'a> Scratch<'a> {
    /// Scratch without memory.
    #[must_use]
    pub fn new(heap: Heap<'a>) -> Self {
        Self { unpacked: Lines::new(heap), padding: Padding(Lines::new(heap)) }
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
        self.padding.0.grow(padded_row_bytes.saturating_mul(STRIP))
    }
}

/// Two regions of `vectors` vectors each, for unpacked strips.
///
/// # Panics
/// When [`Scratch::reserve`] was not called for as many columns.
pub(super) fn two_strips<'s>(unpacked: &'s mut Lines<'_>, vectors: usize) -> [&'s mut [Line]; 2] {
    let lines = unpacked.lines_mut();
    assert!(2 * vectors <= lines.len(), "scratch for two strips of {vectors} vectors");
    let (first, rest) = lines.split_at_mut(vectors);
    [first, &mut rest[..vectors]]
}

/// Memory for one strip, padded.
#[derive(Debug)]
pub(super) struct Padding<'a>(Lines<'a>);

impl Padding<'_> {
    /// Sixteen rows: those of `rows`, or a copy of them padded with rows of zeros.
    ///
    /// # Panics
    /// When [`Scratch::reserve`] was not called for as long rows.
    pub(super) fn sixteen<'s>(&'s mut self, rows: &'s [u8], row_bytes: usize) -> &'s [u8] {
        let bytes = STRIP * row_bytes;
        if rows.len() == bytes {
            return rows;
        }
        let padded = self.0.bytes_mut().get_mut(..bytes).filter(|padded| rows.len() <= padded.len());
        let padded = padded.expect("padding for a strip");
        let (copy, zeros) = padded.split_at_mut(rows.len());
        copy.copy_from_slice(rows);
        zeros.fill(0);
        padded
    }
}
