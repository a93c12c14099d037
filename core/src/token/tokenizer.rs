//! A model's tokenizer: its properties and those of its tokens.
//!
//! Building it from a file is in `load`, text to tokens in `encode`, tokens to text in `piece` and
//! `detokenize`.

use super::bpe::Merges;
use super::id::TokenId;
use super::markup::Markup;
use super::piece::Bytes;
use super::pre::{Alphabet, Pre};
use super::special::{Roles, Special};
use super::vocabulary::{Kind, Vocabulary};
use crate::heap::{self, Heap};
use core::fmt;

/// The kinds of tokenizer, by `tokenizer.ggml.model`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Model {
    /// None: token ids only.
    None,
    /// Byte pair encoding, with the rules of the row.
    Bpe(&'static Pre),
    /// SentencePiece's BPE by scores.
    Spm,
}

/// Converts text to the tokens of a model, and back.
pub struct Tokenizer<'a> {
    pub(super) heap: Heap<'a>,
    pub(super) model: Model,
    pub(super) pre_name: Option<&'static str>,
    pub(super) vocabulary: Vocabulary<'a>,
    /// Number of tokens of the model, with and without texts.
    pub(super) len: usize,
    pub(super) merges: Merges<'a>,
    pub(super) markup: Markup<'a>,
    /// The tokens that stand for single bytes.
    pub(super) bytes: [Option<TokenId>; 256],
    pub(super) roles: Roles,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    pub(super) add_space_prefix: bool,
    pub(super) clean_spaces: bool,
    pub(super) suppressed: heap::Vec<'a, TokenId>,
}

impl<'a> Tokenizer<'a> {
    /// Number of tokens of the model; ids are below it.
    pub fn vocab_len(&self) -> usize {
        self.len
    }

    /// Bytes of the longest token as the file spells it, which are at least as many as its text has.
    pub fn longest_token(&self) -> usize {
        self.vocabulary.longest()
    }

    /// Bytes of heap: the tables of tokens and merges. Texts stay in the file.
    pub fn heap_bytes(&self) -> usize {
        let tables = self.vocabulary.heap_bytes() + self.merges.heap_bytes() + self.markup.heap_bytes();
        tables + heap::held(&self.suppressed)
    }

    /// The kind of tokenizer: `bpe`, `spm` or `none`.
    pub fn model_name(&self) -> &'static str {
        match self.model {
            Model::None => "none",
            Model::Bpe(_) => "bpe",
            Model::Spm => "spm",
        }
    }

    /// The name of the rule that splits text into words; `None` if text is not split.
    pub fn pre_name(&self) -> Option<&'static str> {
        self.pre_name
    }

    /// True if tokens have texts, so that text can be encoded.
    pub fn has_text(&self) -> bool {
        !matches!(self.model, Model::None)
    }

    /// The kind of a token.
    pub fn kind(&self, id: TokenId) -> Kind {
        self.vocabulary.traits(id).kind
    }

    /// The token's text as it is in the file, in the spelling of the vocabulary; `None` beyond its end.
    pub fn text(&self, id: TokenId) -> Option<&'a [u8]> {
        self.vocabulary.text(id)
    }

    /// The token whose text in the file is `text`; the last one if texts repeat.
    pub fn find(&self, text: &[u8]) -> Option<TokenId> {
        self.vocabulary.find(text)
    }

    /// The bytes that the token adds to a text. Control, unknown and unused tokens add none unless `special`.
    ///
    /// A character may be spread over several tokens: see [`super::Detokenizer`].
    pub fn bytes(&self, id: TokenId, special: bool) -> Bytes<'a> {
        let byte_level = matches!(self.model, Model::Bpe(pre) if pre.alphabet == Alphabet::Bytes);
        Bytes::new(self.text(id).unwrap_or_default(), self.kind(id), byte_level, special)
    }

    /// True if the token ends an answer.
    pub fn is_eog(&self, id: TokenId) -> bool {
        self.vocabulary.traits(id).ends
    }

    /// The tokens that end an answer.
    pub fn eog(&self) -> impl Iterator<Item = TokenId> {
        self.vocabulary.ids().filter(|id| self.is_eog(*id))
    }

    /// The token of a role.
    pub fn special(&self, role: Special) -> Option<TokenId> {
        self.roles.get(role)
    }

    /// The begin-of-text token.
    pub fn bos(&self) -> Option<TokenId> {
        self.roles.get(Special::Bos)
    }

    /// The end-of-text token.
    pub fn eos(&self) -> Option<TokenId> {
        self.roles.get(Special::Eos)
    }

    /// True if a prompt starts with [`Self::bos`].
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// True if a prompt ends with [`Self::eos`].
    pub fn add_eos(&self) -> bool {
        self.add_eos
    }

    /// True if a text gets a leading blank.
    pub fn add_space_prefix(&self) -> bool {
        self.add_space_prefix
    }

    /// True if [`Self::detokenize`] removes blanks before punctuation.
    pub fn clean_spaces(&self) -> bool {
        self.clean_spaces
    }

    /// Tokens that must never be generated, by the file.
    pub fn suppressed(&self) -> &[TokenId] {
        &self.suppressed
    }
}

impl fmt::Debug for Tokenizer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("model", &self.model_name())
            .field("pre", &self.pre_name())
            .field("vocab_len", &self.len)
            .finish_non_exhaustive()
    }
}
