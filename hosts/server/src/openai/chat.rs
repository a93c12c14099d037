//! `/v1/chat/completions`

use super::stream_extras::StreamExtras;
use super::{chat_input, chat_stream, document, logprobs};
use crate::answer_header::AnswerHeader;
use crate::app::App;
use crate::conversation;
use crate::error::Failure;
use crate::fields::Fields;
use crate::generation::{CollectedAnswer, Generation, ToolCall, UsageTotal, collect};
use crate::request_context::RequestContext;
use crate::stream::json;
use crate::unique_id::unique_id;
use alloc::sync::Arc;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

pub(crate) async fn completions(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let conversation = request.read(&body, chat_input::conversation).await?;
    let fields = Fields::of_request(&body)?;
    let extras = StreamExtras::of(&fields)?;
    let header = AnswerHeader::new(&request, "chatcmpl-", &fields)?;
    let mut generated = conversation::generation_request(&request, conversation).await?;
    let prompt = core::mem::take(&mut generated.text);
    let generation = Generation::begin(&request, generated).await?;
    if fields.flag("stream")?.unwrap_or(false) {
        return Ok(chat_stream::respond(&request, header, extras, generation));
    }
    // llama-server's field with the rendered prompt
    let verbose = fields.flag("verbose")?.unwrap_or(false).then(|| json!({ "prompt": prompt }));
    let answers = collect(generation).await?;
    let app = Arc::clone(&request.app);
    let respond = move || {
        let mut document = completion(&app, &header, &answers);
        if let Some(verbose) = verbose {
            document.insert("__verbose".into(), verbose);
        }
        Ok(json(StatusCode::OK, &Value::Object(document)))
    };
    request.work(respond).await
}

/// `/v1/chat/completions/input_tokens`: the number of tokens of a conversation.
pub(crate) async fn count(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let conversation = request.read(&body, chat_input::conversation).await?;
    let rendered = conversation::render(&request, conversation).await?;
    Ok(document::input_tokens(rendered.tokens.len()))
}

/// The document of all answers.
fn completion(app: &App, header: &AnswerHeader, answers: &[CollectedAnswer]) -> Map<String, Value> {
    let mut total = UsageTotal::default();
    let mut choices = Vec::new();
    let mut timings = Value::Null;
    for (index, answer) in answers.iter().enumerate() {
        if let Some(outcome) = &answer.outcome {
            total.add_answer(outcome);
            timings = outcome.timings().document();
        }
        choices.push(json!({
            "index": index,
            "message": message(answer),
            "logprobs": logprobs::chat(app, &answer.tokens),
            "finish_reason": answer.outcome.as_ref().map(document::finish_reason),
        }));
    }
    let mut document = document::begin(header, "chat.completion");
    document.insert("choices".into(), choices.into());
    document.insert("usage".into(), document::usage(&total));
    document.insert("timings".into(), timings);
    document
}

fn message(answer: &CollectedAnswer) -> Value {
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    let calls_only = answer.text.is_empty() && !answer.calls.is_empty();
    message.insert("content".into(), if calls_only { Value::Null } else { answer.text.as_str().into() });
    message.insert("refusal".into(), Value::Null);
    if !answer.reasoning.is_empty() {
        message.insert("reasoning_content".into(), answer.reasoning.as_str().into());
    }
    if !answer.calls.is_empty() {
        message.insert("tool_calls".into(), answer.calls.iter().map(tool_call).collect());
    }
    Value::Object(message)
}

fn tool_call(call: &ToolCall) -> Value {
    json!({
        "id": unique_id(document::CALL_ID),
        "type": "function",
        "function": { "name": call.name, "arguments": call.arguments },
    })
}
