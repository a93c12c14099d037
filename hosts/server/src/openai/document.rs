//! Parts that several documents of `OpenAI`'s API share.

use crate::answer_header::AnswerHeader;
use crate::generation::{Outcome, PromptProgress, UsageTotal};
use crate::stream::json;
use axum::http::StatusCode;
use axum::response::Response;
use doorbell_core::engine::FinishReason;
use serde_json::{Map, Value, json};

/// Prefix of call ids.
pub(super) const CALL_ID: &str = "call_";

/// A document of the type `object`, without choices.
pub(super) fn begin(header: &AnswerHeader, object: &str) -> Map<String, Value> {
    let mut document = Map::new();
    document.insert("id".into(), header.id.as_str().into());
    document.insert("object".into(), object.into());
    document.insert("created".into(), header.created.into());
    document.insert("model".into(), header.model.as_str().into());
    document.insert("system_fingerprint".into(), concat!("doorbell-", env!("CARGO_PKG_VERSION")).into());
    document
}

/// The `finish_reason` of an answer.
pub(super) fn finish_reason(outcome: &Outcome) -> &'static str {
    match outcome.reason {
        FinishReason::MaxTokens | FinishReason::ContextFull => "length",
        _ if outcome.called_tools => "tool_calls",
        _ => "stop",
    }
}

/// The `usage` of an answer.
pub(super) fn usage(total: &UsageTotal) -> Value {
    json!({
        "prompt_tokens": total.prompt,
        "completion_tokens": total.generated,
        "total_tokens": total.prompt.saturating_add(total.generated),
        "prompt_tokens_details": { "cached_tokens": total.cached },
        "completion_tokens_details": { "reasoning_tokens": total.reasoning },
    })
}

/// llama-server's `prompt_progress`.
pub(super) fn prompt_progress(progress: &PromptProgress) -> Value {
    json!({
        "total": progress.total,
        "cache": progress.cached,
        "processed": progress.done,
        "time_ms": progress.milliseconds(),
    })
}

/// The response with the length of an input.
pub(super) fn input_tokens(tokens: usize) -> Response {
    json(StatusCode::OK, &json!({ "object": "response.input_tokens", "input_tokens": tokens }))
}
