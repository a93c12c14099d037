//! The common form of the lattice and ternary formats: small signed codes under integer scales and one factor.

/// 256 elements: value = factor · scale · code.
///
/// The product of scale and code is exact in f32, and so is that with a half-precision factor over a power of two.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Expanded {
    /// In order, each plus [`Self::BIAS`]: below 128.
    pub codes: [u8; 256],
    /// One per 16 elements.
    pub scales: [i8; 16],
    /// One per block.
    pub factor: f32,
}

impl Expanded {
    /// Offset of the stored codes.
    pub const BIAS: u8 = 64;

    /// All codes zero.
    pub const ZERO: Self = Self { codes: [Self::BIAS; 256], scales: [0; 16], factor: 0.0 };

    /// One scale for each 32 elements.
    pub(super) fn scales_of_32(&mut self, scale: impl Fn(usize) -> i8) {
        for (i, pair) in self.scales.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            *pair = [scale(i); 2];
        }
    }

    /// Eight codes at a time.
    pub(super) fn eights(&mut self) -> impl Iterator<Item = (usize, &mut [u8; 8])> {
        self.codes.as_chunks_mut::<8>().0.iter_mut().enumerate()
    }

    /// The values, one per element.
    fn write(&self, out: &mut [f32]) {
        for ((out, codes), scale) in
            out.chunks_exact_mut(16).zip(self.codes.chunks_exact(16)).zip(self.scales)
        {
            let scale = self.factor * f32::from(scale);
            for (out, code) in out.iter_mut().zip(codes) {
                *out = scale * (f32::from(*code) - f32::from(Self::BIAS));
            }
        }
    }
}

/// A block of 256 elements that expands.
pub trait Expand: super::Block {
    /// Writes all codes, all scales and the factor.
    fn expand(&self, out: &mut Expanded);
}

/// The block's values, by its expansion.
pub(super) fn dequantize<B: Expand>(block: &B, out: &mut [f32]) {
    let mut expanded = Expanded::ZERO;
    block.expand(&mut expanded);
    expanded.write(out);
}

/// Expands one block's bytes.
pub(super) fn expand_block<B: Expand>(bytes: &[u8], out: &mut Expanded) {
    if let [block] = super::block::blocks::<B>(bytes) {
        block.expand(out);
    }
}
