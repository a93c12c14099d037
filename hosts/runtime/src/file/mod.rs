//! Model files: found by path, split files completed by name, mapped into memory.
//!
//! The rest of the program sees bytes. Only the first bytes are looked at here, so that an error can name the kind of a
//! wrong file. Not here: the GGUF format (core).

mod error;
mod mapping;
mod model;
mod split;

pub use error::OpenError;
pub use model::ModelFile;
