//! The reason why a kernel can't be built for a chip.

use core::fmt;

/// Why a spec can't be built for a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecError {
    /// The shape does not fit the kernel: registers or LDS would not do.
    Shape,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape => write!(f, "no kernel takes this shape"),
        }
    }
}

impl core::error::Error for SpecError {}
