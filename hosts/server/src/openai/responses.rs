//! `/v1/responses`, without memory: every request brings its whole conversation.

use super::chat::{AnswerHeader, StreamExtras};
use super::responses_stream;
use super::{chat, responses_input};
use crate::conversation::{order, rendered};
use crate::error::Failure;
use crate::fields::Fields;
use crate::generation::{Ending, Generation, Reason};
use crate::request_context::RequestContext;
use crate::stream::json;
use alloc::sync::Arc;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

/// The fields of a request that its answer repeats, and what they are if absent.
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

/// What every version of one response repeats.
pub(super) struct Frame {
    header: AnswerHeader,
    repeated: Map<String, Value>,
}

impl Frame {
    fn new(header: AnswerHeader, fields: &Fields<'_>) -> Self {
        let repeated = repeated()
            .into_iter()
            .map(|(name, absent)| (name.to_owned(), fields.get(name).cloned().unwrap_or(absent)));
        Self { header, repeated: repeated.collect() }
    }

    /// The response at some stage.
    pub(super) fn document(&self, status: &str, output: &[Value], ending: Option<&Ending>) -> Value {
        let mut document = Map::new();
        document.insert("id".into(), self.header.id.as_str().into());
        document.insert("object".into(), "response".into());
        document.insert("created_at".into(), self.header.created.into());
        document.insert("status".into(), status.into());
        document.insert("background".into(), false.into());
        document.insert("error".into(), Value::Null);
        let cut = (status == "incomplete").then(|| json!({ "reason": "max_output_tokens" }));
        document.insert("incomplete_details".into(), cut.unwrap_or_default());
        document.insert("model".into(), self.header.model.as_str().into());
        document.insert("output".into(), output.into());
        document.extend(self.repeated.clone());
        document.insert("store".into(), false.into());
        // a conversation that is too long is refused
        document.insert("truncation".into(), "disabled".into());
        document.insert("usage".into(), ending.map(usage).unwrap_or_default());
        Value::Object(document)
    }
}

fn usage(ending: &Ending) -> Value {
    let usage = &ending.usage;
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": { "cached_tokens": usage.cached_tokens },
        "output_tokens": usage.generated_tokens,
        "output_tokens_details": { "reasoning_tokens": ending.reasoning_tokens },
        "total_tokens": usage.prompt_tokens.saturating_add(usage.generated_tokens),
    })
}

/// How a response stands that ended so.
pub(super) fn status(ending: &Ending) -> &'static str {
    if ending.reason == Reason::Length { "incomplete" } else { "completed" }
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

pub(crate) async fn responses(request: RequestContext) -> Result<Response, Failure> {
    let body = Arc::new(request.json().await?);
    let conversation = request.read(&body, responses_input::conversation).await?;
    let fields = Fields::of_request(&body)?;
    let header = AnswerHeader::new(&request, "resp_", fields.text("model")?);
    let frame = Frame::new(header, &fields);
    let generation = Generation::begin(&request.app, order(&request.app, conversation).await?).await?;
    if fields.flag("stream")?.unwrap_or(false) {
        return Ok(responses_stream::respond(&request, frame, StreamExtras::of(&fields)?, generation));
    }
    Ok(json(StatusCode::OK, &responses_stream::whole(frame, generation).await?))
}

/// How many tokens an input has.
pub(crate) async fn count(request: RequestContext) -> Result<Response, Failure> {
    let body = Arc::new(request.json().await?);
    let conversation = request.read(&body, responses_input::conversation).await?;
    let (_, rendered) = rendered(&request.app, conversation).await?;
    Ok(chat::counted(rendered.tokens.len()))
}
