//! Streamed parts of an answer, and the part of an answer that the prompt has already begun.

/// The part of an answer in which generation begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// The beginning of the model's turn.
    #[default]
    Turn,
    /// The middle of reasoning.
    Reasoning,
    /// The middle of the text for the user.
    Text,
}

/// An addition to an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Reasoning.
    Reasoning(String),
    /// Text for the user.
    Text(String),
    /// A call begins.
    Call {
        /// Its number within the answer, from 0.
        index: usize,
        /// The tool's name.
        name: String,
    },
    /// A part of a call's arguments; all parts together are one JSON document.
    Arguments {
        /// The call's number.
        index: usize,
        /// The part.
        text: String,
    },
}
