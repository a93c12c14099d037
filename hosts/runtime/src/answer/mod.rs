//! What a model's answer consists of: reasoning, text for the user, calls of tools.
//!
//! Each family of models writes these in its own marks; the chat template tells which. Not here: what protocols call
//! the parts.

mod arguments;
mod calls;
mod delta;
mod harmony;
mod parser;
mod scan;
mod style;
mod tools;

pub use delta::{Begin, Delta};
pub use parser::AnswerParser;
pub use style::{CallStyle, Style, Thinking};
pub use tools::{Tool, Tools, admits_text};
