//! The documents of `/v1/responses`: the response and its output items.

use crate::answer_header::AnswerHeader;
use crate::fields::Fields;
use crate::generation::Outcome;
use serde_json::{Map, Value, json};

/// Fields of a request that its response repeats, and their values if absent.
fn repeated() -> [(&'static str, Value); 11] {
    [
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", json!(true)),
        ("previous_response_id", Value::Null),
        ("reasoning", json!({ "effort": null, "summary": null })),
        ("temperature", Value::Null),
        ("text", json!({ "format": { "type": "text" } })),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
        ("top_p", Value::Null),
    ]
}

/// Facts that all versions of a response repeat.
pub(super) struct ResponseDocument {
    header: AnswerHeader,
    repeated: Map<String, Value>,
}

impl ResponseDocument {
    pub(super) fn new(header: AnswerHeader, fields: &Fields<'_>) -> Self {
        let repeated = repeated()
            .into_iter()
            .map(|(name, absent)| (name.to_owned(), fields.get(name).cloned().unwrap_or(absent)));
        Self { header, repeated: repeated.collect() }
    }

    /// The response with this status and these output items.
    pub(super) fn version(&self, status: &str, output: &[Value], outcome: Option<&Outcome>) -> Value {
        let mut document = Map::new();
        document.insert("id".into(), self.header.id.as_str().into());
        document.insert("object".into(), "response".into());
        document.insert("created_at".into(), self.header.created.into());
        document.insert("status".into(), status.into());
        document.insert("background".into(), false.into());
        document.insert("error".into(), Value::Null);
        let incomplete = (status == "incomplete").then(|| json!({ "reason": "max_output_tokens" }));
        document.insert("incomplete_details".into(), incomplete.unwrap_or_default());
        document.insert("model".into(), self.header.model.as_str().into());
        document.insert("output".into(), output.into());
        document.extend(self.repeated.clone());
        document.insert("store".into(), false.into());
        // a conversation that is too long is refused
        document.insert("truncation".into(), "disabled".into());
        document.insert("usage".into(), outcome.map(usage).unwrap_or_default());
        Value::Object(document)
    }
}

fn usage(outcome: &Outcome) -> Value {
    let usage = &outcome.usage;
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": { "cached_tokens": usage.cached_tokens },
        "output_tokens": usage.generated_tokens,
        "output_tokens_details": { "reasoning_tokens": outcome.reasoning_tokens },
        "total_tokens": usage.prompt_tokens.saturating_add(usage.generated_tokens),
    })
}

/// The status of a finished response.
pub(super) fn status(outcome: &Outcome) -> &'static str {
    if outcome.hit_limit() { "incomplete" } else { "completed" }
}

pub(super) fn reasoning_item(id: &str, status: &str, text: &str) -> Value {
    json!({
        "id": id, "type": "reasoning", "summary": [],
        "content": [{ "type": "reasoning_text", "text": text }], "status": status,
    })
}

pub(super) fn text_part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

pub(super) fn message_item(id: &str, status: &str, parts: &[Value]) -> Value {
    json!({ "id": id, "type": "message", "role": "assistant", "status": status, "content": parts })
}

pub(super) fn call_item(id: &str, call_id: &str, status: &str, name: &str, arguments: &str) -> Value {
    json!({
        "id": id, "type": "function_call", "status": status,
        "call_id": call_id, "name": name, "arguments": arguments,
    })
}
