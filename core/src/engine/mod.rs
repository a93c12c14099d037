//! The engine: accepts requests, runs the scheduler's batches on a backend, samples, and reports events.
//!
//! Sans-IO: the time is an argument, the device is a [`crate::backend::Backend`]. Text does not occur here; hosts
//! tokenize prompts and decode tokens with [`crate::token`]. Which rows a batch has is decided in
//! [`crate::scheduler`].

mod constraints;
#[expect(clippy::module_inception, reason = "the file of the type that the module is named for")]
mod engine;
mod error;
mod event;
mod memory;
mod multi_step;
mod plans;
mod pooling;
mod prefix;
mod request;
mod score;
mod state;
mod step;

pub use crate::kv::{AllocateError, KvPart, PrefixParts};
pub use crate::scheduler::{Config, RequestId};
pub use constraints::TokenConstraints;
pub use engine::Engine;
pub use error::EngineError;
pub use event::{Event, FinishReason, Nanos, Progress, Usage};
pub use memory::Memory;
pub use request::{GenerationParams, PoolingOutput, PoolingRequest, Request, SubmitError};
pub use score::{ScoreError, score};
