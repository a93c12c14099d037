//! The HTTP API: one model behind the protocols of `OpenAI`, Anthropic and Ollama.
//!
//! Not here: the engine (core), its thread and the forms of answers (runtime), and the command line (cli).

extern crate alloc;

mod access;
mod anthropic;
mod app;
mod body_limit;
mod request_context;
mod conversation;
mod connection;
mod dispatch;
mod acceptor;
mod error;
mod fields;
mod generation;
mod keep_alive;
mod lingering_close;
mod server;
mod metrics;
mod ollama;
mod openai;
mod operations;
mod web_ui;
mod pooling;
mod routes;
mod model_handle;
mod settings;
mod slots;
mod stream;
mod prompt_input;

pub use model_handle::{ModelHandle, ModelHandleError, ModelInfo, RunningEngine};
pub use server::{Server, ServerError, signals};
pub use settings::{DEFAULT_PORT, Settings};
