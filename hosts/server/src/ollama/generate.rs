//! `/api/chat` and `/api/generate`

use super::{input, time};
use crate::call::Call;
use crate::chat;
use crate::error::{Dialect, Failure};
use crate::fields::Fields;
use crate::generate::{Ending, Generation, Order, Part, Reason};
use crate::openai::chat::{Message, ToolCall, collect};
use crate::stream::{self, Framing, Gone, json};
use axum::http::StatusCode;
use axum::response::Response;
use doorbell_core::token::EncodeOptions;
use doorbell_runtime::answer::Delta;
use serde_json::{Map, Value, json};
use std::time::SystemTime;

/// Which of the two shapes an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Chat,
    Generate,
}

pub(crate) async fn chat(call: Call) -> Result<Response, Failure> {
    let body = call.json().await?;
    let fields = Fields::of_request(&body)?;
    let messages = fields.list("messages")?.unwrap_or_default();
    if messages.is_empty() {
        return Ok(nothing(&call, &fields, Form::Chat));
    }
    let conversation = input::conversation(&call, &fields, messages)?;
    let order = chat::order(&call.app, conversation).await?;
    respond(&call, &fields, Form::Chat, order).await
}

pub(crate) async fn generate(call: Call) -> Result<Response, Failure> {
    let body = call.json().await?;
    let fields = Fields::of_request(&body)?;
    let prompt = fields.text("prompt")?.unwrap_or_default();
    if prompt.is_empty() {
        return Ok(nothing(&call, &fields, Form::Generate));
    }
    if fields.text("suffix")?.is_some_and(|suffix| !suffix.is_empty()) {
        return Err(fields.wrong("suffix", "is not available here; use /v1/completions"));
    }
    let raw = fields.flag("raw")?.unwrap_or(false) || call.app.served.template.is_none();
    let order = if raw {
        let tokens = call.app.encode(prompt, EncodeOptions { add_special: true, parse_special: true })?;
        Order::text(tokens, input::options(&call, &fields)?, input::shape(&fields)?)
    } else {
        let mut messages = Vec::new();
        if let Some(system) = fields.text("system")?.filter(|system| !system.is_empty()) {
            messages.push(json!({ "role": "system", "content": system }));
        }
        messages.push(json!({ "role": "user", "content": prompt }));
        chat::order(&call.app, input::conversation(&call, &fields, &messages)?).await?
    };
    respond(&call, &fields, Form::Generate, order).await
}

fn model(call: &Call, fields: &Fields<'_>) -> String {
    fields.get("model").and_then(Value::as_str).unwrap_or(&call.app.served.name).to_owned()
}

/// The answer to a request without a prompt, which loads the model; it is.
fn nothing(call: &Call, fields: &Fields<'_>, form: Form) -> Response {
    let lines = Lines { form, model: model(call, fields) };
    let mut document = lines.document(&Message::default());
    document.insert("done".into(), true.into());
    document.insert("done_reason".into(), "load".into());
    json(StatusCode::OK, &Value::Object(document))
}

async fn respond(call: &Call, fields: &Fields<'_>, form: Form, order: Order) -> Result<Response, Failure> {
    let lines = Lines { form, model: model(call, fields) };
    let mut generation = Generation::begin(&call.app, order).await?;
    if fields.flag("stream")?.unwrap_or(true) {
        return Ok(stream::stream(Framing::Lines, call.app.settings.keep_alive, |writer| async move {
            let mut calls = Calls::default();
            while let Some((_, part)) = generation.next().await {
                match part {
                    Part::Prefill(_) => {}
                    Part::More { deltas, .. } => {
                        for message in calls.take(deltas) {
                            let mut document = lines.document(&message);
                            document.insert("done".into(), false.into());
                            writer.data(&Value::Object(document)).await?;
                        }
                    }
                    Part::Over(ending) => {
                        if let Some(message) = calls.last() {
                            let mut document = lines.document(&message);
                            document.insert("done".into(), false.into());
                            writer.data(&Value::Object(document)).await?;
                        }
                        let document = lines.end(&Message::default(), &ending);
                        writer.data(&document).await?;
                    }
                    Part::Failed(failure) => {
                        return writer.data(&failure.document(Dialect::Ollama)).await;
                    }
                }
            }
            Ok::<(), Gone>(())
        }));
    }
    let mut messages = collect(generation, 1).await?;
    let message = messages.pop().unwrap_or_default();
    let document = match &message.ending {
        Some(ending) => lines.end(&message, ending),
        None => Value::Object(lines.document(&message)),
    };
    Ok(json(StatusCode::OK, &document))
}

