//! Model files: found by path, split sets completed by name, mapped into memory.
//!
//! The rest of the program sees bytes. What the bytes mean is core's matter; the only glance at them here is
//! the first four, so that a wrong file is named for what it is.

mod error;
mod mapping;
mod model;
mod split;

pub use error::OpenError;
pub use model::ModelFile;
