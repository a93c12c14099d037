//! The program as scripts use it: its output, its messages, and its exit codes.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

extern crate alloc;

mod answers;
mod arguments;
mod endings;
mod gpu;
mod machine;
mod program;
mod refusals;
mod serve;
mod terminal;
