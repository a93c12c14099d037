//! The caller's allocator, and fallible growth over it. Nothing here decides how much memory is right.

use allocator_api2::alloc::Allocator;
use core::fmt;

pub use allocator_api2::alloc::Global;

/// Where core's memory comes from: a shared reference, so that types need a lifetime and no parameter.
pub type Heap<'a> = &'a (dyn Allocator + Sync);

/// A vector whose storage comes from a [`Heap`].
pub type Vec<'a, T> = allocator_api2::vec::Vec<T, Heap<'a>>;

/// The heap could not give this many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Bytes asked for (saturated when the request itself overflows).
    pub bytes: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "out of memory: {} bytes refused", self.bytes)
    }
}

impl core::error::Error for OutOfMemory {}

fn refused<T>(count: usize) -> OutOfMemory {
    OutOfMemory { bytes: count.saturating_mul(size_of::<T>()) }
}

/// An empty vector with room for `count` elements.
pub fn with_capacity<'a, T>(heap: Heap<'a>, count: usize) -> Result<Vec<'a, T>, OutOfMemory> {
    let mut vec = Vec::new_in(heap);
    reserve(&mut vec, count)?;
    Ok(vec)
}

/// A vector of `count` copies of `value`.
pub fn filled<'a, T: Clone>(heap: Heap<'a>, count: usize, value: T) -> Result<Vec<'a, T>, OutOfMemory> {
    let mut vec = with_capacity(heap, count)?;
    vec.resize(count, value);
    Ok(vec)
}

/// A copy of `items`.
pub fn copied<'a, T: Clone>(heap: Heap<'a>, items: &[T]) -> Result<Vec<'a, T>, OutOfMemory> {
    let mut vec = with_capacity(heap, items.len())?;
    vec.extend_from_slice(items);
    Ok(vec)
}

/// Makes room for `additional` more elements without over-allocating.
pub fn reserve<T>(vec: &mut Vec<'_, T>, additional: usize) -> Result<(), OutOfMemory> {
    vec.try_reserve_exact(additional).map_err(|_| refused::<T>(vec.len().saturating_add(additional)))
}

/// Appends one element, growing geometrically.
pub fn push<T>(vec: &mut Vec<'_, T>, value: T) -> Result<(), OutOfMemory> {
    vec.try_reserve(1).map_err(|_| refused::<T>(vec.len().saturating_add(1)))?;
    vec.push(value);
    Ok(())
}

/// Appends a copy of `items`, growing geometrically.
pub fn extend<T: Clone>(vec: &mut Vec<'_, T>, items: &[T]) -> Result<(), OutOfMemory> {
    vec.try_reserve(items.len()).map_err(|_| refused::<T>(vec.len().saturating_add(items.len())))?;
    vec.extend_from_slice(items);
    Ok(())
}
