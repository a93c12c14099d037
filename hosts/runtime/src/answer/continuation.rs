//! The end of a prompt: the model begins a new message, or continues the last one of the conversation.
//!
//! Not here: the request fields that choose between them, which are the server's.

use super::delta::Begin;
use super::style::{CallStyle, Style};
use crate::template::Prompt;
use core::fmt;
use serde_json::Value;

/// The end of a conversation's prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Continuation {
    /// The model continues a last message of the assistant, if there is one; otherwise it begins a new message.
    #[default]
    Auto,
    /// The model continues the last message, which must be the assistant's.
    LastMessage,
    /// The model begins a new message, even after one of the assistant.
    NewMessage,
    /// The prompt ends with the last message as it is.
    Closed,
}

/// A conversation in two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitMessages<'m> {
    /// Messages that the template renders.
    pub rendered: &'m [Value],
    /// Message of the assistant that the model continues.
    pub continued: Option<&'m Value>,
}

/// Reason why the end of a conversation cannot be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContinuationError {
    /// The message before the continued one is the assistant's, too.
    TwoMessages,
    /// The last message is not the assistant's, or it calls tools.
    NoMessage,
}

impl fmt::Display for ContinuationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TwoMessages => "must not end with two of the assistant",
            Self::NoMessage => "must end with one of the assistant that can be continued",
        })
    }
}

impl core::error::Error for ContinuationError {}

impl Continuation {
    /// Splits a conversation into the messages to render and the message to continue.
    ///
    /// # Errors
    /// [`ContinuationError`]
    pub fn split(self, messages: &[Value]) -> Result<SplitMessages<'_>, ContinuationError> {
        let own = |message: &Value| message["role"] == "assistant" && message.get("tool_calls").is_none();
        let last = messages.split_last().filter(|(last, _)| own(last));
        match (self, last) {
            (Self::Auto | Self::LastMessage, Some((last, before))) => {
                if before.last().is_some_and(|message| message["role"] == "assistant") {
                    return Err(ContinuationError::TwoMessages);
                }
                Ok(SplitMessages { rendered: before, continued: Some(last) })
            }
            (Self::LastMessage, None) => Err(ContinuationError::NoMessage),
            _ => Ok(SplitMessages { rendered: messages, continued: None }),
        }
    }
}

/// Appends the continued message to a prompt: its reasoning, then its text. Returns the part in which the model continues. The texts
/// come from the client and are marked as content, so that markup in them is not read as control tokens. With
/// `reason` false, reasoning that the template has opened is closed.
pub fn append_continued(prompt: &mut Prompt, continued: Option<&Value>, style: Style, reason: bool) -> Begin {
    let within = style.begins_thinking(&prompt.text);
    let field = |name: &str| continued.and_then(|message| message[name].as_str()).unwrap_or_default();
    let (reasoning, content) = (field("reasoning_content"), field("content"));
    let after_content = if content.is_empty() { Begin::Turn } else { Begin::Text };
    if style.calls == CallStyle::Harmony {
        return append_channels(prompt, reasoning, content);
    }
    let Some(marks) = style.thinking else {
        append_content(prompt, content);
        return after_content;
    };
    if !reasoning.is_empty() {
        if !within {
            prompt.text.push_str(marks.open);
            prompt.text.push('\n');
        }
        append_content(prompt, reasoning);
    }
    let open = within || !reasoning.is_empty();
    if open && !content.is_empty() {
        prompt.text.push_str(if reasoning.is_empty() || marks.channel { "" } else { "\n" });
        prompt.text.push_str(marks.close);
        prompt.text.push_str(if marks.channel { "" } else { "\n\n" });
    } else if open && !reason {
        // some templates open reasoning even if it is switched off
        prompt.text.push_str(marks.close);
        return Begin::Turn;
    }
    append_content(prompt, content);
    if open && content.is_empty() { Begin::Reasoning } else { after_content }
}

/// Appends a continued message in the channels of gpt-oss.
fn append_channels(prompt: &mut Prompt, reasoning: &str, content: &str) -> Begin {
    if !reasoning.is_empty() {
        prompt.text.push_str("<|channel|>analysis<|message|>");
        append_content(prompt, reasoning);
        if content.is_empty() {
            return Begin::Reasoning;
        }
        prompt.text.push_str("<|end|><|start|>assistant");
    }
    if content.is_empty() {
        return Begin::Turn;
    }
    prompt.text.push_str("<|channel|>final<|message|>");
    append_content(prompt, content);
    Begin::Text
}

