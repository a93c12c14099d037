//! Arguments of calls that are not a JSON object: an answer that ended within a call, or what a model wrote instead of an
//! object. Such calls stay in the history of a conversation, so every template must be able to print them.

use serde_json::{Map, Value as Json};

/// The name under which a value that is not an object is passed to templates that print only objects.
const WRAPPER: &str = "arguments";

/// The arguments in `text` as an object: the object itself, an object that was cut or has invalid strings repaired, or any
/// other value or text under the name `arguments`. `null` is an empty object.
pub(super) fn object(text: &str) -> Map<String, Json> {
    let repaired = || {
        let whole = |ending: &&str| serde_json::from_str::<Json>(ending).ok();
        endings(text).iter().find_map(|ending| whole(&ending.as_str()).filter(Json::is_object))
    };
    let value = serde_json::from_str(text).ok().or_else(repaired);
    wrapped(value.unwrap_or_else(|| text.into()))
}

/// A value as an object.
pub(super) fn wrapped(value: Json) -> Map<String, Json> {
    match value {
        Json::Object(fields) => fields,
        Json::Null => Map::new(),
        other => Map::from_iter([(WRAPPER.to_owned(), other)]),
    }
}

/// Texts that may be the cut object `text` with an end, the ones that keep most first.
fn endings(text: &str) -> Vec<String> {
    if !text.trim_start().starts_with('{') {
        return Vec::new();
    }
    let Opened { mut start, closers, in_string } = opened(text);
    if in_string {
        start.push('"');
    }
    let bare = start.trim_end().trim_end_matches(',');
    // after a value, after a name, and after a name's colon
    ["", ":null", "null"].map(|middle| format!("{bare}{middle}{closers}")).to_vec()
}

/// The beginning of a JSON text.
struct Opened {
    /// The text with its string literals made valid, without an unfinished escape at its end.
    start: String,
    /// The brackets that close it.
    closers: String,
    /// True if it ends within a string.
    in_string: bool,
}

fn opened(text: &str) -> Opened {
    let mut start = String::with_capacity(text.len() + 2);
    let mut closers = Vec::new();
    let mut in_string = false;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => in_string = !in_string,
            '\\' if in_string => {
                let Some(len) = escape(rest.as_str()) else { break };
                // a backslash that begins no escape is itself meant
                start.push_str(if len == 0 { "\\\\" } else { "\\" });
                start.extend(rest.by_ref().take(len));
                continue;
            }
            _ if in_string && c.is_ascii_control() => {
                let literal = Json::from(c.to_string()).to_string();
                start.push_str(literal.trim_matches('"'));
                continue;
            }
            '{' if !in_string => closers.push('}'),
            '[' if !in_string => closers.push(']'),
            '}' | ']' if !in_string => {
                closers.pop();
            }
            _ => {}
        }
        start.push(c);
    }
    Opened { start, closers: closers.into_iter().rev().collect(), in_string }
}

/// The number of characters of the escape at the beginning of `rest`, which follows a backslash: 0 if it is no escape,
/// `None` if the text ends within it.
fn escape(rest: &str) -> Option<usize> {
    match rest.chars().next()? {
        'u' => {
            let digits = rest[1..].chars().take(4).take_while(char::is_ascii_hexdigit).count();
            match digits {
                4 => Some(5),
                _ if rest.len() == 1 + digits => None,
                _ => Some(0),
            }
        }
        '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => Some(1),
        _ => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cut_objects_are_closed() {
        for (text, expected) in [
            (r#"{"a": "tru"#, json!({ "a": "tru" })),
            (r#"{"a": "x\"#, json!({ "a": "x" })),
            (r#"{"a": "x\u00e"#, json!({ "a": "x" })),
            (r#"{"a": [1, {"b": "#, json!({ "a": [1, { "b": null }] })),
            (r#"{"a": 1, "#, json!({ "a": 1 })),
            (r#"{"a": 1, "b"#, json!({ "a": 1, "b": null })),
            ("{", json!({})),
            ("{\"a\": \"x\ny\\d\"}", json!({ "a": "x\ny\\d" })),
        ] {
            assert_eq!(Json::from(object(text)), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_object_is_kept_under_a_name() {
        for (text, expected) in [
            ("[1]", json!({ "arguments": [1] })),
            ("[1", json!({ "arguments": "[1" })),
            ("\"a\"", json!({ "arguments": "a" })),
            (r#"{"a": tru"#, json!({ "arguments": r#"{"a": tru"# })),
            ("call it", json!({ "arguments": "call it" })),
            ("null", json!({})),
            (r#"{"a": 1}"#, json!({ "a": 1 })),
        ] {
            assert_eq!(Json::from(object(text)), expected, "{text}");
        }
        let deep = "{\"a\":".repeat(100_000);
        assert_eq!(object(&deep)["arguments"], deep);
    }
}
