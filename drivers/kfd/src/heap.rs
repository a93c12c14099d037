//! Fallible growth of vectors. How much memory is right is not decided here.

use alloc::vec::Vec;
use core::fmt;

/// The host's allocator could not give memory for this driver's own tables.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of host memory for the driver's tables")
    }
}

impl core::error::Error for OutOfMemory {}

/// Appends one element.
pub(crate) fn push<T>(vec: &mut Vec<T>, value: T) -> Result<(), OutOfMemory> {
    vec.try_reserve(1).map_err(|_| OutOfMemory)?;
    vec.push(value);
    Ok(())
}

/// `len` copies of `value`.
pub(crate) fn filled<T: Clone>(len: usize, value: T) -> Result<Vec<T>, OutOfMemory> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(len).map_err(|_| OutOfMemory)?;
    vec.resize(len, value);
    Ok(vec)
}
