//! Strips of types without kernels of their own, by core's reference: every type runs, if not as fast as it might.
//!
//! Lattice and ternary formats become small codes under integer scales and go on as other superblocks do; the rest becomes
//! plain numbers.
#![expect(unsafe_code, reason = "walks raw rows and writes raw scratch")]

use super::scratch::{Parts, VECTOR};
use super::unpack::{Writer, prefetch_next};
use crate::formats::Superblock;
use crate::simd::{Kernel, Rows, STRIP, Simd};
use core::marker::PhantomData;
use doorbell_core::quant::{self, Expanded, Type};

/// Elements of the longest block of any type.
const LONGEST: usize = 256;

/// A strip of a type, and where it goes.
pub(super) struct GenericFormat {
    ty: Type,
    rows: Rows,
    cols: usize,
    out: *mut u8,
}

impl GenericFormat {
    /// Sixteen rows of `cols` elements to `out`.
    ///
    /// # Safety
    /// Sixteen rows of `cols` elements of `ty` must be readable, and `out` writable for the parts of superblocks, or
    /// `cols` vectors of plain numbers.
    pub(super) const unsafe fn new(ty: Type, rows: Rows, cols: usize, out: *mut u8) -> Self {
        Self { ty, rows, cols, out }
    }

    /// The bytes of block `block` of a row.
    fn block(&self, row: usize, block: usize) -> &[u8] {
        let bytes = self.ty.block_bytes();
        // SAFETY: `new`: the rows have these blocks.
        unsafe {
            core::slice::from_raw_parts(self.rows.base.add(row * self.rows.stride + block * bytes), bytes)
        }
    }
}

/// To superblocks' parts.
pub(super) struct Expand(pub(super) GenericFormat);

impl Kernel for Expand {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Self(strip) = self;
        let parts = Parts::new::<<Expanded as Superblock>::Class>(strip.cols, 256);
        let mut blocks = [Expanded::ZERO; STRIP];
        for block in 0..strip.cols / 256 {
            prefetch_next(simd, strip.rows, (block, strip.ty.block_bytes()), (0, 1));
            for (row, expanded) in blocks.iter_mut().enumerate() {
                // A whole block of a type that expands: `Products` asks for it.
                let _ = quant::expand(strip.ty, strip.block(row, block), expanded);
            }
            for first in (0..STRIP).step_by(S::LANES) {
                // SAFETY: `GenericFormat::new`: scratch has these parts; the lanes' blocks begin at `first`.
                unsafe {
                    let base = blocks.as_ptr().add(first).cast();
                    let rows = Rows { base, stride: size_of::<Expanded>() };
                    let mut writer = Writer::<Expanded> {
                        whole: None,
                        out: strip.out.add(4 * first),
                        parts,
                        block,
                        format: PhantomData,
                    };
                    Expanded::visit(simd, rows, &mut writer);
                }
            }
        }
    }
}

/// To plain numbers.
pub(super) fn dequantize(strip: &GenericFormat) {
    let len = strip.ty.block_len();
    let mut values = [0f32; LONGEST];
    let values = &mut values[..len];
    for block in 0..strip.cols / len {
        for row in 0..STRIP {
            // A whole block of a type that `Weights::new` has let through.
            let _ = quant::dequantize(strip.ty, strip.block(row, block), values);
            for (column, value) in values.iter().enumerate() {
                // SAFETY: `GenericFormat::new`: there is a vector for each column.
                unsafe {
                    strip.out.add((block * len + column) * VECTOR).cast::<f32>().add(row).write(*value)
                };
            }
        }
    }
}
