//! The reasoning budget: once its tokens are used up, only the mark that closes reasoning is allowed.
//!
//! Not here: grammars (`constraint`).

use super::marks::{HarmonyChannel, ReasoningMarks};
use doorbell_core::sample::TokenMask;
use doorbell_core::token::TokenId;

/// Limit of reasoning tokens in one answer.
#[derive(Clone, Debug)]
pub struct ReasoningBudget {
    left: u32,
    marks: ReasoningMarks,
    state: State,
    /// Mask of the closing mark alone.
    close: Vec<u32>,
    /// Mask of the tokens that begin a channel other than reasoning.
    others: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Before,
    /// In a channel's header, after this number of bytes of the reasoning channel's name.
    Header(usize),
    Reasoning,
    After,
}

/// Token mask of the given tokens, one bit per token.
fn mask(tokens: &[TokenId]) -> Vec<u32> {
    let most = tokens.iter().map(|token| token.0).max().unwrap_or(0);
    let mut mask = vec![0; most as usize / 32 + 1];
    for token in tokens {
        mask[token.0 as usize / 32] |= 1 << (token.0 % 32);
    }
    mask
}

impl ReasoningBudget {
    /// A budget of `tokens` between the marks; `within` is true if the prompt has already opened reasoning.
    #[must_use]
    pub fn new(tokens: u32, marks: ReasoningMarks, within: bool) -> Self {
        let close = mask(&[marks.close()]);
        let others = match &marks {
            ReasoningMarks::Pair { .. } => Vec::new(),
            ReasoningMarks::Channel(channel) => mask(&channel.others),
        };
        let state = if within { State::Reasoning } else { State::Before };
        Self { left: tokens, marks, state, close, others }
    }

    /// The mask of the closing mark if the budget is used up within reasoning.
    #[must_use]
    pub fn mask(&self) -> Option<TokenMask<'_>> {
        (self.state == State::Reasoning && self.left == 0).then(|| TokenMask::new(&self.close))
    }

    /// The mask of other channels if the budget is used up and a header could open reasoning again. A grammar takes
    /// precedence: none allows reasoning without end.
    #[must_use]
    pub fn mask_of_headers(&self) -> Option<TokenMask<'_>> {
        (self.state == State::Header(0) && self.left == 0).then(|| TokenMask::new(&self.others))
    }

    /// Advances by the sampled token.
    pub fn accept(&mut self, token: TokenId) {
        self.state = match (&self.marks, self.state) {
            (marks, State::Reasoning) if token != marks.close() => {
                self.left = self.left.saturating_sub(1);
                State::Reasoning
            }
            (ReasoningMarks::Pair { .. }, State::Reasoning) => State::After,
            (ReasoningMarks::Pair { open, .. }, State::Before) if token == *open => State::Reasoning,
            (ReasoningMarks::Channel(marks), _) if token == marks.channel => State::Header(0),
            (ReasoningMarks::Channel(marks), State::Header(read)) => {
                if token == marks.message && HarmonyChannel::named(read) {
                    State::Reasoning
                } else {
                    marks.name(read, token).map_or(State::Before, State::Header)
                }
            }
            (ReasoningMarks::Channel(_), State::Reasoning) => State::Before,
            (_, state) => state,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_mark_is_forced_once() {
        let (open, close, other) = (TokenId(3), TokenId(40), TokenId(5));
        let marks = ReasoningMarks::Pair { open, close };
        let mut budget = ReasoningBudget::new(2, marks.clone(), false);
        for token in [other, other, other, open, other] {
            budget.accept(token);
            assert!(budget.mask().is_none());
        }
        budget.accept(other);
        let mask = budget.mask().unwrap();
        assert!(mask.allows(close) && !mask.allows(other) && !mask.allows(TokenId(8)));
        budget.accept(close);
        budget.accept(open);
        assert!(budget.mask().is_none() && budget.mask_of_headers().is_none());
        assert!(ReasoningBudget::new(0, marks, true).mask().is_some());
    }

    /// Every letter is a token, and so are `analys` and `fin`.
    #[test]
    fn a_channel_may_be_opened_until_the_limit_is_reached() {
        let [channel, message, end] = [TokenId(300), TokenId(301), TokenId(302)];
        let letter = |c: char| TokenId(u32::from(c));
        let pieces = ["a", "n", "l", "y", "s", "i"].map(|text| (TokenId(text.as_bytes()[0].into()), text));
        let pieces = pieces.into_iter().chain([(TokenId(200), "analys")]).collect();
        let others = vec![letter('f'), letter('c'), TokenId(201)];
        let marks = ReasoningMarks::Channel(HarmonyChannel { channel, message, end, pieces, others });
        let mut budget = ReasoningBudget::new(3, marks.clone(), false);
        let write = |budget: &mut ReasoningBudget, tokens: &[TokenId]| {
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
        assert!(budget.mask_of_headers().is_none());
        write(&mut budget, &[TokenId(200), letter('i'), letter('s'), message, letter('x'), letter('x')]);
        let mask = budget.mask().unwrap();
        assert!(mask.allows(end) && !mask.allows(letter('x')));
        budget.accept(end);
        write(&mut budget, &[letter('x'), channel]);
        let mask = budget.mask_of_headers().unwrap();
        assert!(mask.allows(letter('f')) && mask.allows(TokenId(201)) && !mask.allows(letter('a')));
        write(&mut budget, &[TokenId(201)]);
        assert!(budget.mask_of_headers().is_none());
        // and none of it at all
        let mut budget = ReasoningBudget::new(0, marks, false);
        write(&mut budget, &[channel]);
        assert!(budget.mask_of_headers().is_some());
    }
}
