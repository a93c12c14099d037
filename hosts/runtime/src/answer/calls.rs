//! Parsing of whole tool calls in the notation of each style.
//!
//! Not here: the marks around calls (`parser`), and arguments that are streamed (`arguments`).

use super::braces;
use super::strings::repaired;
use super::style::CallStyle;
use super::tags::{self, Tags};
use super::tools::Tools;
use serde_json::{Map, Value};

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    /// A JSON document.
    pub(super) arguments: String,
}

/// The calls in the text between the marks; `None` if it is not in the style's notation.
pub(super) fn parse(style: CallStyle, body: &str, tools: &Tools) -> Option<Vec<Call>> {
    match style {
        CallStyle::Hermes => json_calls(body),
        // models of this style also write JSON
        CallStyle::Functions => functions(body, tools).or_else(|| json_calls(body)),
        CallStyle::ArgumentPairs => pairs(body, tools).map(|call| vec![call]),
        CallStyle::Bare => bare(body, tools),
        CallStyle::Bracketed => bracketed(body),
        CallStyle::DeepSeek => deep_seek(body),
        CallStyle::Braces => {
            let calls = braces::calls(body)?.into_iter();
            Some(calls.map(|(name, arguments)| Call { name, arguments }).collect())
        }
        CallStyle::None | CallStyle::Harmony => None,
    }
}

/// True if the text after an opening mark, without its closing one, is incomplete. Incomplete JSON is detected when it is
/// parsed.
pub(super) fn cut_off(style: CallStyle, body: &str) -> bool {
    let body = body.trim_end();
    let ends = |marks: &[&str]| marks.iter().any(|mark| body.ends_with(mark));
    match style {
        CallStyle::Functions => {
            let json = ends(&["}"]) && !body.contains("<parameter=");
            !json && !ends(&["</parameter>", "</function>"])
        }
        CallStyle::ArgumentPairs => !ends(&["</arg_value>"]),
        _ => false,
    }
}

/// A text as a JSON document with repaired string literals; `None` if it is not JSON.
fn document(text: &str) -> Option<String> {
    let text = repaired(text);
    serde_json::from_str::<Value>(&text).is_ok().then_some(text)
}

/// A call of the form `{"name": N, "arguments": {...}}`, or with `parameters` for `arguments`.
fn json_call(value: &Value) -> Option<Call> {
    let name = value.get("name")?.as_str()?.to_owned();
    let arguments = match value.get("arguments").or_else(|| value.get("parameters")) {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) => document(text).unwrap_or_else(|| Value::from(text.as_str()).to_string()),
        Some(value) => value.to_string(),
    };
    Some(Call { name, arguments })
}

/// One or more JSON documents in sequence: calls, or lists of calls.
fn json_calls(body: &str) -> Option<Vec<Call>> {
    let mut calls = Vec::new();
    for value in serde_json::Deserializer::from_str(&repaired(body.trim())).into_iter::<Value>() {
        match value.ok()? {
            Value::Array(values) => {
                for value in &values {
                    calls.push(json_call(value)?);
                }
            }
            value => calls.push(json_call(&value)?),
        }
    }
    (!calls.is_empty()).then_some(calls)
}

fn bare(body: &str, tools: &Tools) -> Option<Vec<Call>> {
    let body = body.trim();
    let body = body.strip_prefix("<|python_tag|>").unwrap_or(body);
    // calls may be separated by semicolons
    let calls = json_calls(body).or_else(|| {
        let parts = body.split(';').map(|part| json_calls(part).filter(|calls| calls.len() == 1));
        parts.collect::<Option<Vec<_>>>().map(|calls| calls.concat())
    })?;
    // an ordinary JSON answer may have a `name`, too
    calls.iter().all(|call| tools.has(&call.name)).then_some(calls)
}

/// The text between `open` and `close`, and the rest. Without `close` it is all the text.
fn between<'t>(text: &'t str, open: &str, close: &str) -> Option<(&'t str, &'t str)> {
    let (_, rest) = text.split_once(open)?;
    Some(rest.split_once(close).unwrap_or((rest, "")))
}

