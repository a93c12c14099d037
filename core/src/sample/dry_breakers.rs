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
    /// Ordered by first token.
    spans: Vec<'a, Span>,
}

/// A sequence: its first token, and where all of them are in the list of tokens.
#[derive(Clone, Copy, Debug)]
struct Span {
    head: TokenId,
    start: usize,
    len: usize,
}

impl<'a> DryBreakers<'a> {
    /// The default texts.
    pub const DEFAULT: [&'static str; 4] = ["\n", ":", "\"", "*"];

    /// No breakers.
    #[must_use]
    pub fn new(heap: Heap<'a>) -> Self {
        Self { tokens: Vec::new_in(heap), spans: Vec::new_in(heap) }
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
        let mut known = Vec::new_in(heap);
        for text in texts {
            let bytes = text.as_ref();
            let len = bytes.len().min(TEXT_MAX);
            if len > 0 {
                let tails = Tails::new(&bytes[..len], tokenizer, heap)?;
                heap::push(&mut known, (text, tails))?;
            }
        }
        let mut breakers = Self::new(heap);
        let options = DetokenizeOptions { special: true, ..DetokenizeOptions::default() };
        let mut word = Vec::new_in(heap);
        let words = if known.is_empty() { 0 } else { tokenizer.vocab_len() };
        for id in 0..u32::try_from(words).unwrap_or(u32::MAX) {
            word.clear();
            tokenizer.detokenize(&[TokenId(id)], options, &mut word)?;
            for (text, tails) in &known {
                let text = text.as_ref();
                breakers.add_word(TokenId(id), &word, &text[..text.len().min(TEXT_MAX)], tails)?;
            }
        }
        breakers.spans.sort_unstable_by_key(|span| (span.head, span.start));
        Ok(breakers)
    }

    /// A copy on another heap.
    ///
    /// # Errors
    /// The heap refused.
    pub fn copied<'b>(&self, heap: Heap<'b>) -> Result<DryBreakers<'b>, OutOfMemory> {
        Ok(DryBreakers { tokens: heap::copied(heap, &self.tokens)?, spans: heap::copied(heap, &self.spans)? })
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
        let position = self.spans[..self.spans.len() - 1].partition_point(|other| other.head <= head);
        self.spans[position..].rotate_right(1);
        Ok(())
    }

    /// Adds a sequence without regard to the order.
    fn append(&mut self, head: TokenId, tail: &[TokenId]) -> Result<(), OutOfMemory> {
        let span = Span { head, start: self.tokens.len(), len: 1 + tail.len() };
        heap::push(&mut self.tokens, head)?;
        heap::extend(&mut self.tokens, tail)?;
        heap::push(&mut self.spans, span)
    }

    /// Adds the sequences that begin with a token, whose text is `word`, and hold `text`; without regard to the order.
    fn add_word(
        &mut self,
        head: TokenId,
        word: &[u8],
        text: &[u8],
        tails: &Tails<'_>,
    ) -> Result<(), OutOfMemory> {
        if word.windows(text.len()).any(|part| part == text) {
            return self.append(head, &[]);
        }
        // only the last bytes of a word can be a beginning
        let start = word.len().saturating_sub(text.len());
        let own = self.spans.len();
        for end in start..word.len() {
            if !text.starts_with(&word[end..]) {
                continue;
            }
            let tail = tails.after(word.len() - end);
            let known = self.spans[own..].iter().any(|span| self.tail(span) == tail);
            if !known {
                self.append(head, tail)?;
            }
        }
        Ok(())
    }

    fn tail(&self, span: &Span) -> &[TokenId] {
        &self.tokens[span.start + 1..span.start + span.len]
    }

    fn starting_with(&self, head: TokenId) -> impl Iterator<Item = &[TokenId]> {
        let first = self.spans.partition_point(|span| span.head < head);
        self.spans[first..]
            .iter()
            .take_while(move |span| span.head == head)
            .map(|span| &self.tokens[span.start..span.start + span.len])
    }

    /// True if a token is a breaker on its own.
    pub(super) fn is_breaker(&self, token: TokenId) -> bool {
        self.starting_with(token).any(|sequence| sequence.len() == 1)
    }

    /// Number of the latest tokens that follow the last breaker in the window.
    pub(super) fn distance(&self, history: &History<'_>, window: usize) -> usize {
        for back in 0..window {
            let longest = self
                .starting_with(history.latest(back))
                .filter(|sequence| sequence.len() <= back + 1)
                .filter(|sequence| (0..).zip(*sequence).all(|(i, &t)| history.latest(back - i) == t))
                .map(<[TokenId]>::len)
                .max();
            if let Some(len) = longest {
                return back + 1 - len;
            }
        }
        window
    }
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
    use super::*;

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
}
