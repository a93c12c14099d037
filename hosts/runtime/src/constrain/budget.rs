//! A limit for reasoning: after so many tokens of it, the only token that may come is the mark that closes it.

use doorbell_core::sample::TokenMask;
use doorbell_core::token::TokenId;

/// A limit for one answer.
#[derive(Clone, Debug)]
pub struct Budget {
    left: u32,
    open: TokenId,
    close: TokenId,
    place: Place,
    /// A mask that has only the closing mark.
    mask: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before,
    Within,
    Behind,
}

impl Budget {
    /// A limit of so many tokens between two marks; the answer begins within if the prompt has the opening one.
    #[must_use]
    pub fn new(tokens: u32, open: TokenId, close: TokenId, within: bool) -> Self {
        let mut mask = vec![0; close.0 as usize / 32 + 1];
        if let Some(word) = mask.last_mut() {
            *word = 1 << (close.0 % 32);
        }
        let place = if within { Place::Within } else { Place::Before };
        Self { left: tokens, open, close, place, mask }
    }

    /// The mask if the limit is reached.
    #[must_use]
    pub fn mask(&self) -> Option<TokenMask<'_>> {
        (self.place == Place::Within && self.left == 0).then(|| TokenMask::new(&self.mask))
    }

    /// Follows the token that was picked.
    pub fn accept(&mut self, token: TokenId) {
        match self.place {
            Place::Before if token == self.open => self.place = Place::Within,
            Place::Within if token == self.close => self.place = Place::Behind,
            Place::Within => self.left = self.left.saturating_sub(1),
            Place::Before | Place::Behind => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_mark_is_forced_once() {
        let (open, close, other) = (TokenId(3), TokenId(40), TokenId(5));
        let mut budget = Budget::new(2, open, close, false);
        for token in [other, other, other, open, other] {
            budget.accept(token);
            assert!(budget.mask().is_none());
        }
        budget.accept(other);
        let mask = budget.mask().unwrap();
        assert!(mask.allows(close) && !mask.allows(other) && !mask.allows(TokenId(8)));
        budget.accept(close);
        budget.accept(open);
        assert!(budget.mask().is_none());
        assert!(Budget::new(0, open, close, true).mask().is_some());
    }
}
