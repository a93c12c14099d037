//! The free parts of a range: allocated first-fit, joined when they are released. What the range stands for is not
//! decided here.

use crate::heap::{OutOfMemory, push};
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
}

/// Free ranges by offset: sorted, disjoint, never touching.
#[derive(Debug)]
pub(super) struct FreeRanges(Vec<Range>);

impl FreeRanges {
    /// A range of `bytes`, all of them free.
    pub(super) fn new(bytes: u64) -> Result<Self, OutOfMemory> {
        let mut free = Vec::new();
        push(&mut free, Range { start: 0, end: bytes })?;
        Ok(Self(free))
    }

    /// Free bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// The offset of `bytes` at a multiple of `align`, no longer free; `None` when no range has room for them. Host
    /// memory is only needed when a range is split in two, which multiples of `align` never do.
    pub(super) fn allocate(&mut self, bytes: u64, align: u64) -> Result<Option<u64>, OutOfMemory> {
        let start = |range: &Range| {
            let start = range.start.checked_next_multiple_of(align)?;
            Some((start, start.checked_add(bytes).filter(|&end| end <= range.end)?))
        };
        let found = self.0.iter().enumerate().find_map(|(at, range)| Some((at, start(range)?)));
        let Some((at, (start, end))) = found else { return Ok(None) };
        let range = self.0[at];
        match (range.start < start, end < range.end) {
            (true, true) => {
                self.0.try_reserve(1).map_err(|_| OutOfMemory)?;
                self.0[at].end = start;
                self.0.insert(at + 1, Range { start: end, ..range });
            }
            (true, false) => self.0[at].end = start,
            (false, true) => self.0[at].start = end,
            (false, false) => _ = self.0.remove(at),
        }
        Ok(Some(start))
    }

    /// Makes free again what [`Self::allocate`] returned. Without host memory for one more range it stays allocated,
    /// which is safe.
    pub(super) fn release(&mut self, start: u64, bytes: u64) {
        let end = start + bytes;
        let at = self.0.partition_point(|range| range.start < start);
        let joins_before = at > 0 && self.0[at - 1].end == start;
        let joins_after = self.0.get(at).is_some_and(|range| range.start == end);
        match (joins_before, joins_after) {
            (true, true) => {
                self.0[at - 1].end = self.0[at].end;
                self.0.remove(at);
            }
            (true, false) => self.0[at - 1].end = end,
            (false, true) => self.0[at].start = start,
            (false, false) if self.0.try_reserve(1).is_ok() => self.0.insert(at, Range { start, end }),
            (false, false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_and_join_when_they_come_back() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
            let mut free = FreeRanges::new(100).expect("memory");
            let sizes = [(1, 1), (16, 16), (20, 1), (32, 32)];
            let taken = sizes.map(|(bytes, align)| (free.allocate(bytes, align).expect("memory"), bytes));
            assert_eq!(taken.map(|(start, _)| start), [Some(0), Some(16), Some(32), Some(64)]);
            assert_eq!(free.bytes(), 100 - 69);
            assert_eq!(free.allocate(16, 1), Ok(None), "15 + 12 + 4 bytes are free");
            assert_eq!(free.allocate(u64::MAX, 1), Ok(None));
            for index in order {
                let (start, bytes) = taken[index];
                free.release(start.expect("taken"), bytes);
            }
            assert_eq!(free.0, [Range { start: 0, end: 100 }]);
            assert_eq!((free.allocate(100, 64), free.bytes()), (Ok(Some(0)), 0));
        }
    }
}
