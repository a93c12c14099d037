//! Generation of answers, independent of the API that asks for it.
//!
//! A handler fills a [`GenerationRequest`], [`Generation::begin`] submits it to the engine, and [`Generation::next`]
//! returns events until all answers are over. Not here: documents and wording of the APIs.

mod answer;
mod collected;
mod event;
mod options;
mod outcome;
mod request;
mod run;
mod timings;

pub(crate) use collected::{CollectedAnswer, ToolCall, collect};
pub(crate) use event::{Event, PromptProgress};
pub(crate) use options::{GenerationOptions, MAX_ANSWERS, random_seed, stops};
pub(crate) use outcome::{Outcome, UsageTotal};
pub(crate) use request::GenerationRequest;
pub(crate) use run::Generation;
