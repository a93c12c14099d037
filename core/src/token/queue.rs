//! A binary heap whose storage comes from the caller: the smallest element first.

use crate::heap::{self, Heap, OutOfMemory};

/// A priority queue; the smallest element comes first.
#[derive(Debug)]
pub(super) struct Queue<'a, T>(heap::Vec<'a, T>);

impl<'a, T: Ord> Queue<'a, T> {
    /// An empty queue.
    pub(super) fn new(heap: Heap<'a>) -> Self {
        Self(heap::Vec::new_in(heap))
    }

    /// Removes all elements and keeps the capacity.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds an element.
    pub(super) fn push(&mut self, element: T) -> Result<(), OutOfMemory> {
        heap::push(&mut self.0, element)?;
        let mut at = self.0.len() - 1;
        while at > 0 {
            let above = (at - 1) / 2;
            if self.0[above] <= self.0[at] {
                break;
            }
            self.0.swap(above, at);
            at = above;
        }
        Ok(())
    }

    /// Removes the smallest element.
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.0.is_empty() {
            return None;
        }
        let smallest = self.0.swap_remove(0);
        let mut at = 0;
        loop {
            let mut below = at * 2 + 1;
            if below >= self.0.len() {
                break;
            }
            if below + 1 < self.0.len() && self.0[below + 1] < self.0[below] {
                below += 1;
            }
            if self.0[at] <= self.0[below] {
                break;
            }
            self.0.swap(at, below);
            at = below;
        }
        Some(smallest)
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use super::*;

    #[test]
    fn elements_come_out_in_order() {
        let mut queue = Queue::new(&heap::Global);
        let mut expected: alloc::vec::Vec<u32> =
            (0..500_u32).map(|i| i.wrapping_mul(2_654_435_761) % 97).collect();
        for element in &expected {
            queue.push(*element).unwrap();
        }
        expected.sort_unstable();
        let found: alloc::vec::Vec<u32> = core::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(found, expected);
        assert_eq!(queue.pop(), None);
    }
}
