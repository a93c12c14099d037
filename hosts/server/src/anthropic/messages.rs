//! `/v1/messages` and `/v1/messages/count_tokens`

use super::content::{blocks, stop_reason, usage};
use super::{input, stream};
use crate::answer_header::AnswerHeader;
use crate::conversation;
use crate::error::{Failure, FailureKind};
use crate::fields::Fields;
use crate::generation::{Generation, collect};
use crate::request_context::RequestContext;
use crate::stream::json;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

pub(crate) async fn messages(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    if fields.count("max_tokens")?.is_none() {
        return Err(fields.wrong("max_tokens", "is missing"));
    }
    let conversation = request.read(&body, input::conversation).await?;
    let header = AnswerHeader::new(&request, "msg_", &fields)?;
    let generated = conversation::generation_request(&request, conversation).await?;
    let generation = Generation::begin(&request, generated).await?;
    if fields.flag("stream")?.unwrap_or(false) {
        return Ok(stream::respond(&request, header, generation));
    }
    let answers = collect(generation).await?;
    let answer = answers.first().and_then(|answer| Some((answer, answer.outcome.as_ref()?)));
    let Some((answer, outcome)) = answer else {
        return Err(Failure::new(FailureKind::Internal, "the answer is missing"));
    };
    let (stop_reason, stop_sequence) = stop_reason(outcome);
    let document = json!({
        "id": header.id,
        "type": "message",
        "role": "assistant",
        "model": header.model,
        "content": blocks(answer),
        "stop_reason": stop_reason,
        "stop_sequence": stop_sequence,
        "usage": usage(outcome),
    });
    Ok(json(StatusCode::OK, &document))
}

pub(crate) async fn count_tokens(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let conversation = request.read(&body, input::conversation).await?;
    let rendered = conversation::render(&request, conversation).await?;
    Ok(json(StatusCode::OK, &json!({ "input_tokens": rendered.tokens.len() })))
}
