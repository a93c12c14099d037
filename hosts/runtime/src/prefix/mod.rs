//! Prefixes of conversations on disk: the keys and values of a slot's tokens, whole pages of them.
//!
//! A file belongs to one model, one backend and one type of keys and values, which it names; everything in it is under
//! a checksum. Files have plain names and lie in one folder that the operator chose. Not here: who may ask for it.

mod checksum;
mod error;
mod folder;
mod header;
mod identity;
mod name;

pub use error::PrefixError;
pub use folder::{Folder, Restored, Saved};
pub use name::FileName;