/// Appends text that the client wrote.
fn append_content(prompt: &mut Prompt, text: &str) {
    let start = prompt.text.len();
    prompt.text.push_str(text);
    if !text.is_empty() {
        prompt.content.push(start..prompt.text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Thinking;
    use serde_json::json;

    const MARKS: Thinking = Thinking { open: "<think>", close: "</think>", channel: false };
    const STYLE: Style = Style { calls: CallStyle::Hermes, thinking: Some(MARKS) };

    const HARMONY: Style = Style { calls: CallStyle::Harmony, thinking: None };

    fn appended(text: &str, message: Option<&Value>, style: Style, reason: bool) -> (String, Begin) {
        let mut prompt = Prompt { text: text.to_owned(), content: Vec::new() };
        let begin = append_continued(&mut prompt, message, style, reason);
        (prompt.text, begin)
    }

    #[test]
    fn texts_of_the_client_are_content() {
        let both = json!({ "content": "<|im_end|>", "reasoning_content": "</think>" });
        let mut prompt = Prompt { text: "a:".to_owned(), content: Vec::new() };
        append_continued(&mut prompt, Some(&both), STYLE, true);
        let quoted = prompt.content.iter().map(|range| &prompt.text[range.clone()]);
        assert_eq!(quoted.collect::<Vec<_>>(), ["</think>", "<|im_end|>"]);
        let mut prompt = Prompt { text: "a:".to_owned(), content: Vec::new() };
        append_continued(&mut prompt, Some(&both), HARMONY, true);
        let quoted = prompt.content.iter().map(|range| &prompt.text[range.clone()]);
        assert_eq!(quoted.collect::<Vec<_>>(), ["</think>", "<|im_end|>"]);
    }

    #[test]
    fn a_message_is_continued_where_it_ends() {
        let content = json!({ "content": "Yes, " });
        let reasoning = json!({ "content": "", "reasoning_content": "hm" });
        let both = json!({ "content": "Yes", "reasoning_content": "hm" });
        let (open, plain) = ("a:<think>\n", "a:");
        let empty = json!({ "content": "" });
        for (text, message, end, begin) in [
            (plain, None, "a:", Begin::Turn),
            (plain, Some(&empty), "a:", Begin::Turn),
            (open, None, "a:<think>\n", Begin::Reasoning),
            (open, Some(&empty), "a:<think>\n", Begin::Reasoning),
            (plain, Some(&content), "a:Yes, ", Begin::Text),
            (open, Some(&content), "a:<think>\n</think>\n\nYes, ", Begin::Text),
            (plain, Some(&reasoning), "a:<think>\nhm", Begin::Reasoning),
            (open, Some(&reasoning), "a:<think>\nhm", Begin::Reasoning),
            (plain, Some(&both), "a:<think>\nhm\n</think>\n\nYes", Begin::Text),
        ] {
            assert_eq!(appended(text, message, STYLE, true), (end.to_owned(), begin));
        }
        assert_eq!(appended(open, None, STYLE, false), ("a:<think>\n</think>".to_owned(), Begin::Turn));
        assert_eq!(appended(plain, None, STYLE, false), ("a:".to_owned(), Begin::Turn));
        // as llama.cpp continues messages of Gemma 4
        let gemma = Style::of_template("<|tool_call><channel|>");
        let thought = "a:<|channel>thought\nhm";
        assert_eq!(appended(plain, Some(&reasoning), gemma, true), (thought.to_owned(), Begin::Reasoning));
        let both_parts = format!("{thought}<channel|>Yes");
        assert_eq!(appended(plain, Some(&both), gemma, true), (both_parts, Begin::Text));
        let analysis = "a:<|channel|>analysis<|message|>hm";
        let last = format!("{analysis}<|end|><|start|>assistant<|channel|>final<|message|>Yes");
        for (message, end, begin) in [
            (None, "a:", Begin::Turn),
            (Some(&empty), "a:", Begin::Turn),
            (Some(&content), "a:<|channel|>final<|message|>Yes, ", Begin::Text),
            (Some(&reasoning), analysis, Begin::Reasoning),
            (Some(&both), &last, Begin::Text),
        ] {
            assert_eq!(appended(plain, message, HARMONY, true), (end.to_owned(), begin));
        }
    }

    #[test]
    fn only_a_last_message_of_the_assistant_is_continued() {
        let (user, own) = (json!({ "role": "user" }), json!({ "role": "assistant", "content": "a" }));
        let calls = json!({ "role": "assistant", "tool_calls": [1] });
        let list = |messages: &[&Value]| messages.iter().map(|&message| message.clone()).collect::<Vec<_>>();
        let asked = list(&[&user, &own]);
        let whole = |rendered| Ok(SplitMessages { rendered, continued: None });
        let split = SplitMessages { rendered: &asked[..1], continued: Some(&own) };
        assert_eq!(Continuation::Auto.split(&asked), Ok(split));
        assert_eq!(Continuation::NewMessage.split(&asked), whole(&asked));
        assert_eq!(Continuation::Closed.split(&asked), whole(&asked));
        let called = list(&[&user, &calls]);
        assert_eq!(Continuation::Auto.split(&called), whole(&called));
        assert_eq!(Continuation::LastMessage.split(&called), Err(ContinuationError::NoMessage));
        let twice = list(&[&user, &own, &own]);
        assert_eq!(Continuation::Auto.split(&twice), Err(ContinuationError::TwoMessages));
    }
}
