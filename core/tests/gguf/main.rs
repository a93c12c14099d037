//! The GGUF reader: files by other writers, every rule of acceptance, and bytes that lie.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod accepts;
mod builder;
mod goldens;
mod hostile;
mod keys;
mod refuses;
mod split;
