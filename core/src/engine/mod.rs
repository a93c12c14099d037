//! The engine: admits requests, forms batches, submits plans, samples, and tells what happened.
//!
//! Sans-IO: the time is an argument, the device is a [`crate::backend::Backend`]. Text does not occur here; hosts
//! tokenize prompts and decode tokens with [`crate::token`].

mod admit;
mod chain;
mod config;
mod event;
mod masks;
mod memory;
mod place;
mod prefix;
mod reading;
mod score;
mod sequence;
mod step;
mod text;

pub use admit::Engine;
pub use config::{Config, EngineError, Request, SubmitError};
pub use event::{Event, FinishReason, Nanos, Progress, RequestId, Usage};
pub use masks::Masks;
pub use memory::Memory;
pub use prefix::TakeError;
pub use reading::{Reading, Wanted};
pub use score::{ScoreError, score};
pub use text::TextStream;
