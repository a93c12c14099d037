//! What can go wrong with a chat template.

use core::fmt;

/// Why a template gave no prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// The template isn't valid Jinja.
    Syntax {
        /// Line in the template, from 1; 0 if unknown.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// The template refused the conversation through `raise_exception`.
    Raised {
        /// The template's own words.
        message: String,
    },
    /// The template failed while running.
    Failed {
        /// Line in the template, from 1; 0 if unknown.
        line: usize,
        /// What the engine says.
        reason: String,
    },
    /// The template did more work than any sane template needs.
    TooMuchWork,
    /// The system has no thread to run the template on.
    NoThread,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { line, reason } => {
                write!(f, "chat template, line {line}: {reason}")
            }
            Self::Raised { message } => write!(f, "the chat template refuses this conversation: {message}"),
            Self::Failed { line, reason } => {
                write!(f, "chat template failed in line {line}: {reason}")
            }
            Self::NoThread => {
                f.write_str("no thread for the chat template; free some memory or raise the limit of threads")
            }
            Self::TooMuchWork => f.write_str("the chat template does not come to an end"),
        }
    }
}

impl core::error::Error for TemplateError {}
