//! The caller's allocator, and fallible growth over it. How much memory to use is not decided here.

use allocator_api2::alloc::Allocator;
use core::fmt;

pub use allocator_api2::alloc::Global;

/// The allocator of core's memory: a shared reference, so that types need a lifetime and no type parameter.
pub type Heap<'a> = &'a (dyn Allocator + Sync);

/// A vector whose storage comes from a [`Heap`].
pub type Vec<'a, T> = allocator_api2::vec::Vec<T, Heap<'a>>;

/// The heap refused an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct OutOfMemory {
    /// Bytes asked for; saturated on overflow.
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

/// Bytes that a vector has taken.
pub fn held<T>(vec: &Vec<'_, T>) -> usize {
    vec.capacity().saturating_mul(size_of::<T>())
}

/// Bytes that a hash table takes for `count` elements of type `T`, as hashbrown lays it out: a power of two of
/// buckets of which an eighth stays free, followed by a byte for each.
pub fn table_bytes<T>(count: usize) -> usize {
    const GROUP: usize = 16;
    let buckets = match count {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        8..=14 => 16,
        _ => (count.saturating_mul(8) / 7).checked_next_power_of_two().unwrap_or(usize::MAX),
    };
    let elements = buckets.saturating_mul(size_of::<T>()).div_ceil(GROUP).saturating_mul(GROUP);
    elements.saturating_add(buckets).saturating_add(GROUP)
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

/// Makes room for `count` elements in all without over-allocating.
pub fn grow<T>(vec: &mut Vec<'_, T>, count: usize) -> Result<(), OutOfMemory> {
    reserve(vec, count.saturating_sub(vec.len()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use hashbrown::HashTable;

    #[test]
    fn tables_take_what_was_predicted() {
        for count in [0, 1, 3, 4, 7, 8, 14, 15, 28, 29, 100, 1000, 5000] {
            let mut small: HashTable<u32, Heap<'_>> = HashTable::new_in(&Global);
            let mut large: HashTable<[u32; 5], Heap<'_>> = HashTable::new_in(&Global);
            small.try_reserve(count, |_| 0).unwrap();
            large.try_reserve(count, |_| 0).unwrap();
            assert_eq!(small.allocation_size(), table_bytes::<u32>(count), "{count}");
            assert_eq!(large.allocation_size(), table_bytes::<[u32; 5]>(count), "{count}");
        }
    }

    #[test]
    fn sizes_that_overflow_are_refused_not_wrapped() {
        let heap: Heap<'_> = &Global;
        assert_eq!(filled(heap, usize::MAX, 0_u64).unwrap_err(), OutOfMemory { bytes: usize::MAX });
        assert_eq!(with_capacity::<u8>(heap, usize::MAX).unwrap_err(), OutOfMemory { bytes: usize::MAX });
        let mut vec = copied(heap, &[1_u16, 2]).unwrap();
        assert!(reserve(&mut vec, usize::MAX).is_err());
        assert_eq!(held(&vec), 4);
        push(&mut vec, 3).unwrap();
        extend(&mut vec, &[4, 5]).unwrap();
        assert_eq!(*vec, [1, 2, 3, 4, 5]);
        extern crate alloc;
        assert_eq!(alloc::format!("{}", OutOfMemory { bytes: 7 }), "out of memory: 7 bytes refused");
    }
}
