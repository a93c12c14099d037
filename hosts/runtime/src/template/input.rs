//! Input and output of a chat template: a conversation, and the text of its prompt.

use super::calendar::Moment;
use core::ops::Range;
use serde_json::{Map, Value as Json};

/// Input of a rendering: the conversation and its options.
#[derive(Clone, Debug)]
pub struct ChatInput<'c> {
    /// Messages as in the `OpenAI` API: objects with `role`, `content`, `tool_calls` and so on.
    pub messages: &'c [Json],
    /// Tool descriptions as in the `OpenAI` API, if any.
    pub tools: Option<&'c [Json]>,
    /// Documents for retrieval templates, if any.
    pub documents: Option<&'c [Json]>,
    /// True to end the text with the beginning of the assistant's turn.
    pub add_generation_prompt: bool,
    /// True to rewrite a conversation that the template refuses: neighboring messages of one role are merged, and the
    /// system message is put into the first turn of the user.
    pub merge: bool,
    /// Further variables, such as `enable_thinking`; they override all others.
    pub variables: &'c Map<String, Json>,
    /// The time for `strftime_now`, `date_string` and `datetime`.
    pub now: Moment,
}

impl<'c> ChatInput<'c> {
    /// A conversation without tools that ends with the beginning of the assistant's turn.
    #[must_use]
    pub fn new(messages: &'c [Json], variables: &'c Map<String, Json>, now: Moment) -> Self {
        Self {
            messages,
            tools: None,
            documents: None,
            add_generation_prompt: true,
            merge: false,
            variables,
            now,
        }
    }
}

/// A rendered conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// Byte ranges with characters of the client's texts, ascending: those with which markup begins. Markup that has one
    /// of these characters must not become a control token.
    pub content: Vec<Range<usize>>,
}
