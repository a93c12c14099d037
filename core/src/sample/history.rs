//! The last tokens of a sequence: a ring buffer for the longest window of any penalty.

use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::token::TokenId;

/// A ring buffer of the last `capacity` tokens.
pub(super) struct History<'a> {
    ring: Vec<'a, TokenId>,
    capacity: usize,
    next: usize,
    /// Tokens that were ever appended.
    total: usize,
    /// Calls of [`Self::latest`].
    #[cfg(test)]
    reads: core::cell::Cell<usize>,
}

impl<'a> History<'a> {
    pub(super) fn new(capacity: usize, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        Ok(Self {
            ring: heap::with_capacity(heap, capacity)?,
            capacity,
            next: 0,
            total: 0,
            #[cfg(test)]
            reads: core::cell::Cell::new(0),
        })
    }

    /// Appends a token; a full ring drops its oldest.
    pub(super) fn push(&mut self, token: TokenId) {
        self.total += 1;
        if self.ring.len() < self.capacity {
            self.ring.push(token);
        } else if let Some(slot) = self.ring.get_mut(self.next) {
            *slot = token;
            self.next = (self.next + 1) % self.capacity;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Number of all tokens that were appended, those that were dropped included.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    #[cfg(test)]
    pub(super) fn reads(&self) -> usize {
        self.reads.get()
    }

    /// The token `back` places before the latest one; `back` is below [`Self::len`].
    pub(super) fn latest(&self, back: usize) -> TokenId {
        #[cfg(test)]
        self.reads.set(self.reads.get() + 1);
        let len = self.ring.len();
        self.ring[(self.next + len - 1 - back) % len]
    }
}
