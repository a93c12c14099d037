//! Errors of building a tokenizer, and of encoding a text.

use super::pre::Pre;
use crate::gguf::{KeyError, Kind, Label};
use crate::heap::OutOfMemory;
use core::fmt;

/// A file's tokenizer that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TokenizerError {
    /// A key is missing or of another type.
    Key(KeyError),
    /// `tokenizer.ggml.model` names an unsupported kind of tokenizer.
    UnknownModel {
        /// The name.
        found: Label,
    },
    /// `tokenizer.ggml.pre` names an unsupported rule.
    UnknownPre {
        /// The name.
        found: Label,
    },
    /// An array has elements of another type.
    Elements {
        /// The array's key.
        key: &'static str,
        /// The expected type of elements.
        expected: &'static str,
        /// The type found.
        found: Kind,
    },
    /// An array indexed by token ids is shorter than the vocabulary.
    TooShort {
        /// The array's key.
        key: &'static str,
        /// Tokens in the vocabulary.
        expected: usize,
        /// Elements in the array.
        found: usize,
    },
    /// A vocabulary without tokens.
    Empty,
    /// A token that begins or ends texts is not in the vocabulary.
    Beyond {
        /// The key that names it.
        key: &'static str,
        /// Its id.
        found: i64,
        /// Tokens in the vocabulary.
        vocab_len: usize,
    },
    /// Texts must begin or end with a token that the file does not name.
    NoToken {
        /// The key that asks for it.
        wanted_by: &'static str,
        /// The key that would name it.
        key: &'static str,
    },
    /// The tokens' hashes collide so often that a lookup is linear in the vocabulary.
    Collisions {
        /// Tokens in the vocabulary.
        vocab_len: usize,
    },
    /// The heap is used up.
    OutOfMemory(OutOfMemory),
}

impl fmt::Display for TokenizerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(error) => error.fmt(f),
            Self::UnknownModel { found } => {
                write!(f, "unknown tokenizer model \"{found}\" (known: llama, gpt2, gemma4, none)")
            }
            Self::UnknownPre { found } => {
                write!(f, "unknown pre-tokenizer \"{found}\" (known: ")?;
                let names = Pre::all().iter().flat_map(|row| row.names);
                for (index, name) in names.enumerate() {
                    write!(f, "{}{name}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
            Self::Elements { key, expected, found } => {
                write!(f, "key \"{key}\" should be an array of {expected}, but its elements are {found}")
            }
            Self::TooShort { key, expected, found } => {
                write!(f, "key \"{key}\" has {found} elements for a vocabulary of {expected} tokens")
            }
            Self::Empty => f.write_str("key \"tokenizer.ggml.tokens\" is empty"),
            Self::Collisions { vocab_len } => {
                write!(f, "the {vocab_len} tokens are made so that finding one is slow; get the file anew")
            }
            Self::Beyond { key, found, vocab_len } => {
                write!(f, "key \"{key}\" is {found}, but the vocabulary has {vocab_len} tokens")
            }
            Self::NoToken { wanted_by, key } => {
                write!(f, "key \"{wanted_by}\" is true, but there is no such token: set \"{key}\"")
            }
            Self::OutOfMemory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TokenizerError {}

impl From<KeyError> for TokenizerError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<OutOfMemory> for TokenizerError {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}

/// A text that can't be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum EncodeError {
    /// The model has no tokenizer.
    NoTokenizer,
    /// More text than the tokenizer encodes at once.
    TooLong {
        /// Its length, in bytes.
        found: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The heap is used up.
    OutOfMemory(OutOfMemory),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTokenizer => f.write_str("the model has no tokenizer: give token ids instead of text"),
            Self::TooLong { found, limit } => {
                write!(f, "{found} bytes of text are more than {limit}: split them")
            }
            Self::OutOfMemory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for EncodeError {}

impl From<OutOfMemory> for EncodeError {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}
