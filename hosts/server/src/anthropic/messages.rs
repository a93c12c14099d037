//! `/v1/messages` and `/v1/messages/count_tokens`

use super::{input, stream};
use crate::conversation;
use crate::error::{Failure, Kind};
use crate::fields::Fields;
use crate::generation::{Ending, Generation, Reason};
use crate::openai::chat::{AnswerHeader, Message, collect};
use crate::request_context::{self, RequestContext};
use crate::stream::json;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

/// How the names of calls begin.
pub(super) const CALL: &str = "toolu_";

pub(crate) async fn messages(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    if fields.count("max_tokens")?.is_none() {
        return Err(fields.wrong("max_tokens", "is missing"));
    }
    let conversation = input::conversation(&request, &fields)?;
    let header = AnswerHeader::new(&request, "msg_", fields.text("model")?);
    let generation =
        Generation::begin(&request.app, conversation::order(&request.app, conversation).await?).await?;
    if fields.flag("stream")?.unwrap_or(false) {
        return Ok(stream::respond(&request, header, generation));
    }
    let answers = collect(generation, 1).await?;
    let (Some(message), Some(ending)) =
        (answers.first(), answers.first().and_then(|answer| answer.ending.as_ref()))
    else {
        return Err(Failure::new(Kind::Internal, "the answer is missing"));
    };
    let (reason, stop) = stop_reason(ending);
    let document = json!({
        "id": header.id,
        "type": "message",
        "role": "assistant",
        "model": header.model,
        "content": blocks(message),
        "stop_reason": reason,
        "stop_sequence": stop,
        "usage": usage(ending),
    });
    Ok(json(StatusCode::OK, &document))
}

pub(crate) async fn count_tokens(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    let conversation = input::conversation(&request, &fields)?;
    let (_, rendered) = conversation::rendered(&request.app, conversation).await?;
    Ok(json(StatusCode::OK, &json!({ "input_tokens": rendered.tokens.len() })))
}

/// The word for an end, and the stop text that came.
pub(super) fn stop_reason(ending: &Ending) -> (&'static str, Option<&str>) {
    match &ending.reason {
        Reason::Stop => ("end_turn", None),
        Reason::StopText(text) => ("stop_sequence", Some(text)),
        Reason::Length if ending.truncated => ("model_context_window_exceeded", None),
        Reason::Length => ("max_tokens", None),
        Reason::Calls => ("tool_use", None),
    }
}

/// Cached tokens are not among the input.
pub(super) fn usage(ending: &Ending) -> Value {
    let usage = &ending.usage;
    json!({
        "input_tokens": usage.prompt_tokens.saturating_sub(usage.cached_tokens),
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": usage.generated_tokens,
        "output_tokens_details": { "thinking_tokens": ending.reasoning_tokens },
    })
}

fn blocks(message: &Message) -> Vec<Value> {
    let mut blocks = Vec::new();
    if !message.reasoning.is_empty() {
        blocks.push(json!({ "type": "thinking", "thinking": message.reasoning, "signature": "" }));
    }
    if !message.text.is_empty() {
        blocks.push(json!({ "type": "text", "text": message.text }));
    }
    for call in &message.calls {
        let id = request_context::unique_id(CALL);
        blocks.push(json!({ "type": "tool_use", "id": id, "name": call.name, "input": call.input() }));
    }
    blocks
}
