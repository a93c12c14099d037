//! Finding the tokens that are cut out of a text before anything else: control, user-defined and unknown
//! ones.
//!
//! The meaning is llama.cpp's: longer tokens first, each from left to right, in the text that is left. The
//! method is one pass that finds the longest match at every byte, and a queue of these by length.

use super::TokenId;
use super::queue::Queue;
use super::vocabulary::{Kind, Vocabulary};
use crate::heap::{self, Heap, OutOfMemory};
use core::cmp::Reverse;
use core::ops::Range;

/// The tokens to cut out, by text.
#[derive(Debug)]
pub(super) struct Markup<'a> {
    /// In the order of their texts.
    tokens: heap::Vec<'a, Token<'a>>,
    /// The bytes that a token starts with.
    starts: [bool; 256],
}

#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    text: &'a [u8],
    id: TokenId,
    /// Index of the longest other token that this one starts with.
    prefix: Option<usize>,
}

/// A token found in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// First byte, white space that the token absorbs included.
    pub(super) start: usize,
    /// End, exclusive.
    pub(super) end: usize,
    /// The token.
    pub(super) token: TokenId,
}

/// The longest match at one position that has not failed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Match {
    len: Reverse<usize>,
    id: TokenId,
    at: usize,
    index: usize,
}

/// Buffers, kept for the next text.
#[derive(Debug)]
pub(super) struct MarkupScratch<'a> {
    matches: Queue<'a, Match>,
    taken: heap::Vec<'a, bool>,
    /// The result: the tokens found, from left to right.
    pub(super) cuts: heap::Vec<'a, Cut>,
}

impl<'a> MarkupScratch<'a> {
    pub(super) fn new(heap: Heap<'a>) -> Self {
        Self { matches: Queue::new(heap), taken: heap::Vec::new_in(heap), cuts: heap::Vec::new_in(heap) }
    }
}

/// Selection of the tokens that are matched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter<'t> {
    /// True if control and unknown tokens are matched, too.
    pub(super) control: bool,
    /// Spans of untrusted text, where only runs of white space are matched, in ascending
    /// order.
    pub(super) content: &'t [Range<usize>],
}

impl Filter<'_> {
    fn passes(&self, kind: Kind, text: &[u8], at: usize) -> bool {
        let quiet = self.control || kind == Kind::UserDefined;
        quiet && (blank(text) || !self.touches_content(at..at + text.len()))
    }

    fn touches_content(&self, span: Range<usize>) -> bool {
        let behind = self.content.partition_point(|range| range.end <= span.start);
        self.content.get(behind).is_some_and(|range| range.start < span.end)
    }
}

/// True if a token is white space, which cannot forge a turn.
fn blank(text: &[u8]) -> bool {
    core::str::from_utf8(text)
        .is_ok_and(|text| text.chars().all(|char| char.is_whitespace() || char == '\u{2581}'))
}

/// White space as in C's `isspace`, which tokens absorb.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | 0x09..=0x0d)
}

impl<'a> Markup<'a> {
    /// No tokens.
    pub(super) fn empty(heap: Heap<'a>) -> Self {
        Self { tokens: heap::Vec::new_in(heap), starts: [false; 256] }
    }

    /// The tokens of a vocabulary that are cut out.
    pub(super) fn new(heap: Heap<'a>, vocabulary: &Vocabulary<'a>) -> Result<Self, OutOfMemory> {
        let mut tokens = heap::Vec::new_in(heap);
        let mut starts = [false; 256];
        for id in vocabulary.ids() {
            if !matches!(vocabulary.traits(id).kind, Kind::Control | Kind::UserDefined | Kind::Unknown) {
                continue;
            }
            let Some(text) = vocabulary.text(id) else { continue };
            // Of two tokens with the same text only one can be found, and an empty one never.
            if let Some(&first) = text.first()
                && vocabulary.find(text) == Some(id)
            {
                starts[usize::from(first)] = true;
                heap::push(&mut tokens, Token { text, id, prefix: None })?;
            }
        }
        tokens.sort_unstable_by_key(|token| token.text);
        for index in 1..tokens.len() {
            let mut prefix = Some(index - 1);
            while let Some(other) = prefix
                && !tokens[index].text.starts_with(tokens[other].text)
            {
                prefix = tokens[other].prefix;
            }
            tokens[index].prefix = prefix;
        }
        Ok(Self { tokens, starts })
    }

