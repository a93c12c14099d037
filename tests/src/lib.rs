//! Fixtures shared by tests and by xtask: a GGUF writer, random blocks, small vocabularies, tiny models.
//!
//! Nothing here is linked into the program; no room depends on this crate.

pub mod blocks;
pub mod gguf_writer;
pub mod hostile;
pub mod property;
pub mod random;
pub mod scripted;
pub mod tiny;
pub mod vocabulary;
