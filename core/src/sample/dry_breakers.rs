//! DRY breakers: sequences of tokens that end a repetition, given as such or found for texts in a vocabulary.
//!
//! A text such as a line break can come in many tokens: within a longer one, or from the end of one into the next. Both
//! are found as llama.cpp does (`get_overlapping_token_sequences` of llama-sampler.cpp, 2026): every token whose text
//! holds the whole text is a breaker; one that ends with a beginning of it is a breaker if the rest follows, as the
//! tokenizer encodes that rest.

use super::history::History;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::token::{DetokenizeOptions, EncodeError, EncodeOptions, TokenId, Tokenizer};

/// Longer texts are cut, in bytes.
const TEXT_MAX: usize = 40;
/// Longer rests are cut, in tokens.
const TAIL_MAX: usize = 20;

/// The token sequences that end a repetition, such as line breaks and quotation marks.
#[derive(Debug)]
pub struct DryBreakers<'a> {
    /// All sequences end to end.
    tokens: Vec<'a, TokenId>,
    /// Ordered by their tokens.
    spans: Vec<'a, Span>,
    /// Tokens of the longest sequence.
    longest: usize,
}

/// The last breaker of a sequence that grows, so that a step looks only at new tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastBreaker {
    /// Tokens of the sequence that were looked at.
    seen: usize,
    /// The breaker that begins last among those that are complete: where, and its length.
    found: Option<(usize, usize)>,
}

/// A sequence: where its tokens are in the list of all.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    len: usize,
}

