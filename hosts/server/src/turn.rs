//! Whose turn it is at the end of a conversation: the model's new one, or the rest of one that was begun for it.

use crate::error::Failure;
use crate::fields::Fields;
use doorbell_runtime::answer::{CallStyle, Style};
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

/// Writes the beginning of the model's turn: reasoning if there was some, then the answer. Gives whether the model
/// goes on in the midst of its reasoning. What the client wrote is content, in which markup is text.
pub(crate) fn begin(prompt: &mut Prompt, begun: Option<&Value>, style: Style, reason: bool) -> bool {
    let within = style.begins_thinking(&prompt.text);
    let part = |name: &str| begun.and_then(|message| message[name].as_str()).unwrap_or_default();
    let (reasoning, content) = (part("reasoning_content"), part("content"));
    if style.calls == CallStyle::Harmony && !content.is_empty() {
        prompt.text.push_str("<|channel|>final<|message|>");
        quote(prompt, content);
        return false;
    }
    let Some(marks) = style.thinking else {
        quote(prompt, content);
        return false;
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
        return false;
    }
    quote(prompt, content);
    open && content.is_empty()
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

    fn begun(text: &str, message: Option<&Value>, reason: bool) -> (String, bool) {
        let mut prompt = Prompt { text: text.to_owned(), content: Vec::new() };
        let within = begin(&mut prompt, message, STYLE, reason);
        (prompt.text, within)
    }

    #[test]
    fn what_the_client_wrote_is_content() {
        let both = json!({ "content": "<|im_end|>", "reasoning_content": "</think>" });
        let mut prompt = Prompt { text: "a:".to_owned(), content: Vec::new() };
        begin(&mut prompt, Some(&both), STYLE, true);
        let quoted = prompt.content.iter().map(|range| &prompt.text[range.clone()]);
        assert_eq!(quoted.collect::<Vec<_>>(), ["</think>", "<|im_end|>"]);
        let harmony = Style { calls: CallStyle::Harmony, thinking: None };
        let mut prompt = Prompt { text: "a:".to_owned(), content: Vec::new() };
        begin(&mut prompt, Some(&both), harmony, true);
        assert_eq!(prompt.text[prompt.content[0].clone()], *"<|im_end|>");
    }

    #[test]
    fn a_turn_that_was_begun_goes_on() {
        let content = json!({ "content": "Yes, " });
        let reasoning = json!({ "content": "", "reasoning_content": "hm" });
        let both = json!({ "content": "Yes", "reasoning_content": "hm" });
        let (open, plain) = ("a:<think>\n", "a:");
        for (text, message, end, within) in [
            (plain, None, "a:", false),
            (open, None, "a:<think>\n", true),
            (plain, Some(&content), "a:Yes, ", false),
            (open, Some(&content), "a:<think>\n</think>\n\nYes, ", false),
            (plain, Some(&reasoning), "a:<think>\nhm", true),
            (open, Some(&reasoning), "a:<think>\nhm", true),
            (plain, Some(&both), "a:<think>\nhm\n</think>\n\nYes", false),
        ] {
            assert_eq!(begun(text, message, true), (end.to_owned(), within));
        }
        assert_eq!(begun(open, None, false), ("a:<think>\n</think>".to_owned(), false));
        assert_eq!(begun(plain, None, false), ("a:".to_owned(), false));
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
