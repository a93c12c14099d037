//! GGUF model files: a zero-copy reader over bytes that somebody else has mapped or read.
//!
//! Versions 2 and 3, little endian, one file or a split set. Every count, length and offset is checked against
//! the bytes that are there before it is used, and a tensor's bytes are known to be present once parsing has
//! succeeded. What keys and tensors mean is the model's and the tokenizer's matter.

mod array;
mod cursor;
mod error;
mod file;
mod key;
mod metadata;
mod names;
mod split;
mod tensor;
mod value;

pub use array::{Array, Strings, Values};
pub use error::{Fault, GgufError, Label, Subject};
pub use file::Gguf;
pub use key::{FromValue, KeyError};
pub use metadata::Entry;
pub use split::Split;
pub use tensor::Tensor;
pub use value::{Kind, Value};
