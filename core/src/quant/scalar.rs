//! The scalars inside blocks: half-precision numbers kept as bytes, and rounding to integers.

use bytemuck::{Pod, Zeroable};

/// An IEEE half-precision number as it lies in a block: two little-endian bytes, unaligned.
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

/// Rounds to the nearest integer, ties to even, and limits to ±127; NaN gives 0.
///
/// Adding 1.5·2^23 leaves no fraction bits, so the addition itself rounds.
pub(super) fn round_to_code(value: f32) -> i8 {
    const MAGIC: f32 = 12_582_912.0;
    ((value.clamp(-127.0, 127.0) + MAGIC) - MAGIC) as i8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_half_to_even_and_limited() {
        for (value, code) in [
            (0.5, 0),
            (1.5, 2),
            (2.5, 2),
            (-0.5, 0),
            (-2.5, -2),
            (126.5, 126),
            (127.4, 127),
            (1e30, 127),
            (-1e30, -127),
            (f32::INFINITY, 127),
            (f32::NAN, 0),
        ] {
            assert_eq!(round_to_code(value), code, "{value}");
        }
    }

    #[test]
    fn half_overflows_to_infinity_and_keeps_subnormals() {
        assert_eq!(Half::new(65520.0).get(), f32::INFINITY);
        assert_eq!(Half::new(6e-8).get(), 5.960_464_5e-8);
        assert!(Half::new(f32::NAN).get().is_nan());
    }
}
