//! The parts of a model's answer: reasoning, text for the user, and tool calls.
//!
//! Each family of models writes them with its own marks, which are recognized from the chat template. Not here: the names
//! of the parts in protocols (`doorbell-server`).

mod arguments;
mod brace_grammar;
mod braces;
mod calls;
mod continuation;
mod delta;
mod grammar_text;
mod harmony;
mod output_grammar;
mod parser;
mod scan;
mod strings;
mod style;
mod tags;
mod text_grammar;
mod tool_call_ids;
mod tool_grammar;
mod tools;

pub use continuation::{Continuation, ContinuationError, SplitMessages, append_continued};
pub use delta::{Begin, Delta};
pub use output_grammar::{OutputGrammar, OutputGrammarError};
pub use parser::AnswerParser;
pub use style::{CallStyle, Style, Thinking};
pub use tool_call_ids::normalize_tool_call_ids;
pub use tool_grammar::ModelMarkup;
pub use tools::{Tool, ToolChoice, Tools};
