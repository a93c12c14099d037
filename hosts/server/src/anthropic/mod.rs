//! Anthropic's protocol: messages of blocks.

mod input;
mod messages;
mod stream;

pub(crate) use messages::{count_tokens, messages};
