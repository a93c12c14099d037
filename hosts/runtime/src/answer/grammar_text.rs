//! Texts and marks in the grammars of answers.

use crate::constrain::spaced;
use doorbell_core::token::{Kind, Tokenizer};
use serde_json::Value;

/// A text as a grammar literal.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A mark in a grammar: the control token with that text if there is one, otherwise the text.
pub(super) fn mark(tokenizer: &Tokenizer<'_>, text: &str) -> String {
    match tokenizer.find(text.as_bytes()).filter(|&token| tokenizer.kind(token) == Kind::Control) {
        Some(token) => format!("<[{}]>", token.0),
        None => quoted(text),
    }
}

/// A regular expression that matches a quoted text.
pub(super) fn pattern_of(quoted: &str) -> String {
    let text = quoted.trim_matches('"').replace("\\n", "\n");
    let mut pattern = String::new();
    for c in text.chars() {
        match c {
            '\n' => pattern.push_str("\\n"),
            c if c.is_ascii_punctuation() && !matches!(c, '<' | '>' | '_') => pattern.extend(['\\', c]),
            c => pattern.push(c),
        }
    }
    pattern
}

/// The part of a rule after its name that matches any text up to and including a quoted one.
pub(super) fn lazy_until(quoted: &str) -> String {
    format!("[lazy]: /(.|\\n)*{}/\n", pattern_of(quoted))
}

/// A rule for JSON that a schema accepts.
pub(super) fn json_rule(rule: &str, schema: &Value) -> String {
    format!("{rule}: %json {}\n", spaced(schema))
}
