//! Finding names and duplicates among them, by order instead of by hash: a hostile file cannot make it slow.

use crate::heap::{self, Heap, OutOfMemory};

/// The places of items in ascending order of their names.
#[derive(Clone, Debug)]
pub(super) struct Names<'a> {
    order: heap::Vec<'a, u32>,
}

impl<'a> Names<'a> {
    /// Sorts `count` items; n log n comparisons whatever the names are.
    pub(super) fn new<'n>(
        heap: Heap<'a>,
        count: usize,
        name: impl Fn(usize) -> &'n [u8],
    ) -> Result<Self, OutOfMemory> {
        let mut order = heap::with_capacity(heap, count)?;
        for place in 0..count {
            heap::push(&mut order, u32::try_from(place).unwrap_or(u32::MAX))?;
        }
        order.sort_unstable_by_key(|place| (name(*place as usize), *place));
        Ok(Self { order })
    }

    pub(super) fn heap_bytes(&self) -> usize {
        heap::held(&self.order)
    }

    /// The first item whose name an earlier one has.
    pub(super) fn duplicate<'n>(&self, name: impl Fn(usize) -> &'n [u8]) -> Option<usize> {
        let pairs = self.order.windows(2).map(|pair| (pair[0] as usize, pair[1] as usize));
        pairs.filter(|(first, second)| name(*first) == name(*second)).map(|(_, second)| second).min()
    }

    /// The item called `wanted`.
    pub(super) fn find<'n>(&self, wanted: &[u8], name: impl Fn(usize) -> &'n [u8]) -> Option<usize> {
        let found = self.order.binary_search_by_key(&wanted, |place| name(*place as usize)).ok()?;
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

    /// How often sorting so many names, finding duplicates and finding each looks at a name.
    fn looks(count: usize) -> [usize; 3] {
        let mixed = |place: usize| (place * 7919) % count;
        let names: Vec<String> = (0..count).map(|place| format!("general.key.{:08}", mixed(place))).collect();
        let looks = Cell::new(0);
        let name = |place: usize| {
            looks.set(looks.get() + 1);
            names[place].as_bytes()
        };
        let sorted = Names::new(&heap::Global, count, name).unwrap();
        let sorting = looks.take();
        assert_eq!(sorted.duplicate(name), None);
        let duplicates = looks.take();
        for (place, wanted) in names.iter().enumerate() {
            assert_eq!(sorted.find(wanted.as_bytes(), name), Some(place));
        }
        [sorting, duplicates, looks.take()]
    }

    /// Work instead of time: n log n for twice as many names, never a square.
    #[test]
    fn work_grows_with_the_number_of_names() {
        let [one, two] = [10_000, 20_000].map(looks);
        // Two names a comparison, 13.3 and 14.3 levels.
        assert!(one[0] < 10_000 * 2 * 20 && two[0] * 10 < one[0] * 23, "{one:?} {two:?}");
        assert_eq!([one[1], two[1]], [2 * 9_999, 2 * 19_999]);
        assert!(one[2] <= 10_000 * 15 && two[2] <= 20_000 * 16, "{one:?} {two:?}");
    }
}
