//! Errors of compiling a grammar.

use core::fmt;

/// Reason why a grammar can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrammarError {
    /// The vocabulary can't be searched by text.
    Vocabulary {
        /// The reason.
        reason: String,
    },
    /// The schema or grammar is wrong or uses an unsupported feature, which the reason names.
    Unusable {
        /// The reason.
        reason: String,
    },
    /// A line of a GBNF grammar can't be read.
    Gbnf {
        /// The line, from 1.
        line: usize,
        /// The expected text.
        reason: &'static str,
    },
}

impl GrammarError {
    /// The reason alone.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Vocabulary { reason } | Self::Unusable { reason } => reason.clone(),
            Self::Gbnf { reason, .. } => (*reason).to_owned(),
        }
    }
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
