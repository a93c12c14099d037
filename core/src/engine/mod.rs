//! The engine: admits requests, forms batches, submits plans, samples, and tells what happened.
//!
//! Sans-IO: the time is an argument, the device is a [`crate::backend::Backend`]. Text does not occur here; hosts
//! tokenize prompts and decode tokens with [`crate::token`].

mod admit;
mod chain;
mod config;
mod constraints;
mod event;
mod memory;
mod place;
mod prefix;
mod reading;
mod request;
mod score;
mod sequence;
mod step;
mod text;

pub use admit::Engine;
pub use config::{Config, EngineError};
pub use constraints::TokenConstraints;
pub use event::{Event, FinishReason, Nanos, Progress, Usage};
pub use memory::Memory;
pub use prefix::AllocateError;
pub use request::{GenerationParams, PoolingOutput, PoolingRequest, Request, RequestId, SubmitError};
pub use score::{ScoreError, score};
pub use text::TextStream;
