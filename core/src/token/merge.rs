//! Joining neighbors until no pair joins any more: the algorithm of both BPE and SPM.
//!
//! The caller (`bpe`, `spm`) decides which pairs join, into which token and in which order. n symbols take
//! O(n log n): each join adds at most two candidates, and a stale candidate is recognized when it comes up.

use super::TokenId;
use super::queue::Queue;
use crate::heap::{self, Heap, OutOfMemory};

/// A stretch of the text that is, or may become part of, a token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    /// First byte.
    pub(super) start: u32,
    /// Bytes; 0 after it was joined to the one before.
    pub(super) len: u32,
    /// The token with this text, if there is one.
    pub(super) token: Option<TokenId>,
    before: u32,
    after: u32,
}

/// No neighbor.
const NONE: u32 = u32::MAX;

/// Two neighbors that make a token. Candidates come up by order, the leftmost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    order: u32,
    left: u32,
    left_len: u32,
    right_len: u32,
    joined: TokenId,
}

/// The rank of a pair (smaller joins earlier), and the token that it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) order: u32,
    pub(super) token: TokenId,
}

/// Symbols and candidates of one word, kept for the next.
#[derive(Debug)]
pub(super) struct Joiner<'a> {
    symbols: heap::Vec<'a, Symbol>,
    queue: Queue<'a, Candidate>,
}

impl<'a> Joiner<'a> {
    /// Empty.
    pub(super) fn new(heap: Heap<'a>) -> Self {
        Self { symbols: heap::Vec::new_in(heap), queue: Queue::new(heap) }
    }

    /// Starts a new text.
    pub(super) fn clear(&mut self) {
        self.symbols.clear();
        self.queue.clear();
    }

    /// Appends the next symbol of the text, which must be less than 4 GiB.
    pub(super) fn push(&mut self, len: u32, token: Option<TokenId>) -> Result<(), OutOfMemory> {
        let index = u32::try_from(self.symbols.len()).unwrap_or(NONE);
        let (before, start) = match self.symbols.last_mut() {
            Some(last) => {
                last.after = index;
                (index - 1, last.start + last.len)
            }
            None => (NONE, 0),
        };
        heap::push(&mut self.symbols, Symbol { start, len, token, before, after: NONE })
    }

    /// Joins neighbors as long as `pair` returns a token for a left and a right symbol.
    pub(super) fn join(
        &mut self,
        pair: impl Fn(&Symbol, &Symbol) -> Option<Joined>,
    ) -> Result<(), OutOfMemory> {
        for left in 0..u32::try_from(self.symbols.len()).unwrap_or(NONE) {
            self.consider(left, &pair)?;
        }
        while let Some(candidate) = self.queue.pop() {
            let left = self.symbols[candidate.left as usize];
            if left.len != candidate.left_len || left.after == NONE {
                continue;
            }
            let right = self.symbols[left.after as usize];
            if right.len != candidate.right_len {
                continue;
            }
            self.symbols[left.after as usize].len = 0;
            if let Some(after) = self.symbols.get_mut(right.after as usize) {
                after.before = candidate.left;
            }
            let joined = &mut self.symbols[candidate.left as usize];
            joined.len += right.len;
            joined.after = right.after;
            joined.token = Some(candidate.joined);
            if left.before != NONE {
                self.consider(left.before, &pair)?;
            }
            self.consider(candidate.left, &pair)?;
        }
        Ok(())
    }

    /// Adds the pair that starts at `left` to the queue, if it is one.
    fn consider(
        &mut self,
        left: u32,
        pair: &impl Fn(&Symbol, &Symbol) -> Option<Joined>,
    ) -> Result<(), OutOfMemory> {
        let first = &self.symbols[left as usize];
        let Some(second) = self.symbols.get(first.after as usize) else { return Ok(()) };
        let Some(joined) = pair(first, second) else { return Ok(()) };
        self.queue.push(Candidate {
            order: joined.order,
            left,
            left_len: first.len,
            right_len: second.len,
            joined: joined.token,
        })
    }

    /// The symbols that are left.
    pub(super) fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|symbol| symbol.len > 0)
    }
}
