//! Whose turn it is at the end of a conversation: the model's new one, or the rest of one that was begun for it.

use crate::error::Failure;
use crate::fields::Fields;
use doorbell_runtime::answer::{Begin, CallStyle, Style};
use doorbell_runtime::template::Prompt;
use serde_json::Value;

/// How the prompt of a conversation ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Turn {
    /// With a last message of the assistant, if there is one, which the model continues; else with a new turn.
    #[default]
    Auto,
    /// With the last message of the assistant, which the model continues.
    Continue,
    /// With a new turn of the model, whoever spoke last.
    New,
    /// With the last message.
    Closed,
}

impl Turn {
    /// What `add_generation_prompt` and `continue_final_message` say, as vLLM and transformers have them.
    pub(crate) fn of(fields: &Fields<'_>) -> Result<Self, Failure> {
        let new = fields.flag("add_generation_prompt")?;
        match (new, fields.flag("continue_final_message")?) {
            (Some(true), Some(true)) => Err(fields.wrong(
                "continue_final_message",
                "can't be true beside add_generation_prompt, which begins a new message",
            )),
            (_, Some(true)) => Ok(Self::Continue),
            (Some(false), _) => Ok(Self::Closed),
            (_, Some(false)) => Ok(Self::New),
            (_, None) => Ok(Self::Auto),
        }
    }

    /// Parts a conversation into what is rendered and the message that is continued.
    pub(crate) fn part(self, messages: &[Value]) -> Result<(&[Value], Option<&Value>), Failure> {
        let own = |message: &Value| message["role"] == "assistant" && message.get("tool_calls").is_none();
        let begun = messages.split_last().filter(|(last, _)| own(last));
        match (self, begun) {
            (Self::Auto | Self::Continue, Some((last, before))) => {
                if before.last().is_some_and(|message| message["role"] == "assistant") {
                    return Err(Failure::field("messages", "must not end with two of the assistant"));
                }
                Ok((before, Some(last)))
            }
            (Self::Continue, None) => {
                Err(Failure::field("messages", "must end with one of the assistant that can be continued"))
            }
            _ => Ok((messages, None)),
        }
    }
}

/// Writes the beginning of the model's turn: reasoning if there was some, then the answer. Gives where the model goes
/// on. What the client wrote is content, in which markup is text.
pub(crate) fn begin(prompt: &mut Prompt, begun: Option<&Value>, style: Style, reason: bool) -> Begin {
    let within = style.begins_thinking(&prompt.text);
    let part = |name: &str| begun.and_then(|message| message[name].as_str()).unwrap_or_default();
    let (reasoning, content) = (part("reasoning_content"), part("content"));
    let behind = if content.is_empty() { Begin::Turn } else { Begin::Text };
    if style.calls == CallStyle::Harmony {
        return begin_channel(prompt, reasoning, content);
    }
    let Some(marks) = style.thinking else {
        quote(prompt, content);
        return behind;
    };
    if !reasoning.is_empty() {
        if !within {
            prompt.text.push_str(marks.open);
            prompt.text.push('\n');
        }
        quote(prompt, reasoning);
    }
    let open = within || !reasoning.is_empty();
    if open && !content.is_empty() {
        prompt.text.push_str(if reasoning.is_empty() { "" } else { "\n" });
        prompt.text.push_str(marks.close);
        prompt.text.push_str("\n\n");
    } else if open && !reason {
        // a template that begins to reason whether that is wanted or not
        prompt.text.push_str(marks.close);
        return Begin::Turn;
    }
    quote(prompt, content);
    if open && content.is_empty() { Begin::Reasoning } else { behind }
}

/// The beginning of a turn of gpt-oss.
fn begin_channel(prompt: &mut Prompt, reasoning: &str, content: &str) -> Begin {
    if !reasoning.is_empty() {
        prompt.text.push_str("<|channel|>analysis<|message|>");
        quote(prompt, reasoning);
        if content.is_empty() {
            return Begin::Reasoning;
        }
        prompt.text.push_str("<|end|><|start|>assistant");
    }
    if content.is_empty() {
        return Begin::Turn;
    }
    prompt.text.push_str("<|channel|>final<|message|>");
    quote(prompt, content);
    Begin::Text
}

