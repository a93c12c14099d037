//! The messages of a chat: a system message, if there is one, and turns of a question and its answer.

use serde_json::{Map, Value, json};

/// A conversation. Its last question may be without an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conversation {
    system: Option<String>,
    turns: Vec<Turn>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Turn {
    question: String,
    answer: Option<String>,
}

impl Conversation {
    /// A conversation without turns.
    pub(crate) fn new(system: Option<&str>) -> Self {
        Self { system: system.map(str::to_owned), turns: Vec::new() }
    }

    pub(crate) fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// Replaces the system message; an empty text removes it.
    pub(crate) fn set_system(&mut self, text: &str) {
        self.system = Some(text.to_owned()).filter(|text| !text.is_empty());
    }

    /// Removes all turns.
    pub(crate) fn clear(&mut self) {
        self.turns.clear();
    }

    /// Number of turns.
    pub(crate) fn turns(&self) -> usize {
        self.turns.len()
    }

    pub(crate) fn ask(&mut self, question: String) {
        self.turns.push(Turn { question, answer: None });
    }

    /// Sets the answer to the last question.
    pub(crate) fn answer(&mut self, answer: String) {
        if let Some(turn) = self.turns.last_mut() {
            turn.answer = Some(answer);
        }
    }

    pub(crate) fn last_question(&self) -> Option<&str> {
        self.turns.last().map(|turn| turn.question.as_str())
    }

    /// Removes the last turn and returns its question.
    pub(crate) fn undo(&mut self) -> Option<String> {
        self.turns.pop().map(|turn| turn.question)
    }

    /// Removes the oldest turn, unless it is the last one.
    pub(crate) fn drop_oldest(&mut self) -> bool {
        let more = self.turns.len() > 1;
        if more {
            self.turns.remove(0);
        }
        more
    }

    /// The messages, as in the `OpenAI` API.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let message = |role: &str, content: &str| json!({ "role": role, "content": content });
        let mut messages: Vec<Value> = self.system.iter().map(|text| message("system", text)).collect();
        for Turn { question, answer } in &self.turns {
            messages.push(message("user", question));
            messages.extend(answer.iter().map(|text| message("assistant", text)));
        }
        messages
    }

    /// Reads messages of a system, a user and an assistant, in turns. Messages of the assistant before a question, and
    /// all but texts, are an error, which names the message by its number.
    pub(crate) fn from_messages(messages: &[Value]) -> Result<Self, String> {
        let mut read = Self::default();
        for (number, message) in messages.iter().enumerate() {
            let field = |name| message.get(name).and_then(Value::as_str);
            let text = field("content").ok_or_else(|| format!("message {number} has no text as content"))?;
            match field("role") {
                Some("system") if number == 0 => read.set_system(text),
                Some("user") => read.ask(text.to_owned()),
                Some("assistant") if read.turns.last().is_some_and(|turn| turn.answer.is_none()) => {
                    read.answer(text.to_owned());
                }
                _ => return Err(format!("message {number} is neither a question nor the answer to one")),
            }
        }
        Ok(read)
    }

    /// The document of `/save`.
    pub(crate) fn to_document(&self) -> Value {
        json!({ "messages": self.messages() })
    }

    /// Reads the document of `/save`, or a bare list of messages.
    pub(crate) fn from_document(text: &str) -> Result<Self, String> {
        let document: Value =
            serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let list =
            document.as_object().and_then(|object: &Map<_, _>| object.get("messages")).unwrap_or(&document);
        Self::from_messages(list.as_array().ok_or("it has no list of messages")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Conversation {
        let mut sample = Conversation::new(Some("Be brief."));
        sample.ask("One?".into());
        sample.answer("1".into());
        sample.ask("Two?".into());
        sample
    }

    #[test]
    fn whole_turns_leave_and_the_system_message_stays() {
        let mut conversation = sample();
        assert!(conversation.drop_oldest());
        let expected = [
            json!({ "role": "system", "content": "Be brief." }),
            json!({ "role": "user", "content": "Two?" }),
        ];
        assert_eq!(conversation.messages(), expected);
        assert!(!conversation.drop_oldest(), "the question that is asked stays");
        assert_eq!(conversation.undo().as_deref(), Some("Two?"));
        assert_eq!((conversation.turns(), conversation.undo()), (0, None));
    }

    #[test]
    fn a_saved_conversation_is_read_again() {
        let text = sample().to_document().to_string();
        assert_eq!(Conversation::from_document(&text).unwrap(), sample());
        assert_eq!(Conversation::from_document("[]").unwrap(), Conversation::default());
        for (wrong, reason) in [
            ("{", "not JSON"),
            ("{}", "no list"),
            (r#"[{"role":"assistant","content":"a"}]"#, "message 0"),
            (r#"[{"role":"user","content":"a"},{"role":"user"}]"#, "message 1"),
            (r#"[{"role":"user","content":"a"},{"role":"system","content":"b"}]"#, "message 1"),
        ] {
            let error = Conversation::from_document(wrong).unwrap_err();
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }
}
