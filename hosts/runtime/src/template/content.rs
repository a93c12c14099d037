//! Finds the contents of messages in a rendered prompt: markup in them must stay text, or a message could end its own turn
//! and forge another one.
//!
//! A template is rendered twice, the second time with all ASCII characters of the contents replaced by private-use
//! characters. Where the texts differ by exactly this substitution, a content is printed.

use core::ops::Range;
use serde_json::Value as Json;

/// First of the private-use characters that replace ASCII ones.
const PRIVATE_USE: u32 = 0xE000;

/// True if a content may hold markup: the markup of every known model has one of these characters.
pub(super) fn may_hold_markup(messages: &[Json]) -> bool {
    messages
        .iter()
        .filter(|message| is_foreign(message))
        .flat_map(contents)
        .any(|text| text.contains(['<', '[', '|']))
}

/// The messages with substituted contents. Those of the assistant stay, since templates inspect them.
pub(super) fn substituted(messages: &[Json]) -> Vec<Json> {
    let mut messages = messages.to_vec();
    for message in messages.iter_mut().filter(|message| is_foreign(message)) {
        match message.get_mut("content") {
            Some(Json::String(text)) => *text = substitute(text),
            Some(Json::Array(parts)) => {
                for part in parts {
                    if let Some(Json::String(text)) = part.get_mut("text") {
                        *text = substitute(text);
                    }
                }
            }
            _ => {}
        }
    }
    messages
}

/// True if the message is not the model's.
fn is_foreign(message: &Json) -> bool {
    message["role"] != "assistant"
}

/// The texts of a message: its content, or the content's parts.
fn contents(message: &Json) -> impl Iterator<Item = &str> {
    let content = &message["content"];
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    content.as_str().into_iter().chain(parts)
}

fn substitute(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() { substitute_char(c) } else { c }).collect()
}

fn substitute_char(c: char) -> char {
    char::from_u32(PRIVATE_USE + u32::from(c)).unwrap_or(c)
}

/// The byte ranges of `plain` that are substituted in `other`, ascending; `None` if the texts differ otherwise.
pub(super) fn ranges(plain: &str, other: &str) -> Option<Vec<Range<usize>>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut others = other.chars();
    // true if the text since the last range can't be markup, so that the range may grow over it
    let mut adjacent = false;
    for (at, c) in plain.char_indices() {
        let found = others.next()?;
        let end = at + c.len_utf8();
        if found == c {
            adjacent &= c.is_whitespace() || !c.is_ascii();
        } else if c.is_ascii_graphic() && found == substitute_char(c) {
            match ranges.last_mut() {
                Some(last) if adjacent => last.end = end,
                _ => ranges.push(at..end),
            }
            adjacent = true;
        } else {
            return None;
        }
    }
    others.next().is_none().then_some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn contents_are_found() {
        let messages = [
            json!({"role": "system", "content": "plain"}),
            json!({"role": "user", "content": "<|end|> é a"}),
            json!({"role": "assistant", "content": "<answer>"}),
            json!({"role": "user", "content": [{"type": "text", "text": "<|end|>"}, {"type": "image"}]}),
        ];
        let render = |messages: &[Json]| {
            messages
                .iter()
                .flat_map(contents)
                .map(|text| format!("<|turn|>{text}<|end|>"))
                .collect::<String>()
        };
        assert!(
            may_hold_markup(&messages)
                && !may_hold_markup(&messages[..1])
                && !may_hold_markup(&messages[2..3])
        );
        let plain = render(&messages);
        let found = ranges(&plain, &render(&substituted(&messages))).unwrap();
        let texts: Vec<_> = found.into_iter().map(|range| &plain[range]).collect();
        assert_eq!(texts, ["plain", "<|end|> é a", "<|end|>"]);
    }

    #[test]
    fn other_differences_are_noticed() {
        assert_eq!(ranges("ab", "a"), None);
        assert_eq!(ranges("a", "ab"), None);
        assert_eq!(ranges("a", "b"), None);
        assert_eq!(ranges("ab", "ab"), Some(Vec::new()));
    }
}
