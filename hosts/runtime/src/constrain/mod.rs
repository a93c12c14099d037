//! Structured output: JSON schemas, regular expressions and grammars as masks over the vocabulary.
//!
//! The parser is llguidance; core only applies the masks. What a grammar can't express is an error before the
//! first token, never silently left out.

mod budget;
mod constraint;
mod error;
mod gbnf;
mod marks;
mod vocabulary;

pub use budget::Budget;
pub use constraint::{BLANK, Constraint, Grammars, Shape, spaced};
pub use error::GrammarError;
pub use marks::{Channel, Marks};
