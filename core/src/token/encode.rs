//! Text to tokens: markup is cut out, the rest is encoded piece by piece, and the tokens around a prompt are
//! added.

use super::alphabet::{self, BLANK};
use super::markup::{Cut, Filter, MarkupScratch};
use super::merge::{Joiner, Symbol};
use super::pre::{Alphabet, Pre};
use super::special::Special;
use super::tokenizer::Model;
use super::{EncodeError, TokenId, Tokenizer, split, spm};
use crate::heap::{self, Heap, OutOfMemory};
use core::ops::Range;

/// The most bytes of text that are encoded at once.
const LIMIT: usize = 1 << 30;

/// Options beyond encoding plain text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Add the model's tokens before and after a prompt.
    pub add_special: bool,
    /// Encode the texts of control tokens as these tokens.
    pub parse_special: bool,
}

/// Memory for encoding. If it is kept between texts, encoding does not allocate.
#[derive(Debug)]
pub struct Scratch<'a> {
    markup: MarkupScratch<'a>,
    joiner: Joiner<'a>,
    text: heap::Vec<'a, u8>,
}

impl<'a> Scratch<'a> {
    /// Empty; it grows with the texts.
    pub fn new(heap: Heap<'a>) -> Self {
        Self { markup: MarkupScratch::new(heap), joiner: Joiner::new(heap), text: heap::Vec::new_in(heap) }
    }
}

/// Tokens around the text.
struct Frame {
    bos: bool,
    eos: bool,
}

impl<'a> Tokenizer<'a> {
    /// Appends the tokens of `text` to `out`. The text may be any bytes.
    ///
    /// # Errors
    /// If the model has no tokenizer, the text exceeds 1 GiB or the heap is used up.
    pub fn encode(
        &self,
        text: impl AsRef<[u8]>,
        options: EncodeOptions,
        out: &mut heap::Vec<'_, TokenId>,
    ) -> Result<(), EncodeError> {
        self.encode_with(text.as_ref(), options, &mut Scratch::new(self.heap), out)
    }

