//! `/api/chat` and `/api/generate`

use super::{input, time};
use crate::app::App;
use crate::conversation;
use crate::error::{Dialect, Failure};
use crate::fields::Fields;
use crate::generation::{Ending, Event, Generation, GenerationRequest, Reason};
use crate::openai::chat::{Message, ToolCall, collect};
use crate::openai::{infill, logprobs};
use crate::request_context::RequestContext;
use crate::stream::{self, Framing, Writer, json};
use alloc::sync::Arc;
use axum::http::StatusCode;
use axum::response::Response;
use doorbell_core::token::{EncodeOptions, Special, TokenId};
use doorbell_runtime::answer::Delta;
use doorbell_runtime::serve::TokenReport;
use doorbell_runtime::timings::RequestTimings;
use serde_json::{Map, Value, json};
use std::time::SystemTime;

/// Which shape an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Chat,
    /// With the context for a next request.
    Generate,
    /// Without.
    Raw,
}

pub(crate) async fn chat(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    let messages = fields.list("messages")?.unwrap_or_default();
    if messages.is_empty() {
        return Ok(nothing(&request, &fields, Form::Chat));
    }
    let conversation = input::conversation(&request, &fields, messages)?;
    let order = conversation::order(&request.app, conversation).await?;
    respond(&request, &fields, Form::Chat, order).await
}

pub(crate) async fn generate(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    let prompt = fields.text("prompt")?.unwrap_or_default();
    if prompt.is_empty() {
        return Ok(nothing(&request, &fields, Form::Generate));
    }
    if fields.list("images")?.is_some_and(|images| !images.is_empty()) {
        return Err(fields.wrong("images", "images are not supported by this model"));
    }
    let said = |name| fields.text(name).map(|text| text.filter(|text| !text.is_empty()));
    if said("template")?.is_some() {
        return Err(fields.wrong("template", "is the server's; start it with --chat-template-file"));
    }
    let (system, suffix) = (said("system")?, said("suffix")?);
    let context = input::context(&request.app, &fields)?;
    let raw = fields.flag("raw")?.unwrap_or(false);
    if raw && (system.is_some() || !context.is_empty()) {
        return Err(fields.wrong("raw", "a prompt that is taken as it is has no system and no context"));
    }
    let (app, own) = (Arc::clone(&request.app), prompt.to_owned());
    if let Some(behind) = suffix.map(ToOwned::to_owned) {
        let prompt = request.work(move || infill::with_suffix(&app, &own, &behind)).await?;
        let order = GenerationRequest::text(
            prompt.tokens,
            input::options(&request, &fields)?,
            input::shape(&fields)?,
        );
        return respond(&request, &fields, Form::Raw, order).await;
    }
    if raw || request.app.model.template.is_none() {
        let whole = EncodeOptions { add_special: true, parse_special: true };
        let tokens = request.work(move || app.encode(&own, whole)).await?;
        let order =
            GenerationRequest::text(tokens, input::options(&request, &fields)?, input::shape(&fields)?);
        return respond(&request, &fields, Form::Raw, order).await;
    }
    let mut messages = Vec::new();
    if let Some(system) = system {
        messages.push(json!({ "role": "system", "content": system }));
    }
    messages.push(json!({ "role": "user", "content": prompt }));
    let mut order =
        conversation::order(&request.app, input::conversation(&request, &fields, &messages)?).await?;
    if !context.is_empty() {
        let begin = app.model.tokenizer.bos();
        let behind = order.prompt.iter().enumerate().filter(|&(at, token)| at > 0 || Some(*token) != begin);
        order.prompt = context.into_iter().chain(behind.map(|(_, &token)| token)).collect();
    }
    respond(&request, &fields, Form::Generate, order).await
}

/// The answer to a request without a prompt, which loads the model; it is.
fn nothing(request: &RequestContext, fields: &Fields<'_>, form: Form) -> Response {
    let mut document = Lines::new(request, fields, form, &[]).document(&Message::default());
    document.insert("done".into(), true.into());
    document.insert("done_reason".into(), "load".into());
    json(StatusCode::OK, &Value::Object(document))
}

async fn respond(
    request: &RequestContext,
    fields: &Fields<'_>,
    form: Form,
    order: GenerationRequest,
) -> Result<Response, Failure> {
    let mut lines = Lines::new(request, fields, form, &order.prompt);
    let generation = Generation::begin(&request.app, order).await?;
    if fields.flag("stream")?.unwrap_or(true) {
        return Ok(stream::stream(Framing::Lines, &request.app.streams, |writer| {
            write(lines, generation, writer)
        }));
    }
    let mut messages = collect(generation, 1).await?;
    let message = messages.pop().unwrap_or_default();
    lines.note(&message.tokens);
    let document = match &message.ending {
        Some(ending) => lines.end(&message, ending),
        None => Value::Object(lines.document(&message)),
    };
    Ok(json(StatusCode::OK, &document))
}

