//! `OpenAI`'s API, with the extensions and the own endpoints of llama-server.

pub(crate) mod chat;
pub(crate) mod chat_input;
mod chat_stream;
pub(crate) mod completions;
mod document;
pub(crate) mod embeddings;
pub(crate) mod fill_in;
pub(crate) mod infill;
pub(crate) mod llama_completion;
pub(crate) mod logprobs;
pub(crate) mod models;
pub(crate) mod options;
mod prompts;
mod response_document;
mod response_tools;
pub(crate) mod responses;
mod responses_input;
mod responses_stream;
mod stream_extras;
