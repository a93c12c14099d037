//! Chat templates: the Jinja program in a model file turns a conversation into the text of a prompt.
//!
//! The engine is minijinja; this module makes it behave as Python's Jinja2 inside `transformers`, against which template
//! authors test. Templates are hostile input: work, memory and depth are bounded. Not here: tokenizing the text (core's
//! `encode_chat`, which also ensures a single BOS token), and reading tool calls or reasoning in an answer
//! (`crate::answer`).

mod arguments;
mod calendar;
mod chat;
mod error;
mod filters;
mod form;
mod generic_tools;
mod guard;
mod input;
mod json;
mod merge;
mod present;
mod python;
mod source;

pub use calendar::Moment;
pub use chat::{ChatTemplate, SpecialTokens};
pub use error::TemplateError;
pub use input::{ChatInput, Prompt};
