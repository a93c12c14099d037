//! The HTTP API: one model behind the protocols of `OpenAI`, Anthropic and Ollama.
//!
//! Not here: the engine (core), its thread and the forms of answers (runtime), and the command line (cli).

extern crate alloc;

mod access;
mod anthropic;
mod app;
mod body;
mod call;
mod chat;
mod connection;
mod dispatch;
mod doorman;
mod error;
mod fields;
mod generate;
mod keep_alive;
mod linger;
mod listen;
mod metrics;
mod ollama;
mod openai;
mod operations;
mod page;
mod reading;
mod routes;
mod served;
mod settings;
mod slots;
mod stream;
mod texts;

pub use listen::{Server, ServerError, signals};
pub use served::{Facts, Running, Served, ServedError};
pub use settings::{DEFAULT_PORT, Settings};
