//! The argument segment: packed by the host from the description that the kernel was built with.

use crate::ir::{ArgumentKind, Function};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// Value of one argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentValue {
    /// Address of a buffer.
    Buffer(u64),
    /// 32-bit value.
    Scalar(u32),
}

/// Values that do not fit the kernel's arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ArgumentError {
    /// Wrong number of values.
    Count {
        /// Arguments of the kernel.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// A buffer where a scalar is expected, or the reverse.
    Kind {
        /// Position.
        index: usize,
        /// The kind that the kernel expects.
        expected: ArgumentKind,
    },
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { expected, found } => write!(f, "{expected} arguments expected, {found} given"),
            Self::Kind { index, expected } => write!(f, "argument {index} is a {expected:?}"),
        }
    }
}

impl core::error::Error for ArgumentError {}

/// Packs argument values as the kernel reads them.
///
/// # Errors
///
/// If number or kinds differ from the kernel's.
pub fn pack_arguments(function: &Function, values: &[ArgumentValue]) -> Result<Vec<u8>, ArgumentError> {
    let expected = function.arguments.len();
    if values.len() != expected {
        return Err(ArgumentError::Count { expected, found: values.len() });
    }
    let mut bytes = vec![0; function.kernarg_bytes() as usize];
    for (index, (argument, value)) in function.arguments.iter().zip(values).enumerate() {
        let at = argument.offset as usize;
        match (argument.kind, value) {
            (ArgumentKind::Buffer, ArgumentValue::Buffer(address)) => {
                bytes[at..at + 8].copy_from_slice(&address.to_le_bytes());
            }
            (ArgumentKind::Scalar, ArgumentValue::Scalar(value)) => {
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            (expected, _) => return Err(ArgumentError::Kind { index, expected }),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Builder, Elem};

    #[test]
    fn values_lie_at_their_offsets() {
        let mut k = Builder::new("k", 32);
        k.scalar("n", Elem::Int);
        k.buffer("a");
        let function = k.finish();
        let packed =
            pack_arguments(&function, &[ArgumentValue::Scalar(7), ArgumentValue::Buffer(0x1_0000_0002)]);
        assert_eq!(packed, Ok(vec![7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]));
        let wrong = pack_arguments(&function, &[ArgumentValue::Buffer(1), ArgumentValue::Buffer(2)]);
        assert_eq!(wrong, Err(ArgumentError::Kind { index: 0, expected: ArgumentKind::Scalar }));
    }
}