async fn write(mut lines: Lines, mut generation: Generation, writer: Writer) {
    let mut told = Told::default();
    while let Some((_, part)) = generation.next().await {
        match part {
            Event::Prefill(_) => {}
            Event::More { deltas, tokens, .. } => {
                lines.note(&tokens);
                told.tokens.extend(tokens);
                for message in told.take(deltas) {
                    writer.data(&lines.more(&message));
                }
            }
            Event::Over(ending) => {
                if let Some(message) = told.call() {
                    writer.data(&lines.more(&message));
                }
                let rest = Message { tokens: told.tokens, ..Message::default() };
                return writer.data(&lines.end(&rest, &ending));
            }
            Event::Failed(failure) => return writer.data(&failure.document(Dialect::Ollama)),
        }
    }
}

/// What has come and was not told yet: calls are told whole, as Ollama's arguments are objects.
#[derive(Default)]
struct Told {
    open: Option<ToolCall>,
    tokens: Vec<TokenReport>,
}

impl Told {
    /// The messages that additions make: text at once, calls when they are complete.
    fn take(&mut self, deltas: Vec<Delta>) -> Vec<Message> {
        let mut messages = Vec::new();
        for delta in deltas {
            match delta {
                Delta::Text(text) => messages.push(Message { text, ..Message::default() }),
                Delta::Reasoning(reasoning) => messages.push(Message { reasoning, ..Message::default() }),
                Delta::Call { name, .. } => {
                    messages.extend(self.call());
                    self.open = Some(ToolCall { id: String::new(), name, arguments: String::new() });
                }
                Delta::Arguments { text, .. } => {
                    if let Some(open) = &mut self.open {
                        open.arguments.push_str(&text);
                    }
                }
            }
        }
        if let Some(first) = messages.first_mut() {
            first.tokens = core::mem::take(&mut self.tokens);
        }
        messages
    }

    fn call(&mut self) -> Option<Message> {
        self.open.take().map(|call| Message { calls: vec![call], ..Message::default() })
    }
}

/// What all lines of one answer repeat.
struct Lines {
    app: Arc<App>,
    form: Form,
    model: String,
    /// The tokens of prompt and answer so far, if they are to be told.
    context: Vec<TokenId>,
}

impl Lines {
    fn new(request: &RequestContext, fields: &Fields<'_>, form: Form, prompt: &[TokenId]) -> Self {
        let app = Arc::clone(&request.app);
        let model = fields.get("model").and_then(Value::as_str).unwrap_or(&app.model.name).to_owned();
        let context = if form == Form::Generate { prompt.to_vec() } else { Vec::new() };
        Self { app, form, model, context }
    }

    /// Notes tokens of the answer.
    fn note(&mut self, tokens: &[TokenReport]) {
        if self.form == Form::Generate {
            self.context.extend(tokens.iter().map(|report| report.token));
        }
    }

    /// A line that is not the last.
    fn more(&self, message: &Message) -> Value {
        let mut document = self.document(message);
        document.insert("done".into(), false.into());
        Value::Object(document)
    }

    fn document(&self, message: &Message) -> Map<String, Value> {
        let mut document = Map::new();
        document.insert("model".into(), self.model.as_str().into());
        document.insert("created_at".into(), time::text(SystemTime::now()).into());
        if let Some(entries) = logprobs::entries(&self.app, &message.tokens) {
            document.insert("logprobs".into(), entries.into());
        }
        let thinking = (!message.reasoning.is_empty()).then(|| Value::from(message.reasoning.as_str()));
        if self.form != Form::Chat {
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
            let call =
                |call: &ToolCall| json!({ "function": { "name": call.name, "arguments": call.input() } });
            own["tool_calls"] = message.calls.iter().map(call).collect();
        }
        document.insert("message".into(), own);
        document
    }

    /// The last line: counts, and times in nanoseconds.
    fn end(&self, message: &Message, ending: &Ending) -> Value {
        let mut document = self.document(message);
        let usage = &ending.usage;
        let timings = RequestTimings::new(usage);
        document.insert("done".into(), true.into());
        let reason = if ending.reason == Reason::Length { "length" } else { "stop" };
        document.insert("done_reason".into(), reason.into());
        document.insert("total_duration".into(), timings.total.0.into());
        document.insert("load_duration".into(), 0.into());
        document.insert("prompt_eval_count".into(), usage.prompt_tokens.into());
        document.insert("prompt_eval_duration".into(), timings.prefill.0.into());
        document.insert("eval_count".into(), usage.generated_tokens.into());
        document.insert("eval_duration".into(), timings.decode.0.into());
        if self.form == Form::Generate {
            let tokenizer = self.app.model.tokenizer;
            let mut context: Vec<u32> = self.context.iter().map(|token| token.0).collect();
            // what ends a turn is not in the answer, but a next one stands behind it
            if ending.reason != Reason::Length
                && let Some(end) = tokenizer.special(Special::Eot).or(tokenizer.eos())
            {
                context.push(end.0);
            }
            document.insert("context".into(), context.into());
        }
        Value::Object(document)
    }
}