impl<'a> DryBreakers<'a> {
    /// The default texts.
    pub const DEFAULT: [&'static str; 4] = ["\n", ":", "\"", "*"];

    /// No breakers.
    #[must_use]
    pub fn new(heap: Heap<'a>) -> Self {
        Self { tokens: Vec::new_in(heap), spans: Vec::new_in(heap), longest: 0 }
    }

    /// The breakers for texts, in a vocabulary; empty texts are ignored. One pass over the vocabulary.
    ///
    /// # Errors
    /// If the model has no tokenizer or the heap is used up.
    pub fn of_texts<T: AsRef<[u8]>>(
        texts: impl IntoIterator<Item = T>,
        tokenizer: &Tokenizer<'_>,
        heap: Heap<'a>,
    ) -> Result<Self, EncodeError> {
        let mut known: Vec<'_, Text<'_, T>> = Vec::new_in(heap);
        for text in texts {
            let bytes = cut(text.as_ref());
            if !bytes.is_empty() {
                let tails = Tails::new(bytes, tokenizer, heap)?;
                heap::push(&mut known, Text { text, tails, held: None })?;
            }
        }
        known.sort_unstable_by(|one, other| one.bytes().cmp(other.bytes()));
        known.dedup_by(|one, other| one.bytes() == other.bytes());
        let mut breakers = Self::new(heap);
        let options = DetokenizeOptions { special: true, ..DetokenizeOptions::default() };
        let mut word = Vec::new_in(heap);
        let words = if known.is_empty() { 0 } else { tokenizer.vocab_len() };
        for id in 0..u32::try_from(words).unwrap_or(u32::MAX) {
            word.clear();
            tokenizer.detokenize(&[TokenId(id)], options, &mut word)?;
            breakers.add_word(TokenId(id), &word, &mut known)?;
        }
        breakers.sort();
        Ok(breakers)
    }

    /// A copy on another heap.
    ///
    /// # Errors
    /// The heap refused.
    pub fn copied<'b>(&self, heap: Heap<'b>) -> Result<DryBreakers<'b>, OutOfMemory> {
        let (tokens, spans) = (heap::copied(heap, &self.tokens)?, heap::copied(heap, &self.spans)?);
        Ok(DryBreakers { tokens, spans, longest: self.longest })
    }

    /// Bytes that a copy takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.tokens) + size_of_val(&*self.spans)
    }

    /// Adds one sequence; an empty one is ignored.
    ///
    /// # Errors
    ///
    /// The heap refused to grow.
    pub fn add(&mut self, sequence: &[TokenId]) -> Result<(), OutOfMemory> {
        let Some(&head) = sequence.first() else { return Ok(()) };
        self.append(head, &sequence[1..])?;
        let position =
            self.spans[..self.spans.len() - 1].partition_point(|other| self.all(other) <= sequence);
        self.spans[position..].rotate_right(1);
        Ok(())
    }

    /// Orders the sequences.
    fn sort(&mut self) {
        let tokens = &self.tokens;
        self.spans.sort_unstable_by(|one, other| {
            tokens[one.start..one.start + one.len].cmp(&tokens[other.start..other.start + other.len])
        });
    }

    /// Appends a sequence without regard to the order.
    fn append(&mut self, head: TokenId, tail: &[TokenId]) -> Result<(), OutOfMemory> {
        let span = Span { start: self.tokens.len(), len: 1 + tail.len() };
        heap::push(&mut self.tokens, head)?;
        heap::extend(&mut self.tokens, tail)?;
        self.longest = self.longest.max(span.len);
        heap::push(&mut self.spans, span)
    }

    /// Adds the sequences that begin with a token, whose text is `word`, and hold one of the texts, which are in order;
    /// without regard to the order of sequences.
    fn add_word<T: AsRef<[u8]>>(
        &mut self,
        head: TokenId,
        word: &[u8],
        texts: &mut [Text<'_, T>],
    ) -> Result<(), OutOfMemory> {
        let own = self.spans.len();
        for at in 0..word.len() {
            for text in starting_with(texts, word[at]) {
                if word[at..].starts_with(text.bytes()) {
                    text.held = Some(head);
                    self.append_new(own, head, &[])?;
                }
            }
        }
        // only the last bytes of a word can be a beginning
        for at in word.len().saturating_sub(TEXT_MAX)..word.len() {
            let end = &word[at..];
            for text in starting_with(texts, word[at]) {
                if text.held != Some(head) && text.bytes().starts_with(end) {
                    self.append_new(own, head, text.tails.after(end.len()))?;
                }
            }
        }
        Ok(())
    }

    /// Appends a sequence, unless it is among those from `own` on.
    fn append_new(&mut self, own: usize, head: TokenId, tail: &[TokenId]) -> Result<(), OutOfMemory> {
        let known = self.spans[own..].iter().any(|span| self.tail(span) == tail);
        if known { Ok(()) } else { self.append(head, tail) }
    }

    fn all(&self, span: &Span) -> &[TokenId] {
        &self.tokens[span.start..span.start + span.len]
    }

    fn tail(&self, span: &Span) -> &[TokenId] {
        &self.tokens[span.start + 1..span.start + span.len]
    }

    /// The sequences among `spans` whose token at `index` is `token`, where all have the same tokens before it. Those
    /// that end before it come first, and are left out.
    fn narrowed<'s>(&self, spans: &'s [Span], index: usize, token: TokenId) -> &'s [Span] {
        let at = |span: &Span| self.all(span).get(index).copied();
        let first = spans.partition_point(|span| at(span) < Some(token));
        let count = spans[first..].partition_point(|span| at(span) == Some(token));
        &spans[first..first + count]
    }

    /// True if a token is a breaker on its own.
    pub(super) fn is_breaker(&self, token: TokenId) -> bool {
        self.narrowed(&self.spans, 0, token).first().is_some_and(|span| span.len == 1)
    }

    /// Length of the longest sequence that begins `back` tokens before the latest one.
    fn longest_at(&self, history: &History<'_>, back: usize) -> Option<usize> {
        let (mut spans, mut longest) = (&self.spans[..], None);
        for index in 0..=back {
            spans = self.narrowed(spans, index, history.latest(back - index));
            let Some(first) = spans.first() else { break };
            if first.len == index + 1 {
                longest = Some(first.len);
                if spans.last().is_some_and(|last| last.len == first.len) {
                    break;
                }
            }
        }
        longest
    }

    /// Number of the latest tokens that follow the last breaker in the window. `last` is of the same sequence.
    pub(super) fn distance(&self, history: &History<'_>, window: usize, last: &mut LastBreaker) -> usize {
        let total = history.total();
        // a sequence that new tokens have completed begins at most its length before them
        let fresh = (total - last.seen).saturating_add(self.longest).min(window);
        last.seen = total;
        let found = (0..fresh).find_map(|back| Some((back, self.longest_at(history, back)?)));
        if let Some((back, len)) = found {
            last.found = Some((total - 1 - back, len));
        }
        match last.found {
            Some((start, len)) if total - 1 - start < window => total - start - len,
            _ => window,
        }
    }
}

/// A text to find in words.
struct Text<'a, T> {
    text: T,
    tails: Tails<'a>,
    /// The last word that holds all of it.
    held: Option<TokenId>,
}

impl<T: AsRef<[u8]>> Text<'_, T> {
    fn bytes(&self) -> &[u8] {
        cut(self.text.as_ref())
    }
}

/// The texts that begin with a byte, of texts in order.
fn starting_with<'t, 'a, T: AsRef<[u8]>>(
    texts: &'t mut [Text<'a, T>],
    byte: u8,
) -> impl Iterator<Item = &'t mut Text<'a, T>> {
    let first = texts.partition_point(|text| text.bytes().first() < Some(&byte));
    texts[first..].iter_mut().take_while(move |text| text.bytes().first() == Some(&byte))
}