/// The marks of a style that writes values between tags.
pub(super) fn tags(style: CallStyle) -> Option<Tags> {
    match style {
        CallStyle::Functions => Some(tags::FUNCTIONS),
        CallStyle::ArgumentPairs => Some(tags::PAIRS),
        _ => None,
    }
}

/// Removes the line end after an opening mark and before a closing one, which belong to the marks.
fn trim_lines(text: &str) -> &str {
    let text = text.strip_prefix('\n').unwrap_or(text);
    text.strip_suffix('\n').unwrap_or(text)
}

fn functions(body: &str, tools: &Tools) -> Option<Vec<Call>> {
    let mut calls = Vec::new();
    let mut rest = body;
    while let Some((_, function)) = rest.split_once("<function=") {
        let (name, mut behind) = function.split_once('>')?;
        let name = name.trim().trim_matches('"');
        let mut arguments = Map::new();
        // functionary and Llama write an object instead of parameters
        if behind.trim_start().starts_with('{') {
            let text = behind.trim_start();
            let (object, after) = text.split_at(tags::object(text)?);
            arguments = serde_json::from_str(&repaired(object)).ok()?;
            behind = after;
        } else {
            while let Some(open) = behind.find("<parameter=") {
                if behind[..open].contains("</function>") {
                    break;
                }
                let (key, text) = behind[open + "<parameter=".len()..].split_once('>')?;
                let key = key.trim().trim_matches('"');
                let (text, after) = tags::FUNCTIONS.value(text);
                behind = after;
                arguments.insert(key.to_owned(), tools.value(name, key, trim_lines(text)));
            }
        }
        rest = behind;
        calls.push(Call { name: name.to_owned(), arguments: Value::Object(arguments).to_string() });
    }
    (!calls.is_empty()).then_some(calls)
}

fn pairs(body: &str, tools: &Tools) -> Option<Call> {
    let end = body.find("<arg_key>").unwrap_or(body.len());
    let name = body[..end].trim();
    if name.is_empty() || name.contains(['{', '<']) {
        return None;
    }
    let mut arguments = Map::new();
    let mut rest = &body[end..];
    while let Some((key, behind)) = between(rest, "<arg_key>", "</arg_key>") {
        let (_, text) = behind.split_once("<arg_value>")?;
        let (text, behind) = tags::PAIRS.value(text);
        rest = behind;
        let key = key.trim();
        arguments.insert(key.to_owned(), tools.value(name, key, trim_lines(text)));
    }
    Some(Call { name: name.to_owned(), arguments: Value::Object(arguments).to_string() })
}

fn bracketed(body: &str) -> Option<Vec<Call>> {
    let mut calls = Vec::new();
    for part in body.split("[TOOL_CALLS]").map(str::trim).filter(|part| !part.is_empty()) {
        if part.starts_with('[') {
            calls.extend(json_calls(part)?);
            continue;
        }
        let (name, arguments) = match part.split_once("[ARGS]") {
            Some(split) => split,
            None => part.split_at(part.find('{')?),
        };
        let name = name.split("[CALL_ID]").next().unwrap_or(name).trim();
        let arguments = arguments.trim();
        calls.push(Call { name: name.to_owned(), arguments: document(arguments)? });
    }
    (!calls.is_empty()).then_some(calls)
}

fn deep_seek(body: &str) -> Option<Vec<Call>> {
    let mut calls = Vec::new();
    let mut rest = body;
    while let Some((call, behind)) = between(rest, "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")
    {
        rest = behind;
        let (name, arguments) = call.split_once("<｜tool▁sep｜>")?;
        let (name, arguments) = match name.trim() {
            // R1 writes the kind of call first, and the arguments in a Markdown code block
            "function" if !arguments.trim_start().starts_with('{') => {
                let (name, quoted) = arguments.split_once('\n')?;
                let quoted = quoted.trim();
                let quoted = quoted.strip_prefix("```json").unwrap_or(quoted);
                (name.trim(), quoted.strip_suffix("```").unwrap_or(quoted).trim())
            }
            name => (name, arguments.trim()),
        };
        calls.push(Call { name: name.to_owned(), arguments: document(arguments)? });
    }
    (!calls.is_empty()).then_some(calls)
}
