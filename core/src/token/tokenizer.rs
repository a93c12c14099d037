//! A model's tokenizer: what is known about it and about each of its tokens.
//!
//! Building it from a file is in `load`, text to tokens in `encode`, tokens to text in `piece` and
//! `detokenize`.

use super::bpe::Merges;
use super::markup::Markup;
use super::pre::Pre;
use super::special::{Roles, Special};
use super::vocabulary::{Kind, Vocabulary};
use super::{Bytes, TokenId};
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

/// Turns text into the tokens of a model, and back.
pub struct Tokenizer<'a> {
    pub(super) heap: Heap<'a>,
    pub(super) model: Model,
    pub(super) pre_name: Option<&'static str>,
    pub(super) vocabulary: Vocabulary<'a>,
    /// Tokens that the model has, whether or not there are texts for them.
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
    /// The number of tokens that the model knows; ids are below it.
    pub fn vocab_len(&self) -> usize {
        self.len
    }

    /// Bytes taken from the heap: the tables of tokens and merges. Texts stay in the file.
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

    /// The name of the rule by which text is cut into words; `None` where text is not cut.
    pub fn pre_name(&self) -> Option<&'static str> {
        self.pre_name
    }

    /// Whether there are texts, so that text can be encoded at all.
    pub fn has_text(&self) -> bool {
        !matches!(self.model, Model::None)
    }

    /// What the token is.
    pub fn kind(&self, id: TokenId) -> Kind {
        self.vocabulary.traits(id).kind
    }

    /// The token's text as it is in the file, in the spelling of the vocabulary; `None` beyond its end.
    pub fn text(&self, id: TokenId) -> Option<&'a [u8]> {
        self.vocabulary.text(id)
    }

    /// The token whose text in the file is `text`; the last one where texts repeat.
    pub fn find(&self, text: &[u8]) -> Option<TokenId> {
        self.vocabulary.find(text)
    }

    /// The bytes that the token adds to a text. Control, unknown and unused tokens add none unless `special`.
    ///
    /// A character may be spread over several tokens: see [`super::Detokenizer`].
    pub fn bytes(&self, id: TokenId, special: bool) -> Bytes<'a> {
        Bytes::new(self, id, special)
    }

    /// Whether an answer ends with the token.
    pub fn is_eog(&self, id: TokenId) -> bool {
        self.vocabulary.traits(id).ends
    }

    /// Every token with which an answer ends.
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

    /// Whether a prompt starts with [`Self::bos`].
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether a prompt ends with [`Self::eos`].
    pub fn add_eos(&self) -> bool {
        self.add_eos
    }

    /// Whether a text gets a blank in front.
    pub fn add_space_prefix(&self) -> bool {
        self.add_space_prefix
    }

    /// Whether [`Self::detokenize`] removes blanks before punctuation.
    pub fn clean_spaces(&self) -> bool {
        self.clean_spaces
    }

    /// Tokens that the file wants never to be generated.
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
