//! `OpenAI`'s protocol.

pub(crate) mod chat;
mod chat_stream;
pub(crate) mod completions;
pub(crate) mod embeddings;
pub(crate) mod infill;
pub(crate) mod logprobs;
pub(crate) mod models;
pub(crate) mod options;
pub(crate) mod raw;
pub(crate) mod responses;
mod responses_input;
mod responses_stream;
