//! The lattice and ternary formats as what they come to: small signed codes under integer scales and one factor.

use super::Half;

/// 256 elements: value = factor · scale · code.
///
/// The product of scale and code is exact in f32, and so is that with a half-precision factor over a power of two.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Expanded {
    /// In order; within ±[`Self::LIMIT`].
    pub codes: [i8; 256],
    /// One per 16 elements.
    pub scales: [i8; 16],
    /// The block's.
    pub factor: f32,
}

impl Expanded {
    /// The largest magnitude of a code.
    pub const LIMIT: i8 = 63;

    /// All codes zero.
    pub const ZERO: Self = Self { codes: [0; 256], scales: [0; 16], factor: 0.0 };

    pub(super) fn new(scale: Half, over: f32) -> Self {
        Self { factor: scale.get() / over, ..Self::ZERO }
    }

    /// One scale for each 32 elements.
    pub(super) fn scales_of_32(&mut self, scale: impl Fn(usize) -> i8) {
        for (i, pair) in self.scales.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            *pair = [scale(i); 2];
        }
    }

    /// Eight codes at a time.
    pub(super) fn eights(&mut self) -> impl Iterator<Item = (usize, &mut [i8; 8])> {
        self.codes.as_chunks_mut::<8>().0.iter_mut().enumerate()
    }

    /// The values, one per element.
    pub(super) fn write(&self, out: &mut [f32]) {
        for ((out, codes), scale) in
            out.chunks_exact_mut(16).zip(self.codes.chunks_exact(16)).zip(self.scales)
        {
            let scale = self.factor * f32::from(scale);
            for (out, code) in out.iter_mut().zip(codes) {
                *out = scale * f32::from(*code);
            }
        }
    }
}

/// A block of 256 elements that expands.
pub trait Expand: super::Block {
    /// Its codes, scales and factor.
    fn expand(&self) -> Expanded;
}

/// Expands one block's bytes.
pub(super) fn expand_block<B: Expand>(bytes: &[u8], out: &mut Expanded) {
    if let [block] = super::block::blocks::<B>(bytes) {
        *out = block.expand();
    }
}