/// Appends a text of the client.
fn quote(prompt: &mut Prompt, text: &str) {
    let start = prompt.text.len();
    prompt.text.push_str(text);
    if !text.is_empty() {
        prompt.content.push(start..prompt.text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_runtime::answer::Thinking;
    use serde_json::json;

    const MARKS: Thinking = Thinking { open: "<think>", close: "</think>" };
    const STYLE: Style = Style { calls: CallStyle::Hermes, thinking: Some(MARKS) };

    const HARMONY: Style = Style { calls: CallStyle::Harmony, thinking: None };

    fn begun(text: &str, message: Option<&Value>, style: Style, reason: bool) -> (String, Begin) {
        let mut prompt = Prompt { text: text.to_owned(), content: Vec::new() };
        let begin = begin(&mut prompt, message, style, reason);
        (prompt.text, begin)
    }

    #[test]
    fn what_the_client_wrote_is_content() {
        let both = json!({ "content": "<|im_end|>", "reasoning_content": "</think>" });
        let mut prompt = Prompt { text: "a:".to_owned(), content: Vec::new() };
        begin(&mut prompt, Some(&both), STYLE, true);
        let quoted = prompt.content.iter().map(|range| &prompt.text[range.clone()]);
        assert_eq!(quoted.collect::<Vec<_>>(), ["</think>", "<|im_end|>"]);
        let mut prompt = Prompt { text: "a:".to_owned(), content: Vec::new() };
        begin(&mut prompt, Some(&both), HARMONY, true);
        let quoted = prompt.content.iter().map(|range| &prompt.text[range.clone()]);
        assert_eq!(quoted.collect::<Vec<_>>(), ["</think>", "<|im_end|>"]);
    }

    #[test]
    fn a_turn_that_was_begun_goes_on() {
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
            assert_eq!(begun(text, message, STYLE, true), (end.to_owned(), begin));
        }
        assert_eq!(begun(open, None, STYLE, false), ("a:<think>\n</think>".to_owned(), Begin::Turn));
        assert_eq!(begun(plain, None, STYLE, false), ("a:".to_owned(), Begin::Turn));
        let analysis = "a:<|channel|>analysis<|message|>hm";
        let last = format!("{analysis}<|end|><|start|>assistant<|channel|>final<|message|>Yes");
        for (message, end, begin) in [
            (None, "a:", Begin::Turn),
            (Some(&empty), "a:", Begin::Turn),
            (Some(&content), "a:<|channel|>final<|message|>Yes, ", Begin::Text),
            (Some(&reasoning), analysis, Begin::Reasoning),
            (Some(&both), &last, Begin::Text),
        ] {
            assert_eq!(begun(plain, message, HARMONY, true), (end.to_owned(), begin));
        }
    }

    #[test]
    fn only_a_last_message_of_the_assistant_is_continued() {
        let (user, own) = (json!({ "role": "user" }), json!({ "role": "assistant", "content": "a" }));
        let calls = json!({ "role": "assistant", "tool_calls": [1] });
        let list = |messages: &[&Value]| messages.iter().map(|&message| message.clone()).collect::<Vec<_>>();
        let asked = list(&[&user, &own]);
        assert_eq!(Turn::Auto.part(&asked).unwrap(), (&asked[..1], Some(&own)));
        assert_eq!(Turn::New.part(&asked).unwrap(), (&asked[..], None));
        assert_eq!(Turn::Closed.part(&asked).unwrap(), (&asked[..], None));
        let called = list(&[&user, &calls]);
        assert_eq!(Turn::Auto.part(&called).unwrap(), (&called[..], None));
        assert!(Turn::Continue.part(&called).is_err());
        assert!(Turn::Auto.part(&list(&[&user, &own, &own])).is_err());
    }
}
