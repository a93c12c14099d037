//! Errors of chat templates.

use core::fmt;

/// Reason why a template gives no prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// The template isn't valid Jinja.
    Syntax {
        /// Line in the template, from 1; 0 if unknown.
        line: usize,
        /// The parser's message.
        reason: String,
    },
    /// The template refused the conversation through `raise_exception`.
    Raised {
        /// The template's message.
        message: String,
    },
    /// Neither the APIs nor the template know the role of a message.
    Role {
        /// The role, at most 64 characters of it.
        role: String,
    },
    /// The template prints a conversation without a text of one of its messages.
    Lost {
        /// Position of the message, from 0.
        index: usize,
        /// Its role.
        role: String,
    },
    /// Markup in the client's texts could not be kept apart from the template's.
    Markup,
    /// The template failed while running.
    Failed {
        /// Line in the template, from 1; 0 if unknown.
        line: usize,
        /// The engine's message.
        reason: String,
    },
    /// The template has exceeded its budget of work.
    TooMuchWork,
    /// The system can't create a thread for the template.
    NoThread,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { line, reason } => {
                write!(f, "chat template, line {line}: {reason}")
            }
            Self::Raised { message } => write!(f, "the chat template refuses this conversation: {message}"),
            Self::Role { role } => write!(f, "unknown role {role:?}"),
            Self::Lost { index, role } => {
                write!(f, "the chat template leaves out the text of message {index} with the role {role:?}")
            }
            Self::Markup => f.write_str(
                "texts with markup can't be kept apart from the chat template's; remove <, >, [ and | from them",
            ),
            Self::Failed { line, reason } => {
                write!(f, "chat template failed in line {line}: {reason}")
            }
            Self::NoThread => {
                f.write_str("no thread for the chat template; free some memory or raise the limit of threads")
            }
            Self::TooMuchWork => f.write_str("the chat template does not end"),
        }
    }
}

impl core::error::Error for TemplateError {}
