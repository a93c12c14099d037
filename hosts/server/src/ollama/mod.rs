//! Ollama's API: one JSON document per line.

pub(crate) mod generate;
mod input;
mod lines;
pub(crate) mod models;
mod time;
