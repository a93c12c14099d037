//! One bit per byte of memory: set if the byte was ever written.

use alloc::vec;
use alloc::vec::Vec;

/// The bytes that have a value.
#[derive(Clone, Debug)]
pub(crate) struct Shadow(Vec<u64>);

impl Shadow {
    /// `len` bytes without a value.
    pub(crate) fn undefined(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    /// Marks bytes as defined or undefined. Bytes outside are ignored.
    pub(crate) fn set(&mut self, start: usize, len: usize, defined: bool) {
        for (at, bits) in pieces(start, len) {
            if let Some(word) = self.0.get_mut(at) {
                if defined { *word |= bits } else { *word &= !bits }
            }
        }
    }

    /// True if all bytes of a range have a value.
    pub(crate) fn all(&self, start: usize, len: usize) -> bool {
        pieces(start, len).all(|(at, bits)| self.0.get(at).is_some_and(|word| word & bits == bits))
    }
}

/// The words that a range of bits touches, with those bits.
fn pieces(start: usize, len: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = start.saturating_add(len);
    let words = if len == 0 { 0..0 } else { start / 64..(end - 1) / 64 + 1 };
    words.map(move |at| {
        let low = start.saturating_sub(at * 64);
        let high = (end - at * 64).min(64);
        (at, u64::MAX << low & u64::MAX >> (64 - high))
    })
}
