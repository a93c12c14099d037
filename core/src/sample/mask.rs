//! The token mask: the tokens that a grammar allows next. Hosts make it; it is only read here.

use crate::token::TokenId;

/// A bitset over the vocabulary, one bit a token, lowest bit of the first word first; set means allowed.
///
/// Tokens beyond the last word are not allowed.
#[derive(Clone, Copy, Debug)]
pub struct TokenMask<'m> {
    words: &'m [u32],
}

impl<'m> TokenMask<'m> {
    /// A mask over borrowed words; `vocabulary / 32` rounded up covers every token.
    #[must_use]
    pub const fn new(words: &'m [u32]) -> Self {
        Self { words }
    }

    /// True if `token` may come next.
    #[must_use]
    pub fn allows(&self, token: TokenId) -> bool {
        self.words.get(token.0 as usize / 32).is_some_and(|word| word >> (token.0 % 32) & 1 == 1)
    }

    /// Sets the logits of all other tokens to minus infinity.
    pub(super) fn apply(&self, logits: &mut [f32]) {
        let mut chunks = logits.chunks_mut(32);
        for (&word, chunk) in self.words.iter().zip(&mut chunks) {
            if word == u32::MAX {
                continue;
            }
            for (bit, logit) in chunk.iter_mut().enumerate() {
                if word >> bit & 1 == 0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        for chunk in chunks {
            chunk.fill(f32::NEG_INFINITY);
        }
    }
}
