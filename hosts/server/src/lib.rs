//! The HTTP API: one model behind the APIs of `OpenAI`, Anthropic, Ollama and llama-server.
//!
//! A request passes these layers, from the socket to the engine and back:
//!
//! 1. `server` listens and shuts down; `acceptor` accepts connections and answers probes on a thread of its own.
//! 2. `connection` speaks HTTP/1.1; `lingering_close` ends it without losing the last answer.
//! 3. `dispatch` finds the route in the table of `routes`, checks keys and origins (`access`), limits the body
//!    (`body_limit`, `document_cost`) and the number of requests (`in_flight`), and calls a handler with a `request_context`.
//! 4. `openai`, `anthropic` and `ollama` translate between their documents and a `conversation` or a plain prompt;
//!    `operations` and `slots` answer questions about the server itself.
//! 5. `generation` submits jobs to the engine's service, parses answers and returns events; `pooling` does the same for
//!    embeddings.
//! 6. `stream` writes a response while it is generated; `keep_alive` keeps silent streams open.
//!
//! A program loads a model, starts an engine, describes both with a [`ModelHandle`], and runs a [`Server`]:
//!
//! ```
//! use doorbell_server::{DEFAULT_PORT, ModelHandle, Server, ServerError, Settings, signals};
//!
//! async fn serve(model: ModelHandle) -> Result<(), ServerError> {
//!     let mut settings = Settings::new(([127, 0, 0, 1], DEFAULT_PORT).into());
//!     settings.api_keys.push("secret".to_owned());
//!     let end = signals()?;
//!     let server = Server::bind(model, settings).await?;
//!     println!("http://{}", server.address()?);
//!     server.run(end).await
//! }
//! ```
//!
//! Not here: the engine (core), its thread, templates and the marks of model families (runtime), the command line (cli).

extern crate alloc;

mod acceptor;
mod access;
mod answer_header;
mod anthropic;
mod app;
mod body_limit;
mod clients;
mod connection;
mod connection_slots;
mod conversation;
mod dispatch;
mod document_cost;
mod error;
mod fields;
mod generation;
mod head_clock;
mod in_flight;
mod keep_alive;
mod lingering_close;
mod messages;
mod metrics;
mod model_handle;
mod ollama;
mod openai;
mod operations;
mod pooling;
mod prompt_input;
mod request_context;
mod request_log;
mod routes;
mod server;
mod settings;
mod slots;
mod stream;
mod surrogates;
mod unique_id;
mod web_ui;
mod work_pool;

pub use model_handle::{ModelHandle, ModelHandleError, ModelInfo, RunningEngine};
pub use server::{Server, ServerError, engine_end, signals};
pub use settings::{DEFAULT_PORT, Settings};
