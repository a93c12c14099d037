//! Tool calls of Gemma 4: `call:N{K:V,...}`, with marks of their own around texts and none around keys.
//!
//! A text ends at the next mark, since the notation has no escapes. Models also write JSON here: keys and texts in double
//! quotes, or a whole object of arguments between the braces.
//!
//! Not here: the grammar of such calls (`brace_grammar`).

use super::scan;
use super::strings::repaired;
use serde_json::{Map, Value};

/// The mark before a call.
pub(super) const OPEN: &str = "<|tool_call>";
/// The mark after a call.
pub(super) const CLOSE: &str = "<tool_call|>";
/// The mark before and after a text.
pub(super) const QUOTE: &str = "<|\"|>";
/// The text before a tool's name.
pub(super) const CALL: &str = "call:";

/// Limit of nested objects and lists.
const DEEPEST: u32 = 64;

/// Position of the closing mark in the text after an opening one; marks in texts do not count. `None` if it is not there
/// yet.
pub(super) fn end_of_call(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let (at, mark) = scan::first(&text[from..], &[QUOTE, CLOSE])?;
        if mark == CLOSE {
            return Some(from + at);
        }
        from += at + QUOTE.len();
        from += text[from..].find(QUOTE)? + QUOTE.len();
    }
}

/// The calls between an opening and a closing mark, names and JSON objects of arguments; `None` if the text is anything
/// else.
pub(super) fn calls(body: &str) -> Option<Vec<(String, String)>> {
    let mut reader = Reader { rest: body };
    let mut calls = Vec::new();
    while reader.take(CALL) {
        let (name, _) = reader.rest.split_once('{')?;
        reader.rest = &reader.rest[name.len()..];
        let name = name.trim();
        if name.is_empty() || name.contains(['<', '}', '\n']) {
            return None;
        }
        let arguments = Value::Object(reader.arguments()?).to_string();
        calls.push((name.to_owned(), arguments));
    }
    (!calls.is_empty() && reader.rest.trim().is_empty()).then_some(calls)
}

struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    /// Skips white space and `mark`; false if something else follows.
    fn take(&mut self, mark: &str) -> bool {
        let behind = self.rest.trim_start().strip_prefix(mark);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    /// The text up to `mark`, which is skipped.
    fn until(&mut self, mark: &str) -> Option<&'t str> {
        let (text, rest) = self.rest.split_once(mark)?;
        self.rest = rest;
        Some(text)
    }

    /// The text before the first of these characters, without the white space around it.
    fn before(&mut self, ends: &[char]) -> Option<&'t str> {
        let (text, rest) = self.rest.split_at(self.rest.find(ends)?);
        self.rest = rest;
        Some(text.trim()).filter(|text| !text.is_empty())
    }

    /// A text between marks or in double quotes; `None` if there is none or its end is missing.
    fn quoted(&mut self) -> Option<String> {
        if self.take(QUOTE) {
            return self.until(QUOTE).map(str::to_owned);
        }
        let text = self.rest.trim_start().strip_prefix('"')?;
        let mut escaped = false;
        let end = text.find(|character| {
            let end = character == '"' && !escaped;
            escaped = character == '\\' && !escaped;
            end
        })?;
        self.rest = &text[end + 1..];
        serde_json::from_str(&repaired(&format!("\"{}\"", &text[..end]))).ok()
    }

    fn is_quoted(&self) -> bool {
        let text = self.rest.trim_start();
        text.starts_with(QUOTE) || text.starts_with('"')
    }

    /// The object after a tool's name; there may be another one in its braces.
    fn arguments(&mut self) -> Option<Map<String, Value>> {
        let begin = self.rest;
        if self.take("{") && self.rest.trim_start().starts_with('{') {
            let object = self.object(0)?;
            return self.take("}").then_some(object);
        }
        self.rest = begin;
        self.object(0)
    }

    fn object(&mut self, depth: u32) -> Option<Map<String, Value>> {
        let mut members = Map::new();
        if !self.take("{") {
            return None;
        }
        while !self.take("}") {
            let key = if self.is_quoted() {
                self.quoted()?
            } else {
                self.before(&[':', '{', '}', '[', ']', ','])?.to_owned()
            };
            if !self.take(":") {
                return None;
            }
            members.insert(key, self.value(depth)?);
            if !self.take(",") && !self.rest.trim_start().starts_with('}') {
                return None;
            }
        }
        Some(members)
    }

    fn list(&mut self, depth: u32) -> Option<Vec<Value>> {
        let mut items = Vec::new();
        if !self.take("[") {
            return None;
        }
        while !self.take("]") {
            items.push(self.value(depth)?);
            if !self.take(",") && !self.rest.trim_start().starts_with(']') {
                return None;
            }
        }
        Some(items)
    }

    fn value(&mut self, depth: u32) -> Option<Value> {
        if self.is_quoted() {
            return self.quoted().map(Value::String);
        }
        if depth == DEEPEST {
            return None;
        }
        match self.rest.trim_start().chars().next()? {
            '{' => self.object(depth + 1).map(Value::Object),
            '[' => self.list(depth + 1).map(Value::Array),
            _ => self.before(&[',', '}', ']']).map(word),
        }
    }
}

/// The value of a text without marks: a number, a truth value, nothing, or the text. The template prints `None`.
fn word(text: &str) -> Value {
    match text {
        "true" | "True" => Value::from(true),
        "false" | "False" => Value::from(false),
        "null" | "None" => Value::Null,
        _ => serde_json::from_str(text).ok().map_or_else(|| Value::from(text), Value::Number),
    }
}