/// The part of a text that counts.
fn cut(text: &[u8]) -> &[u8] {
    &text[..text.len().min(TEXT_MAX)]
}

/// The rests of a text after each of its beginnings, as tokens.
struct Tails<'a> {
    tokens: Vec<'a, TokenId>,
    /// Ends of the rests in `tokens`; entry `i` is for the rest after `i + 1` bytes.
    ends: heapless::Vec<usize, TEXT_MAX, u8>,
}

impl<'a> Tails<'a> {
    fn new(text: &[u8], tokenizer: &Tokenizer<'_>, heap: Heap<'a>) -> Result<Self, EncodeError> {
        let mut tails = Self { tokens: Vec::new_in(heap), ends: heapless::Vec::new() };
        for matched in 1..text.len() {
            let start = tails.tokens.len();
            tokenizer.encode(&text[matched..], EncodeOptions::default(), &mut tails.tokens)?;
            tails.tokens.truncate(start + TAIL_MAX);
            // a text has fewer rests than bytes
            _ = tails.ends.push(tails.tokens.len());
        }
        Ok(tails)
    }

    fn after(&self, matched: usize) -> &[TokenId] {
        let end = |index: usize| self.ends.get(index).copied().unwrap_or_default();
        let start = if matched < 2 { 0 } else { end(matched - 2) };
        self.tokens.get(start..end(matched - 1)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use super::*;
    use alloc::vec::Vec as List;

    #[test]
    fn room_for_sequences_grows_geometrically() {
        let mut breakers = DryBreakers::new(&heap::Global);
        let (mut capacity, mut moves) = (0, 0);
        for id in 0..1000 {
            breakers.add(&[TokenId(id), TokenId(1), TokenId(2)]).unwrap();
            moves += usize::from(breakers.tokens.capacity() != capacity);
            capacity = breakers.tokens.capacity();
        }
        assert!(moves < 20, "{moves}");
    }

    /// The definition: the sequence that begins last in the window, and the longest of those that begin there.
    fn defined(sequences: &[&[TokenId]], tokens: &[TokenId], window: usize) -> usize {
        for back in 0..window {
            let rest = &tokens[tokens.len() - 1 - back..];
            let longest =
                sequences.iter().filter(|sequence| rest.starts_with(sequence)).map(|s| s.len()).max();
            if let Some(len) = longest {
                return back + 1 - len;
            }
        }
        window
    }

    #[test]
    fn the_last_breaker_is_found_while_the_sequence_grows() {
        let lists: [&[&[u32]]; 5] = [
            &[&[1]],
            &[&[1, 2], &[1], &[2, 2, 1]],
            &[&[0, 1, 2, 0], &[1, 2], &[1, 2, 0, 0, 0]],
            &[&[3]],
            &[&[0, 0, 0, 0, 0, 1], &[0, 0, 0, 0], &[0, 0, 1]],
        ];
        let mut state = 1_u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for list in lists {
            let list: List<List<TokenId>> =
                list.iter().map(|sequence| sequence.iter().map(|&id| TokenId(id)).collect()).collect();
            let mut breakers = DryBreakers::new(&heap::Global);
            list.iter().for_each(|sequence| breakers.add(sequence).unwrap());
            let list: List<&[TokenId]> = list.iter().map(List::as_slice).collect();
            for capacity in [1, 4, 16] {
                let mut history = History::new(capacity, &heap::Global).unwrap();
                let mut last = LastBreaker::default();
                let mut tokens = List::new();
                for _ in 0..500 {
                    let token = TokenId(random(3));
                    tokens.push(token);
                    history.push(token);
                    // a step may have several tokens, as a prompt has
                    if random(3) > 0 {
                        let window = history.len();
                        let found = breakers.distance(&history, window, &mut last);
                        assert_eq!(found, defined(&list, &tokens, window), "{list:?} {tokens:?}");
                    }
                }
            }
        }
    }

    /// A step looks at the new token and the sequences that it can complete, not at the whole window.
    #[test]
    fn a_step_does_not_look_at_the_window_again() {
        let mut breakers = DryBreakers::new(&heap::Global);
        breakers.add(&[TokenId(1), TokenId(2)]).unwrap();
        let mut history = History::new(1 << 16, &heap::Global).unwrap();
        let mut last = LastBreaker::default();
        (0..1 << 16).for_each(|_| history.push(TokenId(0)));
        breakers.distance(&history, history.len(), &mut last);
        let before = history.reads();
        for _ in 0..100 {
            history.push(TokenId(0));
            assert_eq!(breakers.distance(&history, history.len(), &mut last), 1 << 16);
        }
        assert!(history.reads() - before <= 100 * 4, "{}", history.reads() - before);
    }
}
