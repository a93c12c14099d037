//! The server over loopback, with a model whose answers are known to the byte.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

extern crate alloc;

mod anthropic;
mod budget;
mod chaos;
mod chat;
mod client;
mod completions;
mod embeddings;
mod fields;
mod infill;
mod limits;
mod ollama;
mod operations;
mod program;
mod reports;
mod responses;
mod serving;
mod shapes;
mod slots;
mod thinking;
mod transport;
