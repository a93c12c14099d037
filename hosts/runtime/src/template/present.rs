//! Checks that a template prints every text of a conversation: a word of its own is appended to each text, and the words
//! that are missing in the rendering show what is lost.

use alloc::collections::BTreeSet;
use serde_json::Value as Json;

/// A conversation with a word appended to each text.
pub(super) struct Marked {
    pub(super) messages: Vec<Json>,
    /// The words, with the index of the message that holds each.
    words: Vec<(usize, String)>,
}

impl Marked {
    pub(super) fn new(messages: &[Json]) -> Self {
        let stem = unused(messages);
        let mut marked = Self { messages: messages.to_vec(), words: Vec::new() };
        for (index, message) in marked.messages.iter_mut().enumerate() {
            let content = message.get_mut("content");
            for text in content.map(texts).unwrap_or_default() {
                if !text.trim().is_empty() {
                    let word = format!("{stem}{}q", marked.words.len());
                    // white space at the end stays there, since templates trim
                    text.insert_str(text.trim_end().len(), &word);
                    marked.words.push((index, word));
                }
            }
        }
        marked
    }

    /// The index of the first message with a text that is not in `rendering`, the rendering of the marked messages.
    pub(super) fn lost(&self, rendering: &str) -> Option<usize> {
        self.words.iter().find(|(_, word)| !rendering.contains(word)).map(|&(index, _)| index)
    }
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
        let marked = Marked::new(&messages);
        let all: String = marked.messages.iter().map(Json::to_string).collect();
        assert_eq!(marked.lost(&all), None);
        assert_eq!(marked.lost(&marked.messages[0].to_string()), Some(3));
        assert_eq!(marked.lost(&marked.messages[3].to_string()), Some(0));
        assert_eq!(marked.lost(""), Some(0));
        assert_eq!(unused(&messages), "xq0z");
        assert_eq!(unused(&[json!("xq0z xqxq1z xq18446744073709551616z xq3")]), "xq2z");
    }
}