/// Calls that are told whole, as Ollama's arguments are objects.
#[derive(Default)]
struct Calls {
    open: Option<ToolCall>,
}

impl Calls {
    /// The messages that additions make: text at once, calls when they are complete.
    fn take(&mut self, deltas: Vec<Delta>) -> Vec<Message> {
        let mut messages = Vec::new();
        for delta in deltas {
            match delta {
                Delta::Text(text) => messages.push(Message { text, ..Message::default() }),
                Delta::Reasoning(reasoning) => messages.push(Message { reasoning, ..Message::default() }),
                Delta::Call { name, .. } => {
                    messages.extend(self.last());
                    self.open = Some(ToolCall { id: String::new(), name, arguments: String::new() });
                }
                Delta::Arguments { text, .. } => {
                    if let Some(open) = &mut self.open {
                        open.arguments.push_str(&text);
                    }
                }
            }
        }
        messages
    }

    fn last(&mut self) -> Option<Message> {
        self.open.take().map(|call| Message { calls: vec![call], ..Message::default() })
    }
}

/// What all lines of one answer repeat.
struct Lines {
    form: Form,
    model: String,
}

impl Lines {
    fn document(&self, message: &Message) -> Map<String, Value> {
        let mut document = Map::new();
        document.insert("model".into(), self.model.as_str().into());
        document.insert("created_at".into(), time::text(SystemTime::now()).into());
        let thinking = (!message.reasoning.is_empty()).then(|| Value::from(message.reasoning.as_str()));
        if self.form == Form::Generate {
            document.insert("response".into(), message.text.as_str().into());
            if let Some(thinking) = thinking {
                document.insert("thinking".into(), thinking);
            }
            return document;
        }
        let mut own = json!({ "role": "assistant", "content": message.text });
        if let Some(thinking) = thinking {
            own["thinking"] = thinking;
        }
        if !message.calls.is_empty() {
            let call = |call: &ToolCall| {
                let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
                json!({ "function": { "name": call.name, "arguments": arguments } })
            };
            own["tool_calls"] = message.calls.iter().map(call).collect();
        }
        document.insert("message".into(), own);
        document
    }

    /// The last line: counts, and times in nanoseconds.
    fn end(&self, message: &Message, ending: &Ending) -> Value {
        let mut document = self.document(message);
        let usage = &ending.usage;
        let between = |from: doorbell_core::engine::Nanos, to: doorbell_core::engine::Nanos| {
            to.0.saturating_sub(from.0)
        };
        let first = if usage.first_token.0 == 0 { usage.finished } else { usage.first_token };
        document.insert("done".into(), true.into());
        let reason = if ending.reason == Reason::Length { "length" } else { "stop" };
        document.insert("done_reason".into(), reason.into());
        document.insert("total_duration".into(), between(usage.submitted, usage.finished).into());
        document.insert("load_duration".into(), 0.into());
        document.insert("prompt_eval_count".into(), usage.prompt_tokens.into());
        document.insert("prompt_eval_duration".into(), between(usage.started, first).into());
        document.insert("eval_count".into(), usage.generated_tokens.into());
        document.insert("eval_duration".into(), between(first, usage.finished).into());
        Value::Object(document)
    }
}
