//! What can go wrong when a grammar is made.

use core::fmt;

/// Why an output shape can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrammarError {
    /// The vocabulary can't be searched by text.
    Vocabulary {
        /// Why.
        reason: String,
    },
    /// The schema or grammar is wrong or uses what is not supported; the reason names it.
    Unusable {
        /// Why.
        reason: String,
    },
    /// A line of a GBNF grammar can't be read.
    Gbnf {
        /// The line, from 1.
        line: usize,
        /// What was expected.
        reason: &'static str,
    },
}

impl fmt::Display for GrammarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vocabulary { reason } => write!(f, "grammars can't be used with this vocabulary: {reason}"),
            Self::Unusable { reason } => write!(f, "the schema or grammar can't be used: {reason}"),
            Self::Gbnf { line, reason } => write!(f, "grammar, line {line}: {reason}"),
        }
    }
}

impl core::error::Error for GrammarError {}
