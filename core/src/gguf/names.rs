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
