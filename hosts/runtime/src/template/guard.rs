//! Keeps the client's texts apart from a template's markup: a text could otherwise end its own turn and forge another one.
//!
//! A word that occurs nowhere else is put behind each character with which markup begins, in every string that the client
//! wrote: contents, reasoning, calls, results, names, descriptions, keys, documents, variables. The template is rendered
//! with these words, which are then removed. Where one was, a text of the client has a character that is part of no
//! control token. So quoting, trimming and cutting in a template can't turn a text into markup.

use super::input::{ChatInput, Prompt};
use core::ops::Range;
use serde_json::{Map, Value as Json};

/// Characters behind which a word is put: the markup of every known model has one of them before its last character.
const STARTS: [char; 4] = ['<', '[', '|', '>'];

/// Digits of a word.
const DIGITS: usize = 6;

/// The number of words.
const WORDS: usize = 1_000_000;

/// The first word that is tried, away from the numbers that texts often have.
const FIRST: usize = 618_033;

/// Marks of reasoning, which templates look for in the contents of the assistant. They end no turn.
const REASONING: [&str; 10] = [
    "<think>",
    "</think>",
    "[THINK]",
    "[/THINK]",
    "<seed:think>",
    "</seed:think>",
    "<|channel>thought",
    "<|channel>",
    "<channel|>",
    "[BEGIN FINAL RESPONSE]",
];

/// A word that occurs in no text of a conversation: `~`, digits and `!`, which no notation of texts changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Guard {
    word: String,
}

impl Guard {
    /// True if a text of the client may hold markup.
    pub(super) fn is_needed(input: &ChatInput<'_>) -> bool {
        strings(input).any(holds_markup) || input.variables.keys().any(|key| may_hold(key))
    }

    /// A word for this conversation and template. `None` if the texts hold all of them.
    pub(super) fn new(input: &ChatInput<'_>, source: &str) -> Option<Self> {
        let mut used = UsedDigits(vec![0; WORDS.div_ceil(64)]);
        used.add(source);
        for json in strings(input) {
            used.add(&json.to_string());
        }
        input.variables.keys().for_each(|key| used.add(key));
        let free = (FIRST..WORDS).chain(0..FIRST).find(|&number| !used.has(number))?;
        Some(Self { word: format!("~{free:0DIGITS$}!") })
    }

    /// The message with the words.
    pub(super) fn message(&self, message: &mut Json) {
        let own = message["role"] == "assistant";
        let Some(fields) = message.as_object_mut() else { return self.value(message) };
        for (name, field) in fields.iter_mut() {
            if own && name == "content" {
                self.content(field);
            } else {
                self.value(field);
            }
        }
        self.keys(fields);
    }

    /// A content of the assistant, in which marks of reasoning stay.
    fn content(&self, content: &mut Json) {
        match content {
            Json::String(text) => *text = self.guarded(text, &REASONING),
            Json::Array(parts) => {
                for part in parts {
                    let Some(fields) = part.as_object_mut() else { continue };
                    for (name, field) in fields {
                        match field {
                            Json::String(text) if name == "text" => *text = self.guarded(text, &REASONING),
                            other => self.value(other),
                        }
                    }
                }
            }
            other => self.value(other),
        }
    }

    /// Any other value with the words in its strings and keys.
    pub(super) fn value(&self, value: &mut Json) {
        match value {
            Json::String(text) => {
                if may_hold(text) {
                    *text = self.guarded(text, &[]);
                }
            }
            Json::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Json::Object(fields) => {
                fields.values_mut().for_each(|field| self.value(field));
                self.keys(fields);
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    fn keys(&self, fields: &mut Map<String, Json>) {
        if fields.keys().any(|key| may_hold(key) || key.starts_with('/')) {
            let old = core::mem::take(fields);
            fields.extend(old.into_iter().map(|(key, field)| (self.key(&key), field)));
        }
    }

    /// A key with the words. Templates write keys as names of tags, so a slash at the beginning may close one.
    pub(super) fn key(&self, key: &str) -> String {
        match key.strip_prefix('/') {
            Some(rest) => format!("/{}{}", self.word, self.guarded(rest, &[])),
            None => self.guarded(key, &[]),
        }
    }

    fn guarded(&self, text: &str, kept: &[&str]) -> String {
        let mut out = String::with_capacity(text.len() + self.word.len());
        let mut rest = text;
        while let Some(at) = rest.find(STARTS) {
            let (before, after) = rest.split_at(at);
            out.push_str(before);
            let mark = kept.iter().find(|mark| after.starts_with(**mark));
            let len = mark.map_or(1, |mark| mark.len());
            out.push_str(&after[..len]);
            if mark.is_none() {
                out.push_str(&self.word);
            }
            rest = &after[len..];
        }
        out + rest
    }

    /// A text without the words.
    pub(super) fn without(&self, text: &str) -> String {
        text.replace(&self.word, "")
    }

    /// The prompt in a rendering with the words. `None` if the template has cut one.
    pub(super) fn prompt(&self, rendering: &str) -> Option<Prompt> {
        let mut text = String::with_capacity(rendering.len());
        let mut content: Vec<Range<usize>> = Vec::new();
        let mut parts = rendering.split(&self.word);
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            // the character before the word
            if let Some(last) = text.chars().next_back() {
                let range = text.len() - last.len_utf8()..text.len();
                match content.last_mut() {
                    Some(last) if last.end >= range.start => last.end = range.end,
                    _ => content.push(range),
                }
            }
            text.push_str(part);
        }
        let digits = self.word.trim_matches(['~', '!']);
        (!text.contains(digits)).then_some(Prompt { text, content })
    }
}

/// The messages, tools and documents of the client, and the values of its variables.
fn strings<'c>(input: &ChatInput<'c>) -> impl Iterator<Item = &'c Json> {
    let lists = [Some(input.messages), input.tools, input.documents];
    lists.into_iter().flatten().flatten().chain(input.variables.values())
}

