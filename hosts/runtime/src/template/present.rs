//! Checks that a template prints every text of a conversation: each text gets a word of its own, and the words that are
//! missing in the rendering show what is lost.

use alloc::collections::BTreeSet;
use serde_json::Value as Json;

/// The end of a text that gets the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextEnd {
    First,
    Last,
}

/// A conversation with a word at one end of each text.
pub(super) struct Marked {
    pub(super) messages: Vec<Json>,
    words: Vec<Word>,
}

struct Word {
    /// Index of the message.
    index: usize,
    /// True if the word is in the name of a call.
    call: bool,
    text: String,
}

impl Marked {
    pub(super) fn new(messages: &[Json], end: TextEnd) -> Self {
        let stem = unused(messages);
        let mut marked = Self { messages: messages.to_vec(), words: Vec::new() };
        for (index, message) in marked.messages.iter_mut().enumerate() {
            for call in message.get_mut("tool_calls").and_then(Json::as_array_mut).into_iter().flatten() {
                if let Some(Json::String(name)) = call.pointer_mut("/function/name") {
                    let text = format!("{stem}{}q", marked.words.len());
                    name.push_str(&text);
                    marked.words.push(Word { index, call: true, text });
                }
            }
            let content = message.get_mut("content");
            for text in content.map(texts).unwrap_or_default() {
                if !text.trim().is_empty() {
                    let word = format!("{stem}{}q", marked.words.len());
                    // white space at the ends stays there, since templates trim
                    let at = match end {
                        TextEnd::First => text.len() - text.trim_start().len(),
                        TextEnd::Last => text.trim_end().len(),
                    };
                    text.insert_str(at, &word);
                    marked.words.push(Word { index, call: false, text: word });
                }
            }
        }
        marked
    }

    /// The index of the first required message with a text, or of any message with a call, that is not in `rendering`,
    /// the rendering of the marked messages.
    pub(super) fn lost(&self, rendering: &str, required: impl Fn(&usize) -> bool) -> Option<usize> {
        let needed = |word: &&Word| word.call || required(&word.index);
        let lost = self.words.iter().filter(needed).find(|word| !rendering.contains(&word.text));
        lost.map(|word| word.index)
    }
}

/// The index of the first required message with a text that is not in `prompt` behind those before it, as it is or in
/// JSON. This is for templates that refuse texts with words in them.
pub(super) fn missing(messages: &[Json], prompt: &str, required: impl Fn(&usize) -> bool) -> Option<usize> {
    let mut rest = prompt;
    for (index, message) in messages.iter().enumerate() {
        let mut content = message.get("content").cloned().unwrap_or_default();
        for text in texts(&mut content) {
            let text = text.trim();
            let quoted = Json::from(text).to_string();
            let forms = [text, &quoted[1..quoted.len() - 1]];
            let found = forms.iter().filter_map(|text| Some(rest.find(*text)? + text.len())).min();
            match found {
                Some(end) => rest = &rest[end..],
                None if required(&index) => return Some(index),
                None => {}
            }
        }
    }
    None
}

/// The text of a content, or the texts of its parts.
fn texts(content: &mut Json) -> Vec<&mut String> {
    match content {
        Json::String(text) => vec![text],
        Json::Array(parts) => {
            let mut all = Vec::new();
            for part in parts {
                if let Some(Json::String(text)) = part.get_mut("text") {
                    all.push(text);
                }
            }
            all
        }
        _ => Vec::new(),
    }
}

/// A beginning of words that is in no message: `xq`, a number and `z`.
fn unused(messages: &[Json]) -> String {
    let all = Json::from(messages).to_string();
    let used = all.split("xq").skip(1).filter_map(|rest| rest.split_once('z')?.0.parse().ok());
    let used: BTreeSet<u64> = used.collect();
    let number = (0..).find(|number| !used.contains(number)).unwrap_or_default();
    format!("xq{number}z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lost_texts_are_found() {
        let messages = [
            json!({ "role": "system", "content": "same" }),
            json!({ "role": "assistant", "content": null }),
            json!({ "role": "assistant", "content": " " }),
            json!({ "role": "user", "content": [{ "type": "text", "text": "same \n" }, { "type": "image" }] }),
        ];
        let any = |_: &usize| true;
        for end in [TextEnd::First, TextEnd::Last] {
            let marked = Marked::new(&messages, end);
            let all: String = marked.messages.iter().map(Json::to_string).collect();
            assert_eq!(marked.lost(&all, any), None);
            assert_eq!(marked.lost(&marked.messages[0].to_string(), any), Some(3));
            assert_eq!(marked.lost(&marked.messages[3].to_string(), any), Some(0));
            assert_eq!(marked.lost("", any), Some(0));
            assert_eq!(marked.lost("", |&index| index == 3), Some(3));
        }
        assert_eq!(unused(&messages), "xq0z");
        assert_eq!(unused(&[json!("xq0z xqxq1z xq18446744073709551616z xq3")]), "xq2z");
    }

    #[test]
    fn texts_are_searched_in_their_order() {
        let messages = [
            json!({ "role": "user", "content": " a\"\n " }),
            json!({ "role": "assistant", "content": "b" }),
            json!({ "role": "user", "content": "a\"" }),
        ];
        let user = |&index: &usize| index != 1;
        assert_eq!(missing(&messages, "<a\">b<a\">", user), None);
        assert_eq!(missing(&messages, r#""a\"", "a\"""#, user), None);
        assert_eq!(missing(&messages, "<a\">", user), Some(2));
        assert_eq!(missing(&messages, "<a>", user), Some(0));
        assert_eq!(missing(&messages, "<a\"><a\">", |_| true), Some(1));
    }
}
