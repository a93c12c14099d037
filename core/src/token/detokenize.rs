//! Tokens to text: all at once, or one by one as they are generated.

use super::{Bytes, Kind, TokenId, Tokenizer};
use crate::heap::{self, OutOfMemory};

/// Options of joining a whole text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetokenizeOptions {
    /// Omit a leading BOS token and a trailing EOS token if encoding adds them.
    pub remove_special: bool,
    /// Write control tokens as their texts.
    pub special: bool,
}

impl Tokenizer<'_> {
    /// Appends the text of `tokens` to `out`, as bytes: tokens need not make up valid UTF-8.
    ///
    /// Leading blanks that encoding has added are dropped, so that encoding the text again, with markup as text, gives
    /// the same tokens. Blanks before punctuation are removed if the model's file says so.
    ///
    /// # Errors
    /// If the heap is used up.
    pub fn detokenize(
        &self,
        mut tokens: &[TokenId],
        options: DetokenizeOptions,
        out: &mut heap::Vec<'_, u8>,
    ) -> Result<(), OutOfMemory> {
        if options.remove_special {
            tokens = match tokens {
                [first, rest @ ..] if self.add_bos && Some(*first) == self.bos() => rest,
                _ => tokens,
            };
            tokens = match tokens {
                [rest @ .., last] if self.add_eos && Some(*last) == self.eos() => rest,
                _ => tokens,
            };
        }
        let start = out.len();
        let mut lead = Lead::at_start(self);
        for token in tokens {
            for byte in lead.bytes(self, *token, options.special) {
                heap::push(out, byte)?;
            }
        }
        if self.clean_spaces {
            clean(out, start);
        }
        Ok(())
    }
}

/// True if the next piece starts with a blank that only encoding has added: at the start of a text and
/// after every token that is cut out of it.
#[derive(Clone, Copy, Debug, Default)]
struct Lead(bool);

impl Lead {
    fn at_start(tokenizer: &Tokenizer<'_>) -> Self {
        Self(tokenizer.add_space_prefix)
    }

    /// The bytes of the next token without that blank.
    fn bytes<'a>(&mut self, tokenizer: &Tokenizer<'a>, token: TokenId, special: bool) -> Bytes<'a> {
        let mut bytes = tokenizer.bytes(token, special);
        let mut rest = bytes.clone();
        let Some(first) = rest.next() else { return bytes };
        let cut = matches!(tokenizer.kind(token), Kind::Control | Kind::UserDefined | Kind::Unknown);
        if self.0 && !cut && first == b' ' {
            bytes = rest;
        }
        self.0 = cut && tokenizer.add_space_prefix;
        bytes
    }
}

/// Removes blanks that word-wise vocabularies put before punctuation, from byte `start` on.
///
/// Three passes as in `llama_vocab::impl::detokenize` of llama.cpp (2026): before `?!.,`, around a lone
/// apostrophe, and before `'s`, `'m`, `'re`, `'ve`.
fn clean(text: &mut heap::Vec<'_, u8>, start: usize) {
    pass(text, start, |text, at| match text[at] {
        b'?' | b'!' | b'.' | b',' => Some(false),
        _ => None,
    });
    pass(text, start, |text, at| (text[at] == b'\'' && text.get(at + 1) == Some(&b' ')).then_some(true));
    pass(text, start, |text, at| match text[at..] {
        [b'\'', b's' | b'm', ..] | [b'\'', b'r' | b'v', b'e', ..] => Some(false),
        _ => None,
    });
}

/// Removes every blank for which `found` returns a value for the position after it, and with `true` the byte after that
/// position as well.
fn pass(text: &mut heap::Vec<'_, u8>, start: usize, found: impl Fn(&[u8], usize) -> Option<bool>) {
    let mut end = start;
    let mut at = start;
    let mut before = 0;
    while at < text.len() {
        let byte = text[at];
        let answer = if before == b' ' { found(text, at) } else { None };
        end -= usize::from(answer.is_some());
        text[end] = byte;
        end += 1;
        before = byte;
        at += 1;
        if answer == Some(true) {
            before = 0;
            at += 1;
        }
    }
    text.truncate(end);
}