    /// [`Self::encode`] with memory that the caller keeps.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_with(
        &self,
        text: &[u8],
        options: EncodeOptions,
        scratch: &mut Scratch<'_>,
        out: &mut heap::Vec<'_, TokenId>,
    ) -> Result<(), EncodeError> {
        let filter = Filter { control: options.parse_special, content: &[] };
        self.cut(text, filter, scratch)?;
        let special = options.add_special;
        self.emit(text, &Frame { bos: special && self.add_bos, eos: special && self.add_eos }, scratch, out)
    }

    /// Appends the tokens of a rendered chat: markup is recognized, except within the ranges of `content`, which are
    /// the bytes of `text` that users wrote, in ascending order. The model's BOS token is there exactly once, even if
    /// the template has written it.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_chat(
        &self,
        text: &[u8],
        content: &[Range<usize>],
        scratch: &mut Scratch<'_>,
        out: &mut heap::Vec<'_, TokenId>,
    ) -> Result<(), EncodeError> {
        self.cut(text, Filter { control: true, content }, scratch)?;
        let starts_with_bos =
            scratch.markup.cuts.first().is_some_and(|cut| cut.start == 0 && Some(cut.token) == self.bos());
        self.emit(text, &Frame { bos: self.add_bos && !starts_with_bos, eos: false }, scratch, out)
    }

    fn cut(&self, text: &[u8], filter: Filter<'_>, scratch: &mut Scratch<'_>) -> Result<(), EncodeError> {
        if !self.has_text() {
            return Err(EncodeError::NoTokenizer);
        }
        if text.len() > LIMIT {
            return Err(EncodeError::TooLong { found: text.len(), limit: LIMIT });
        }
        Ok(self.markup.find(text, filter, &self.vocabulary, &mut scratch.markup)?)
    }

    /// Appends the cuts and the tokens of the text between them.
    fn emit(
        &self,
        text: &[u8],
        frame: &Frame,
        scratch: &mut Scratch<'_>,
        out: &mut heap::Vec<'_, TokenId>,
    ) -> Result<(), EncodeError> {
        if let Some(bos) = self.bos().filter(|_| frame.bos) {
            heap::push(out, bos)?;
        }
        let Scratch { markup, joiner, text: spelt } = scratch;
        let end = Cut { start: text.len(), end: text.len(), token: TokenId(0) };
        let mut at = 0;
        for cut in markup.cuts.iter().chain([&end]) {
            if at < cut.start {
                self.encode_raw(&text[at..cut.start], joiner, spelt, out)?;
            }
            if cut.start < cut.end {
                heap::push(out, cut.token)?;
            }
            at = cut.end;
        }
        if let Some(eos) = self.eos().filter(|_| frame.eos) {
            heap::push(out, eos)?;
        }
        Ok(())
    }

    /// Appends the tokens of text without markup.
    fn encode_raw(
        &self,
        text: &[u8],
        joiner: &mut Joiner<'_>,
        spelt: &mut heap::Vec<'_, u8>,
        out: &mut heap::Vec<'_, TokenId>,
    ) -> Result<(), OutOfMemory> {
        match self.model {
            Model::None => Ok(()),
            Model::Spm => {
                spelt.clear();
                if self.add_space_prefix {
                    heap::extend(spelt, BLANK)?;
                }
                escape_blanks(text, spelt)?;
                self.spm(spelt, joiner, out)
            }
            Model::Bpe(pre) if pre.alphabet == Alphabet::Characters => {
                spelt.clear();
                escape_blanks(text, spelt)?;
                split::split(pre.stages, spelt, &mut |word| self.bpe_characters(word, joiner, out))
            }
            Model::Bpe(pre) => {
                split::split(pre.stages, text, &mut |word| match self.whole_word(pre, word, spelt)? {
                    Some(token) => heap::push(out, token),
                    None => self.bpe_bytes(word, joiner, out),
                })
            }
        }
    }

    fn spm(
        &self,
        text: &[u8],
        joiner: &mut Joiner<'_>,
        out: &mut heap::Vec<'_, TokenId>,
    ) -> Result<(), OutOfMemory> {
        characters(text, joiner, |char| spm::find(&self.vocabulary, char))?;
        joiner.join(|left, right| spm::pair(&self.vocabulary, text, left, right))?;
        for symbol in joiner.symbols() {
            self.push_symbol(text, symbol, out)?;
        }
        Ok(())
    }

    /// A word of a byte-level vocabulary, by merges.
    fn bpe_bytes(
        &self,
        word: &[u8],
        joiner: &mut Joiner<'_>,
        out: &mut heap::Vec<'_, TokenId>,
    ) -> Result<(), OutOfMemory> {
        joiner.clear();
        for byte in word {
            joiner.push(1, self.bytes[usize::from(*byte)])?;
        }
        joiner.join(|left, right| self.merges.get(left.token?, right.token?))?;
        for token in joiner.symbols().filter_map(|symbol| symbol.token) {
            heap::push(out, token)?;
        }
        Ok(())
    }

    /// A word of a vocabulary of characters, by merges.
    fn bpe_characters(
        &self,
        word: &[u8],
        joiner: &mut Joiner<'_>,
        out: &mut heap::Vec<'_, TokenId>,
    ) -> Result<(), OutOfMemory> {
        // Runs of line feeds are tokens without merges.
        let lines = word.iter().all(|byte| *byte == b'\n');
        if let Some(token) = self.vocabulary.find(word).filter(|_| lines) {
            return heap::push(out, token);
        }
        characters(word, joiner, |char| self.vocabulary.find(char))?;
        joiner.join(|left, right| self.merges.get(left.token?, right.token?))?;
        for symbol in joiner.symbols() {
            self.push_symbol(word, symbol, out)?;
        }
        Ok(())
    }

    /// The token that is all of `word`, if the rule needs no merges for it.
    fn whole_word(
        &self,
        pre: &Pre,
        word: &[u8],
        spelt: &mut heap::Vec<'_, u8>,
    ) -> Result<Option<TokenId>, OutOfMemory> {
        // A spelling has at least as many bytes as the text.
        if !pre.ignore_merges || word.len() > self.vocabulary.longest() {
            return Ok(None);
        }
        spelt.clear();
        for byte in word {
            heap::extend(spelt, alphabet::spell(*byte).encode_utf8(&mut [0; 4]).as_bytes())?;
        }
        Ok(spm::find(&self.vocabulary, spelt))
    }

    /// Appends the token of a symbol, or else those of its bytes.
    fn push_symbol(
        &self,
        text: &[u8],
        symbol: &Symbol,
        out: &mut heap::Vec<'_, TokenId>,
    ) -> Result<(), OutOfMemory> {
        if let Some(token) = symbol.token {
            return heap::push(out, token);
        }
        let start = symbol.start as usize;
        for byte in &text[start..start + symbol.len as usize] {
            let token = self.bytes[usize::from(*byte)].or(self.roles.get(Special::Unknown));
            if let Some(token) = token {
                heap::push(out, token)?;
            }
        }
        Ok(())
    }
}

/// Starts with the characters of `text`, as far as their first bytes tell their lengths.
fn characters(
    text: &[u8],
    joiner: &mut Joiner<'_>,
    find: impl Fn(&[u8]) -> Option<TokenId>,
) -> Result<(), OutOfMemory> {
    joiner.clear();
    let mut rest = text;
    while let Some(first) = rest.first() {
        let (char, behind) = rest.split_at(spm::char_len(*first).min(rest.len()));
        // Never more than four bytes.
        joiner.push(u32::try_from(char.len()).unwrap_or(0), find(char))?;
        rest = behind;
    }
    Ok(())
}

fn escape_blanks(text: &[u8], out: &mut heap::Vec<'_, u8>) -> Result<(), OutOfMemory> {
    for (index, part) in text.split(|byte| *byte == b' ').enumerate() {
        if index > 0 {
            heap::extend(out, BLANK)?;
        }
        heap::extend(out, part)?;
    }
    Ok(())
}
