//! The scales inside blocks: half-precision numbers kept as bytes, and bare exponents.

use bytemuck::{Pod, Zeroable};

/// An IEEE half-precision number as in a block: two little-endian bytes, unaligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Half(pub [u8; 2]);

impl Half {
    /// Rounds to nearest, ties to even; overflow gives an infinity.
    pub fn new(value: f32) -> Self {
        Self(half::f16::from_f32(value).to_le_bytes())
    }

    /// The value, exactly.
    pub fn get(self) -> f32 {
        half::f16::from_le_bytes(self.0).to_f32()
    }
}

/// 2^(e − 128): an E8M0 exponent for codes that are stored doubled.
///
/// The two smallest are subnormal; 255, NaN in the OCP format, is an exponent like the others, as in ggml.
pub fn exponent_half(e: u8) -> f32 {
    match e {
        0 | 1 => f32::from_bits(0x0020_0000 << e),
        _ => f32::from_bits((u32::from(e) - 1) << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_overflows_to_infinity_and_keeps_subnormals() {
        assert_eq!(Half::new(65520.0).get(), f32::INFINITY);
        assert_eq!(Half::new(6e-8).get(), 5.960_464_5e-8);
        assert!(Half::new(f32::NAN).get().is_nan());
    }

    #[test]
    fn exponents_double_step_by_step() {
        assert_eq!(exponent_half(128), 1.0);
        for e in 0..=254 {
            assert_eq!(exponent_half(e) * 2.0, exponent_half(e + 1), "{e}");
        }
    }
}