/// Joins generated tokens to text that always consists of whole characters.
///
/// At most three bytes wait for the rest of their character. Bytes that can't become a character give U+FFFD, as in
/// `String::from_utf8_lossy`. Unlike [`Tokenizer::detokenize`] it never changes text that it has returned, so that
/// blanks are not cleaned.
#[derive(Clone, Debug, Default)]
pub struct Detokenizer {
    waiting: heapless::Vec<u8, 4, u8>,
    special: bool,
    lead: Lead,
}

impl Detokenizer {
    /// For an answer, which continues a prompt. `special` writes control tokens as their texts.
    pub fn new(special: bool) -> Self {
        Self { special, ..Self::default() }
    }

    /// For a separate text: the leading blank that encoding adds is dropped.
    pub fn from_start(tokenizer: &Tokenizer<'_>, special: bool) -> Self {
        Self { lead: Lead::at_start(tokenizer), ..Self::new(special) }
    }

    /// Appends the characters that `token` completes to `out`, which stays valid UTF-8.
    ///
    /// # Errors
    /// If the heap is used up; the text then lacks some of the token's bytes.
    pub fn push(
        &mut self,
        tokenizer: &Tokenizer<'_>,
        token: TokenId,
        out: &mut heap::Vec<'_, u8>,
    ) -> Result<(), OutOfMemory> {
        for byte in self.lead.bytes(tokenizer, token, self.special) {
            // Four bytes are a character or start with an invalid byte, so that there is room.
            _ = self.waiting.push(byte);
            self.settle(out)?;
        }
        Ok(())
    }

    /// Appends U+FFFD for bytes that still wait.
    ///
    /// # Errors
    /// If the heap is used up.
    pub fn finish(&mut self, out: &mut heap::Vec<'_, u8>) -> Result<(), OutOfMemory> {
        if !self.waiting.is_empty() {
            self.waiting.clear();
            replace(out)?;
        }
        Ok(())
    }

    /// Moves complete characters and invalid bytes from the waiting bytes to `out`.
    fn settle(&mut self, out: &mut heap::Vec<'_, u8>) -> Result<(), OutOfMemory> {
        while !self.waiting.is_empty() {
            let error = match core::str::from_utf8(&self.waiting) {
                Ok(text) => {
                    heap::extend(out, text.as_bytes())?;
                    self.waiting.clear();
                    return Ok(());
                }
                Err(error) => error,
            };
            heap::extend(out, &self.waiting[..error.valid_up_to()])?;
            let Some(bad) = error.error_len() else {
                self.drop_first(error.valid_up_to());
                return Ok(());
            };
            replace(out)?;
            self.drop_first(error.valid_up_to() + bad);
        }
        Ok(())
    }

    fn drop_first(&mut self, count: usize) {
        let count = count.min(self.waiting.len());
        self.waiting.rotate_left(count);
        self.waiting.truncate(self.waiting.len() - count);
    }
}

fn replace(out: &mut heap::Vec<'_, u8>) -> Result<(), OutOfMemory> {
    heap::extend(out, "\u{fffd}".as_bytes())
}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use super::*;

    fn cleaned(text: &str) -> alloc::string::String {
        // Text that is already there stays.
        let mut bytes = heap::copied(&heap::Global, b" .").unwrap();
        heap::extend(&mut bytes, text.as_bytes()).unwrap();
        clean(&mut bytes, 2);
        assert_eq!(bytes[..2], *b" .");
        alloc::string::String::from_utf8(bytes[2..].to_vec()).unwrap()
    }

    #[test]
    fn blanks_before_punctuation_go() {
        assert_eq!(cleaned("a . b ! c ? d , e"), "a. b! c? d, e");
        assert_eq!(cleaned(" . .. "), "... ");
        assert_eq!(cleaned("."), ".");
        assert_eq!(cleaned("a ' b"), "a'b");
        assert_eq!(cleaned("it 's we 'm they 're I 've he 'll 'd 't"), "it's we'm they're I've he 'll 'd 't");
        assert_eq!(cleaned("a 'r 'v '"), "a 'r 'v '");
        assert_eq!(cleaned(""), "");
    }
}
