//! The parts of an answer as they come, and what of it the prompt has already.

/// Where an answer goes on behind its prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// At the beginning of the model's turn.
    #[default]
    Turn,
    /// In the midst of reasoning.
    Reasoning,
    /// In the midst of the text for the user.
    Text,
}

/// An addition to an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// More of the reasoning.
    Reasoning(String),
    /// More of the text for the user.
    Text(String),
    /// A call begins.
    Call {
        /// Its number within the answer, from 0.
        index: usize,
        /// The tool's name.
        name: String,
    },
    /// More of a call's arguments; all of them together are one JSON document.
    Arguments {
        /// The call's number.
        index: usize,
        /// The addition.
        text: String,
    },
}
