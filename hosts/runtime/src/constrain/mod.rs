//! Structured output: JSON schemas, regular expressions and grammars as masks over the vocabulary.
//!
//! The parser is llguidance. An unsupported feature of a schema or grammar is an error before the first token; it is never
//! silently ignored. Not here: applying the masks (core).

mod budget;
mod constraint;
mod error;
mod gbnf;
mod keywords;
mod marks;
mod schema_fault;
mod vocabulary;

pub use budget::ReasoningBudget;
pub use constraint::{BLANK, Constraint, GrammarSpec, Grammars, spaced};
pub use error::GrammarError;
pub(crate) use keywords::ANNOTATIONS;
pub use marks::{HarmonyChannel, ReasoningMarks};
pub use schema_fault::SchemaFault;
