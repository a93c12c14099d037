//! Anthropic's API: messages of content blocks.

mod content;
mod input;
mod messages;
mod stream;

pub(crate) use messages::{count_tokens, messages};
