//! Prefixes of conversations on disk: the keys and values of a slot's tokens, in whole pages, and the recurrent state behind
//! them.
//!
//! A file belongs to one model, one backend and one type of keys and values, which its header names; checksums cover all of
//! it. Files have plain names and are in one folder that the operator chooses. Not here: access control (`doorbell-server`).

mod checksum;
mod error;
mod folder;
mod header;
mod identity;
mod name;

pub use error::PrefixError;
pub use folder::{PrefixFolder, Restored, Saved};
pub use name::FileName;