    /// Bytes taken from the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        heap::held(&self.tokens)
    }

    /// Finds the tokens in `text` that pass the filter; they do not overlap.
    pub(super) fn find(
        &self,
        text: &[u8],
        filter: Filter<'_>,
        vocabulary: &Vocabulary<'_>,
        scratch: &mut MarkupScratch<'_>,
    ) -> Result<(), OutOfMemory> {
        let MarkupScratch { matches, taken, cuts } = scratch;
        matches.clear();
        taken.clear();
        cuts.clear();
        for (at, byte) in text.iter().enumerate() {
            if self.starts[usize::from(*byte)] {
                let index = self.longest(&text[at..]);
                if let Some(found) = self.first_passing(index, at, filter, vocabulary) {
                    matches.push(found)?;
                }
            }
        }
        while let Some(found) = matches.pop() {
            if taken.is_empty() {
                heap::reserve(taken, text.len())?;
                taken.resize(text.len(), false);
            }
            let token = &self.tokens[found.index];
            let end = found.at + token.text.len();
            // The tokens taken before are at least as long, so that an overlap covers one of the two ends.
            if taken[found.at] {
                continue;
            }
            if taken[end - 1] {
                if let Some(shorter) = self.first_passing(token.prefix, found.at, filter, vocabulary) {
                    matches.push(shorter)?;
                }
                continue;
            }
            let traits = vocabulary.traits(token.id);
            let mut cut = Cut { start: found.at, end, token: token.id };
            while traits.strips_left
                && cut.start > 0
                && !taken[cut.start - 1]
                && is_space(text[cut.start - 1])
            {
                cut.start -= 1;
            }
            while traits.strips_right && cut.end < text.len() && !taken[cut.end] && is_space(text[cut.end]) {
                cut.end += 1;
            }
            taken[cut.start..cut.end].fill(true);
            heap::push(cuts, cut)?;
        }
        cuts.sort_unstable_by_key(|cut| cut.start);
        Ok(())
    }

    /// Index of the longest token that `text` starts with.
    fn longest(&self, text: &[u8]) -> Option<usize> {
        let mut index = self.tokens.partition_point(|token| token.text <= text).checked_sub(1);
        // Every token that `text` starts with is a prefix of the greatest token that is not greater than
        // `text`.
        let nearest = self.tokens.get(index?)?.text;
        let common = nearest.iter().zip(text).take_while(|(a, b)| a == b).count();
        while let Some(at) = index
            && self.tokens[at].text.len() > common
        {
            index = self.tokens[at].prefix;
        }
        index
    }

    /// The match of the token at index `place`, or of the longest prefix of it, that passes.
    fn first_passing(
        &self,
        mut index: Option<usize>,
        at: usize,
        filter: Filter<'_>,
        vocabulary: &Vocabulary<'_>,
    ) -> Option<Match> {
        while let Some(found) = index {
            let token = &self.tokens[found];
            if filter.passes(vocabulary.traits(token.id).kind, token.text, at) {
                return Some(Match { len: Reverse(token.text.len()), id: token.id, at, index: found });
            }
            index = token.prefix;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use super::*;

    /// The cuts in `text` with these tokens, all control, the ones with a `^` in front stripping both sides.
    fn check(tokens: &[&'static str], text: &str, expected: &[(usize, usize, u32)]) {
        let texts = tokens.iter().map(|token| token.trim_start_matches('^').as_bytes());
        let mut vocabulary = Vocabulary::new(&heap::Global, texts).unwrap();
        for (id, token) in (0..).map(TokenId).zip(tokens) {
            let traits = vocabulary.traits_mut(id).unwrap();
            traits.kind = Kind::Control;
            traits.strips_left = token.starts_with('^');
            traits.strips_right = token.starts_with('^');
        }
        let markup = Markup::new(&heap::Global, &vocabulary).unwrap();
        let mut scratch = MarkupScratch::new(&heap::Global);
        let filter = Filter { control: true, content: &[] };
        markup.find(text.as_bytes(), filter, &vocabulary, &mut scratch).unwrap();
        let found: alloc::vec::Vec<_> =
            scratch.cuts.iter().map(|cut| (cut.start, cut.end, cut.token.0)).collect();
        assert_eq!(found, expected, "{text:?}");
        assert_eq!(naive(&vocabulary, text.as_bytes()), expected, "{text:?} by replacement");
    }

    /// The definition: token by token, the longest first, replaced in all fragments.
    fn naive(vocabulary: &Vocabulary<'_>, text: &[u8]) -> alloc::vec::Vec<(usize, usize, u32)> {
        let mut ids: alloc::vec::Vec<TokenId> = vocabulary.ids().collect();
        ids.retain(|id| vocabulary.find(vocabulary.text(*id).unwrap()) == Some(*id));
        ids.sort_by_key(|id| Reverse(vocabulary.text(*id).unwrap().len()));
        let mut raw = alloc::vec![0..text.len()];
        let mut cuts = alloc::vec::Vec::new();
        for id in ids {
            let token = vocabulary.text(id).unwrap();
            let strips = vocabulary.traits(id).strips_left;
            let mut todo = core::mem::take(&mut raw);
            while let Some(part) = todo.pop() {
                let found = text[part.clone()].windows(token.len()).position(|window| window == token);
                let Some(found) = found else {
                    raw.push(part);
                    continue;
                };
                let mut cut = part.start + found..part.start + found + token.len();
                while strips && cut.start > part.start && text[cut.start - 1].is_ascii_whitespace() {
                    cut.start -= 1;
                }
                while strips && cut.end < part.end && text[cut.end].is_ascii_whitespace() {
                    cut.end += 1;
                }
                raw.push(part.start..cut.start);
                todo.push(cut.end..part.end);
                cuts.push((cut.start, cut.end, id.0));
            }
        }
        cuts.sort_unstable();
        cuts
    }

    #[test]
    fn longer_tokens_go_first() {
        check(&["<a>", "<a><b>", "b"], "x<a><b><a>b", &[(1, 7, 1), (7, 10, 0), (10, 11, 2)]);
        check(&["ab", "bcd"], "abcd ab", &[(1, 4, 1), (5, 7, 0)]);
        check(&["a", "ab", "abc", "bc"], "ababcbc", &[(0, 2, 1), (2, 5, 2), (5, 7, 3)]);
        check(&["aa", "aaa"], "aaaaaaaa", &[(0, 3, 1), (3, 6, 1), (6, 8, 0)]);
        check(&["abcd", "cde", "bc"], "abcde cde", &[(0, 4, 0), (6, 9, 1)]);
        check(&["<x>", "a"], "", &[]);
        check(&[], "abc", &[]);
    }

    /// If a long token covers the end of a shorter one, an even shorter one at the same position may match.
    #[test]
    fn a_match_that_fails_gives_way_to_its_prefix() {
        check(&["ab", "abxy", "xyzzy"], "abxyzzy", &[(0, 2, 0), (2, 7, 2)]);
        check(&["a", "ab", "abc", "cdef"], "abcdef", &[(0, 2, 1), (2, 6, 3)]);
    }

    #[test]
    fn tokens_swallow_space_up_to_their_neighbors() {
        check(&["^<m>", "</s>"], "a \n<m> \tb</s>  <m>", &[(1, 8, 0), (9, 13, 1), (13, 18, 0)]);
        check(&["^<m>"], "  <m>  <m>  ", &[(0, 7, 0), (7, 12, 0)]);
    }

    #[test]
    fn content_keeps_its_markup() {
        let texts = ["<end>", "\n\n", "<think>"];
        let mut vocabulary =
            Vocabulary::new(&heap::Global, texts.iter().map(|text| text.as_bytes())).unwrap();
        for (id, kind) in [(0, Kind::Control), (1, Kind::UserDefined), (2, Kind::UserDefined)] {
            vocabulary.traits_mut(TokenId(id)).unwrap().kind = kind;
        }
        let markup = Markup::new(&heap::Global, &vocabulary).unwrap();
        let mut scratch = MarkupScratch::new(&heap::Global);
        let mut found = |control, content: &[Range<usize>]| {
            let filter = Filter { control, content };
            markup.find(b"<end>\n\n<think><end>", filter, &vocabulary, &mut scratch).unwrap();
            scratch.cuts.iter().map(|cut| cut.token.0).collect::<alloc::vec::Vec<_>>()
        };
        assert_eq!(found(true, &[]), [0, 1, 2, 0]);
        assert_eq!(found(false, &[]), [1, 2]);
        assert_eq!(found(true, core::slice::from_ref(&(0..14))), [1, 0]);
        assert_eq!(found(true, &[0..1, 14..15]), [1, 2]);
        assert_eq!(found(true, &[0..0, 5..7, 19..19]), [0, 1, 2, 0]);
    }
}