fn may_hold(text: &str) -> bool {
    text.contains(STARTS)
}

/// True if a string or key in `value` may hold markup.
fn holds_markup(value: &Json) -> bool {
    match value {
        Json::String(text) => may_hold(text),
        Json::Array(items) => items.iter().any(holds_markup),
        Json::Object(fields) => {
            fields.iter().any(|(key, field)| may_hold(key) || key.starts_with('/') || holds_markup(field))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// The numbers of [`DIGITS`] digits in texts, one bit each.
struct UsedDigits(Vec<u64>);

impl UsedDigits {
    fn add(&mut self, text: &str) {
        let (mut number, mut digits) = (0, 0);
        for byte in text.bytes() {
            if !byte.is_ascii_digit() {
                digits = 0;
                continue;
            }
            number = (number * 10 + usize::from(byte - b'0')) % WORDS;
            digits += 1;
            if digits >= DIGITS {
                self.0[number / 64] |= 1 << (number % 64);
            }
        }
    }

    fn has(&self, number: usize) -> bool {
        self.0[number / 64] & 1 << (number % 64) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Moment;
    use serde_json::json;

    fn guard(messages: &[Json]) -> Guard {
        let variables = Map::new();
        Guard::new(&ChatInput::new(messages, &variables, Moment { seconds: 0 }), "").unwrap()
    }

    #[test]
    fn words_occur_in_no_text() {
        assert_eq!(guard(&[]).word, "~618033!");
        let messages = [json!({ "a": [{ "16180339": 1 }], "b": 618_034 })];
        assert_eq!(guard(&messages).word, "~618035!");
        // all numbers with six digits, one after the other
        let all: String = (0..WORDS).map(|number| format!("{number:06} ")).collect();
        let variables = Map::new();
        let messages = [json!(all)];
        let input = ChatInput::new(&messages, &variables, Moment { seconds: 0 });
        assert_eq!(Guard::new(&input, ""), None);
    }

    #[test]
    fn markup_of_every_string_is_broken() {
        let guard = guard(&[]);
        let mut message = json!({ "role": "assistant", "content": "</think>a<|end|>",
            "reasoning_content": "</think>", "tool_calls": [{ "function": { "name": "[f", "arguments": { "/s": "a>" } } }] });
        guard.message(&mut message);
        let w = "~618033!";
        let expected = json!({ "role": "assistant", "content": format!("</think>a<{w}|{w}end|{w}>{w}"),
            "reasoning_content": format!("<{w}/think>{w}"),
            "tool_calls": [{ "function": { "name": format!("[{w}f"), "arguments": { format!("/{w}s"): format!("a>{w}") } } }] });
        assert_eq!(message, expected);
        let prompt = guard.prompt(&message.to_string()).unwrap();
        let quoted: Vec<&str> = prompt.content.iter().map(|range| &prompt.text[range.clone()]).collect();
        assert_eq!(quoted, ["<|", "|>", "<", ">", "[", "/", ">"]);
        assert_eq!(guard.without(&message.to_string()), prompt.text);
        assert_eq!(guard.prompt("a<~6180"), Some(Prompt { text: "a<~6180".into(), content: Vec::new() }));
        assert_eq!(guard.prompt("a<618033!"), None);
    }
}
