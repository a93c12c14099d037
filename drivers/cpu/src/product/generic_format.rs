//! Strips of types without kernels of their own, by core's reference: every type runs, if not as fast as it might.
//!
//! Lattice and ternary formats become small codes under integer scales and go on as other superblocks do; the rest becomes
//! plain numbers.

use super::unpack::Writer;
use super::view::{Ahead, LaneWriter, Parts, StripRows};
use crate::formats::Superblock;
use crate::lines::Line;
use crate::simd::{Kernel, STRIP, Simd};
use doorbell_core::quant::{self, Expanded, Type};

/// Elements of the longest block of any type.
const LONGEST: usize = 256;

/// Distance at which weights are requested ahead of their use, in bytes, when a strip is less.
const AHEAD: usize = 16 << 10;

/// A strip of a type, and where it goes.
pub(super) struct GenericFormat<'a> {
    pub(super) ty: Type,
    /// Sixteen rows, one after the other.
    pub(super) rows: &'a [u8],
    pub(super) row_bytes: usize,
    /// The parts of superblocks, or a vector for each column of plain numbers.
    pub(super) out: &'a mut [Line],
}

/// The bytes of block `block` of row `row`.
fn block_of(rows: &[u8], row_bytes: usize, block_bytes: usize, row: usize, block: usize) -> &[u8] {
    &rows[row * row_bytes..][..row_bytes][block * block_bytes..][..block_bytes]
}

/// To superblocks' parts.
pub(super) struct Expand<'a>(pub(super) GenericFormat<'a>);

impl Kernel for Expand<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let GenericFormat { ty, rows, row_bytes, out } = self.0;
        let bytes = ty.block_bytes();
        let count = row_bytes / bytes;
        let parts = Parts::<<Expanded as Superblock>::Class>::new(256 * count, 256);
        let all = StripRows::<Expanded>::new(rows, row_bytes);
        let mut blocks = [Expanded::ZERO; STRIP];
        for block in 0..count {
            all.prefetch(simd, Ahead { index: block, bytes, least: AHEAD }, 0, 1);
            for (row, expanded) in blocks.iter_mut().enumerate() {
                // A whole block of a type that expands: `Products` checks for it.
                let _ = quant::expand(ty, block_of(rows, row_bytes, bytes, row, block), expanded);
            }
            for first in (0..STRIP).step_by(S::LANES) {
                let out = LaneWriter::new(out, first);
                let mut writer = Writer::<S, Expanded> { ahead: None, out, parts, block };
                Expanded::visit(simd, StripRows::of_blocks(&blocks).piece(first, 0), &mut writer);
            }
        }
    }
}

/// To plain numbers.
pub(super) fn dequantize(strip: GenericFormat<'_>) {
    let GenericFormat { ty, rows, row_bytes, out } = strip;
    let (len, bytes) = (ty.block_len(), ty.block_bytes());
    let mut values = [0f32; LONGEST];
    let values = &mut values[..len];
    for (block, columns) in out.chunks_exact_mut(len).enumerate().take(row_bytes / bytes) {
        for row in 0..STRIP {
            // A whole block of a type that `Weights::new` has let through.
            let _ = quant::dequantize(ty, block_of(rows, row_bytes, bytes, row, block), values);
            for (column, value) in columns.iter_mut().zip(&*values) {
                column.0.as_chunks_mut::<4>().0[row] = value.to_ne_bytes();
            }
        }
    }
}
