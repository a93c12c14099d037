//! Ollama's protocol: a JSON document a line.

pub(crate) mod about;
pub(crate) mod generate;
mod input;
mod time;
