//! What a model's answer consists of: reasoning, text for the user, calls of tools.
//!
//! Each family of models writes these in its own marks; the chat template tells which. Not here: what protocols call
//! the parts.

mod arguments;
mod calls;
mod continuation;
mod delta;
mod harmony;
mod output_grammar;
mod parser;
mod scan;
mod style;
mod tool_call_ids;
mod tool_grammar;
mod tools;

pub use continuation::{Continuation, ContinuationError, SplitMessages, append_continued};
pub use delta::{Begin, Delta};
pub use output_grammar::{OutputGrammar, UnknownToolError};
pub use parser::AnswerParser;
pub use style::{CallStyle, Style, Thinking};
pub use tool_call_ids::normalize_tool_call_ids;
pub use tool_grammar::ModelMarkup;
pub use tools::{Tool, ToolChoice, Tools};
