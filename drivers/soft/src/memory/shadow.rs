//! One bit per byte of a piece of memory: whether the byte was ever given a value.

use alloc::vec;
use alloc::vec::Vec;

/// Which bytes have a value.
#[derive(Clone, Debug)]
pub(crate) struct Shadow(Vec<u64>);

impl Shadow {
    /// `len` bytes without a value.
    pub(crate) fn undefined(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    /// Gives bytes a value or takes it from them. What lies outside is ignored.
    pub(crate) fn set(&mut self, start: usize, len: usize, defined: bool) {
        for byte in start..start.saturating_add(len) {
            if let Some(word) = self.0.get_mut(byte / 64) {
                let bit = 1 << (byte % 64);
                if defined { *word |= bit } else { *word &= !bit }
            }
        }
    }

    /// Whether all bytes of a range have a value.
    pub(crate) fn all(&self, start: usize, len: usize) -> bool {
        (start..start.saturating_add(len))
            .all(|byte| self.0.get(byte / 64).is_some_and(|word| word >> (byte % 64) & 1 != 0))
    }
}
