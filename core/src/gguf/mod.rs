//! GGUF model files: a zero-copy reader over bytes that the caller has mapped or read.
//!
//! Versions 2 and 3, little endian, one file or a split set. Every count, length and offset is checked against
//! the bytes that are there before it is used. After parsing, the bytes of every tensor are known to be there. The
//! meaning of keys and tensors is in [`crate::model`] and [`crate::token`].

mod cursor;
mod error;
mod file;
mod key;
mod metadata;
mod names;
mod split;
mod tensor;
mod value;
mod value_kind;

pub use error::{Fault, GgufError, Label, Subject};
pub use file::Gguf;
pub use key::{FromValue, KeyError};
pub use metadata::Entry;
pub use split::Split;
pub use tensor::Tensor;
pub use value::{Array, Strings, Value, Values};
pub use value_kind::Kind;
