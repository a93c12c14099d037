//! The documents of `/v1/responses`: the response and its output items.

use super::document::CALL_ID;
use super::response_tools::{CallForm, ClientTool, ResponseTools, input_of_arguments};
use crate::answer_header::AnswerHeader;
use crate::error::Failure;
use crate::fields::Fields;
use crate::generation::Outcome;
use crate::unique_id::unique_id;
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
    /// The tools behind the names of functions.
    pub(super) tools: ResponseTools,
}

impl ResponseDocument {
    pub(super) fn new(header: AnswerHeader, fields: &Fields<'_>) -> Result<Self, Failure> {
        let repeated = repeated()
            .into_iter()
            .map(|(name, absent)| (name.to_owned(), fields.get(name).cloned().unwrap_or(absent)));
        Ok(Self { header, repeated: repeated.collect(), tools: ResponseTools::of(fields)? })
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

/// The item of a call with these arguments, in the form that the tool has.
pub(super) fn call_item(ids: &CallIds, status: &str, tool: &ClientTool, arguments: &str) -> Value {
    let mut item = json!({ "id": ids.item, "status": status, "call_id": ids.call, "name": tool.name });
    let (kind, field, value) = match tool.form {
        CallForm::Function => ("function_call", "arguments", arguments.to_owned()),
        CallForm::Custom => ("custom_tool_call", "input", input_of_arguments(arguments)),
    };
    item["type"] = kind.into();
    item[field] = value.into();
    if let Some(namespace) = &tool.namespace {
        item["namespace"] = namespace.as_str().into();
    }
    item
}

/// The ids of a call.
pub(super) struct CallIds {
    /// That of the item.
    pub(super) item: String,
    /// That by which the result refers to it.
    pub(super) call: String,
}

impl CallIds {
    /// New ids for a call of this form.
    pub(super) fn new(form: CallForm) -> Self {
        let prefix = if form == CallForm::Custom { "ctc_" } else { "fc_" };
        Self { item: unique_id(prefix), call: unique_id(CALL_ID) }
    }
}
