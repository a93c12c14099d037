//! A limit for reasoning: after so many tokens of it, the only token that may come is the mark that closes it.

use super::marks::{Channel, Marks};
use doorbell_core::sample::TokenMask;
use doorbell_core::token::TokenId;

/// A limit for one answer.
#[derive(Clone, Debug)]
pub struct Budget {
    left: u32,
    marks: Marks,
    place: Place,
    /// A mask that has only the closing mark.
    close: Vec<u32>,
    /// A mask of the channels that are no reasoning.
    others: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before,
    /// Behind so many bytes of the reasoning channel's name.
    Head(usize),
    Within,
    Behind,
}

/// A mask of these tokens.
fn mask(tokens: &[TokenId]) -> Vec<u32> {
    let most = tokens.iter().map(|token| token.0).max().unwrap_or(0);
    let mut mask = vec![0; most as usize / 32 + 1];
    for token in tokens {
        mask[token.0 as usize / 32] |= 1 << (token.0 % 32);
    }
    mask
}

impl Budget {
    /// A limit of so many tokens between the marks; the answer begins within if the prompt has the opening one.
    #[must_use]
    pub fn new(tokens: u32, marks: Marks, within: bool) -> Self {
        let close = mask(&[marks.close()]);
        let others = match &marks {
            Marks::Pair { .. } => Vec::new(),
            Marks::Channel(channel) => mask(&channel.others),
        };
        let place = if within { Place::Within } else { Place::Before };
        Self { left: tokens, marks, place, close, others }
    }

    /// The mask if the limit is reached within reasoning.
    #[must_use]
    pub fn mask(&self) -> Option<TokenMask<'_>> {
        (self.place == Place::Within && self.left == 0).then(|| TokenMask::new(&self.close))
    }

    /// The mask if the limit is reached and reasoning might begin again. A grammar has a say before it: none lets it
    /// begin without end.
    #[must_use]
    pub fn mask_of_heads(&self) -> Option<TokenMask<'_>> {
        (self.place == Place::Head(0) && self.left == 0).then(|| TokenMask::new(&self.others))
    }

    /// Follows the token that was picked.
    pub fn accept(&mut self, token: TokenId) {
        self.place = match (&self.marks, self.place) {
            (marks, Place::Within) if token != marks.close() => {
                self.left = self.left.saturating_sub(1);
                Place::Within
            }
            (Marks::Pair { .. }, Place::Within) => Place::Behind,
            (Marks::Pair { open, .. }, Place::Before) if token == *open => Place::Within,
            (Marks::Channel(marks), _) if token == marks.channel => Place::Head(0),
            (Marks::Channel(marks), Place::Head(read)) => {
                if token == marks.message && Channel::named(read) {
                    Place::Within
                } else {
                    marks.name(read, token).map_or(Place::Before, Place::Head)
                }
            }
            (Marks::Channel(_), Place::Within) => Place::Before,
            (_, place) => place,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_mark_is_forced_once() {
        let (open, close, other) = (TokenId(3), TokenId(40), TokenId(5));
        let marks = Marks::Pair { open, close };
        let mut budget = Budget::new(2, marks.clone(), false);
        for token in [other, other, other, open, other] {
            budget.accept(token);
            assert!(budget.mask().is_none());
        }
        budget.accept(other);
        let mask = budget.mask().unwrap();
        assert!(mask.allows(close) && !mask.allows(other) && !mask.allows(TokenId(8)));
        budget.accept(close);
        budget.accept(open);
        assert!(budget.mask().is_none() && budget.mask_of_heads().is_none());
        assert!(Budget::new(0, marks, true).mask().is_some());
    }

    /// Every letter is a token, and so are `analys` and `fin`.
    #[test]
    fn a_channel_may_be_opened_until_the_limit_is_reached() {
        let [channel, message, end] = [TokenId(300), TokenId(301), TokenId(302)];
        let letter = |c: char| TokenId(u32::from(c));
        let pieces = ["a", "n", "l", "y", "s", "i"].map(|text| (TokenId(text.as_bytes()[0].into()), text));
        let pieces = pieces.into_iter().chain([(TokenId(200), "analys")]).collect();
        let others = vec![letter('f'), letter('c'), TokenId(201)];
        let marks = Marks::Channel(Channel { channel, message, end, pieces, others });
        let mut budget = Budget::new(3, marks.clone(), false);
        let write = |budget: &mut Budget, tokens: &[TokenId]| {
            for &token in tokens {
                assert!(budget.mask().is_none(), "{budget:?}");
                budget.accept(token);
            }
        };
        let letters: Vec<_> = "analysis".chars().map(letter).collect();
        // what only begins like it is another channel
        for name in [&letters[..7], &[letter('f')], &[TokenId(200), letter('s')]] {
            write(&mut budget, &[channel]);
            write(&mut budget, name);
            write(&mut budget, &[message, letter('x'), letter('x'), letter('x'), letter('x'), end]);
        }
        write(&mut budget, &[channel]);
        write(&mut budget, &letters);
        write(&mut budget, &[message, letter('x'), end, channel]);
        assert!(budget.mask_of_heads().is_none());
        write(&mut budget, &[TokenId(200), letter('i'), letter('s'), message, letter('x'), letter('x')]);
        let mask = budget.mask().unwrap();
        assert!(mask.allows(end) && !mask.allows(letter('x')));
        budget.accept(end);
        write(&mut budget, &[letter('x'), channel]);
        let mask = budget.mask_of_heads().unwrap();
        assert!(mask.allows(letter('f')) && mask.allows(TokenId(201)) && !mask.allows(letter('a')));
        write(&mut budget, &[TokenId(201)]);
        assert!(budget.mask_of_heads().is_none());
        // and none of it at all
        let mut budget = Budget::new(0, marks, false);
        write(&mut budget, &[channel]);
        assert!(budget.mask_of_heads().is_some());
    }
}
