//! Checks of the messages of a conversation, whatever API they came from.

use crate::error::{Failure, quoted};
use serde_json::Value;

/// Checks messages and rewrites them for templates: `developer` becomes `system`, a list of texts one text, and absent
/// content empty.
pub(crate) fn normalize(list: &[Value]) -> Result<Vec<Value>, Failure> {
    if list.is_empty() {
        return Err(Failure::field("messages", "must not be empty"));
    }
    list.iter().enumerate().map(|(index, value)| message(index, value)).collect()
}

fn message(index: usize, value: &Value) -> Result<Value, Failure> {
    let path = |field: &str| format!("messages[{index}]{field}");
    let mut message = value.as_object().ok_or_else(|| Failure::field(path(""), "must be an object"))?.clone();
    let role = message.get("role").and_then(Value::as_str);
    let role = role.ok_or_else(|| Failure::field(path(".role"), "must be a string"))?.to_owned();
    if role == "developer" {
        message.insert("role".into(), "system".into());
    }
    let content = match message.get("content") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Result<Vec<&str>, Failure> = parts
                .iter()
                .enumerate()
                .map(|(at, part)| text_part(part, &path(&format!(".content[{at}]"))))
                .collect();
            texts?.join("\n")
        }
        Some(_) => {
            return Err(Failure::field(path(".content"), "must be a string, a list of parts, or null"));
        }
    };
    message.insert("content".into(), content.into());
    // templates test for the presence of these fields, not for their values
    for field in ["tool_calls", "tool_call_id", "name", "reasoning_content"] {
        if message.get(field).is_some_and(Value::is_null) {
            message.remove(field);
        }
    }
    if let Some(calls) = message.get("tool_calls") {
        let calls = calls.as_array().ok_or_else(|| Failure::field(path(".tool_calls"), "must be a list"))?;
        for (at, call) in calls.iter().enumerate() {
            let name = call.get("function").and_then(|function| function.get("name")?.as_str());
            if name.is_none() {
                return Err(Failure::field(
                    path(&format!(".tool_calls[{at}].function.name")),
                    "must be a string",
                ));
            }
        }
        if calls.is_empty() {
            message.remove("tool_calls");
        }
    }
    Ok(Value::Object(message))
}

fn text_part<'v>(part: &'v Value, path: &str) -> Result<&'v str, Failure> {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
    if !matches!(kind, "text" | "input_text" | "output_text" | "refusal") {
        return Err(Failure::field(
            path,
            format_args!("parts of type {} are not supported by this model", quoted(kind)),
        ));
    }
    let text = part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_str);
    text.ok_or_else(|| Failure::field(format!("{path}.text"), "must be a string"))
}
