//! Tokenizers: token ids, vocabularies, and the conversion of text to tokens and back.

mod id;
pub mod class;
mod class_table;
pub mod split;
pub mod pre;
mod alphabet;
mod vocabulary;
mod queue;
mod merge;
mod bpe;
mod spm;
mod markup;
mod special;
mod error;
mod tokenizer;
mod load;
mod encode;
mod piece;
mod detokenize;

pub use detokenize::{DetokenizeOptions, Detokenizer};
pub use encode::{EncodeOptions, Scratch};
pub use error::{EncodeError, TokenizerError};
pub use id::TokenId;
pub use piece::Bytes;
pub use special::Special;
pub use tokenizer::Tokenizer;
pub use vocabulary::Kind;
