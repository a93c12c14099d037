//! A sorted index of names, and their duplicates. Sorting instead of hashing: a hostile file cannot make it slow.

use crate::heap::{self, Heap, OutOfMemory};

/// Indexes of items in ascending order of their names.
#[derive(Clone, Debug)]
pub(super) struct Names<'a> {
    order: heap::Vec<'a, u32>,
}

impl<'a> Names<'a> {
    /// Sorts `count` items; n log n comparisons for any names.
    pub(super) fn new<'n>(
        heap: Heap<'a>,
        count: usize,
        name: impl Fn(usize) -> &'n [u8],
    ) -> Result<Self, OutOfMemory> {
        let mut order = heap::with_capacity(heap, count)?;
        for index in 0..count {
            heap::push(&mut order, u32::try_from(index).unwrap_or(u32::MAX))?;
        }
        order.sort_unstable_by_key(|index| (name(*index as usize), *index));
        Ok(Self { order })
    }

    pub(super) fn heap_bytes(&self) -> usize {
        heap::held(&self.order)
    }

    /// The first item with the name of an earlier one.
    pub(super) fn duplicate<'n>(&self, name: impl Fn(usize) -> &'n [u8]) -> Option<usize> {
        let pairs = self.order.windows(2).map(|pair| (pair[0] as usize, pair[1] as usize));
        pairs.filter(|(first, second)| name(*first) == name(*second)).map(|(_, second)| second).min()
    }

    /// The item called `wanted`.
    pub(super) fn find<'n>(&self, wanted: &[u8], name: impl Fn(usize) -> &'n [u8]) -> Option<usize> {
        let found = self.order.binary_search_by_key(&wanted, |index| name(*index as usize)).ok()?;
        Some(self.order[found] as usize)
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;
    use core::cell::Cell;

    /// Number of names that are looked at when `count` names are sorted, checked for duplicates and each found once.
    fn looks(count: usize) -> [usize; 3] {
        let mixed = |index: usize| (index * 7919) % count;
        let names: Vec<String> = (0..count).map(|index| format!("general.key.{:08}", mixed(index))).collect();
        let looks = Cell::new(0);
        let name = |index: usize| {
            looks.set(looks.get() + 1);
            names[index].as_bytes()
        };
        let sorted = Names::new(&heap::Global, count, name).unwrap();
        let sorting = looks.take();
        assert_eq!(sorted.duplicate(name), None);
        let duplicates = looks.take();
        for (index, wanted) in names.iter().enumerate() {
            assert_eq!(sorted.find(wanted.as_bytes(), name), Some(index));
        }
        [sorting, duplicates, looks.take()]
    }

    /// Counts comparisons instead of time: n log n, not quadratic.
    #[test]
    fn work_grows_with_the_number_of_names() {
        let [one, two] = [10_000, 20_000].map(looks);
        // Two names per comparison, 13.3 and 14.3 levels.
        assert!(one[0] < 10_000 * 2 * 20 && two[0] * 10 < one[0] * 23, "{one:?} {two:?}");
        assert_eq!([one[1], two[1]], [2 * 9_999, 2 * 19_999]);
        assert!(one[2] <= 10_000 * 15 && two[2] <= 20_000 * 16, "{one:?} {two:?}");
    }
}
