//! The MODE register: rounding, denormals, NaN rules.
//!
//! Not here: how results are rounded (`float.rs`).

/// Rounding direction, in the order of the register's two-bit fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Round {
    /// To nearest, ties to even.
    Nearest,
    /// Toward plus infinity.
    Up,
    /// Toward minus infinity.
    Down,
    /// Toward zero.
    Zero,
}

impl Round {
    const fn of(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Nearest,
            1 => Self::Up,
            2 => Self::Down,
            _ => Self::Zero,
        }
    }
}

/// MODE: round f32 `[1:0]`, round f16/f64 `[3:2]`, denormals f32 `[5:4]`, denormals f16/f64 `[7:6]` (bit 0 inputs
/// kept, bit 1 outputs kept), DX10_CLAMP 8, IEEE 9 (LLVM's AMDGPU usage guide, kernel descriptor, FLOAT_MODE).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mode(pub(crate) u32);

impl Mode {
    /// Bit of DX10_CLAMP.
    pub(crate) const DX10_CLAMP: u32 = 1 << 8;
    /// Bit of IEEE.
    pub(crate) const IEEE: u32 = 1 << 9;

    /// Rounding of f32 results.
    pub(crate) const fn round32(self) -> Round {
        Round::of(self.0)
    }

    /// Rounding of f16 and f64 results.
    pub(crate) const fn round64(self) -> Round {
        Round::of(self.0 >> 2)
    }

    /// True if denormal f32 inputs are kept.
    pub(crate) const fn keeps_in32(self) -> bool {
        self.0 & 1 << 4 != 0
    }

    /// True if denormal f32 results are kept.
    pub(crate) const fn keeps_out32(self) -> bool {
        self.0 & 1 << 5 != 0
    }

    /// True if denormal f16 and f64 inputs are kept.
    pub(crate) const fn keeps_in64(self) -> bool {
        self.0 & 1 << 6 != 0
    }

    /// True if denormal f16 and f64 results are kept.
    pub(crate) const fn keeps_out64(self) -> bool {
        self.0 & 1 << 7 != 0
    }

    /// True if clamping turns NaN into 0.
    pub(crate) const fn dx10_clamp(self) -> bool {
        self.0 & Self::DX10_CLAMP != 0
    }

    /// True if signalling NaNs are quieted and returned by minima and maxima.
    pub(crate) const fn ieee(self) -> bool {
        self.0 & Self::IEEE != 0
    }
}
