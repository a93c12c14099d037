//! `/v1/chat/completions`

use super::{chat_stream, logprobs, options};
use crate::app::{self, App};
use crate::conversation::{self, Conversation};
use crate::error::Failure;
use crate::fields::Fields;
use crate::generation::{Ending, Event, Generation, Total};
use crate::request_context::{self, RequestContext};
use crate::stream::json;
use alloc::sync::Arc;
use axum::http::StatusCode;
use axum::response::Response;
use doorbell_runtime::answer::{Continuation, Delta, ToolChoice};
use doorbell_runtime::serve::TokenReport;
use serde_json::{Map, Value, json};

/// What all documents of one answer repeat.
#[derive(Clone, Debug)]
pub(crate) struct AnswerHeader {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
}

impl AnswerHeader {
    pub(crate) fn new(request: &RequestContext, prefix: &str, requested: Option<&str>) -> Self {
        let model = requested.filter(|name| !name.is_empty()).unwrap_or(&request.app.model.name);
        Self { id: request_context::unique_id(prefix), created: app::now(), model: model.to_owned() }
    }

    /// A document of this kind, without choices.
    pub(crate) fn document(&self, object: &str) -> Map<String, Value> {
        let mut document = Map::new();
        document.insert("id".into(), self.id.as_str().into());
        document.insert("object".into(), object.into());
        document.insert("created".into(), self.created.into());
        document.insert("model".into(), self.model.as_str().into());
        document.insert("system_fingerprint".into(), concat!("doorbell-", env!("CARGO_PKG_VERSION")).into());
        document
    }
}

pub(crate) async fn completions(request: RequestContext) -> Result<Response, Failure> {
    let body = Arc::new(request.json().await?);
    let conversation = request.read(&body, conversation).await?;
    let fields = Fields::of_request(&body)?;
    let extras = StreamExtras::of(&fields)?;
    let header = AnswerHeader::new(&request, "chatcmpl-", fields.text("model")?);
    let mut order = conversation::order(&request.app, conversation).await?;
    let prompt = core::mem::take(&mut order.text);
    let generation = Generation::begin(&request.app, order).await?;
    if fields.flag("stream")?.unwrap_or(false) {
        return Ok(chat_stream::respond(&request, header, extras, generation));
    }
    let mut document = whole(&request, &header, generation).await?;
    if fields.flag("verbose")?.unwrap_or(false) {
        // llama-server's word for what the template made of the messages
        document.insert("__verbose".into(), json!({ "prompt": prompt }));
    }
    Ok(json(StatusCode::OK, &Value::Object(document)))
}

/// How many tokens a conversation has.
pub(crate) async fn count(request: RequestContext) -> Result<Response, Failure> {
    let body = Arc::new(request.json().await?);
    let (_, rendered) =
        conversation::rendered(&request.app, request.read(&body, conversation).await?).await?;
    Ok(counted(rendered.tokens.len()))
}

/// `OpenAI`'s document about the length of an input.
pub(super) fn counted(tokens: usize) -> Response {
    json(StatusCode::OK, &json!({ "object": "response.input_tokens", "input_tokens": tokens }))
}

/// What a stream shall tell beside the answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamExtras {
    pub(super) usage: bool,
    pub(super) progress: bool,
    /// Times in every chunk.
    pub(super) timings: bool,
}

impl StreamExtras {
    pub(super) fn of(fields: &Fields<'_>) -> Result<Self, Failure> {
        let usage = match fields.get("stream_options") {
            Some(options) => Fields::of(options, "stream_options")?.flag("include_usage")?,
            None => None,
        };
        Ok(Self {
            usage: usage.unwrap_or(false),
            progress: fields.flag("return_progress")?.unwrap_or(false),
            timings: fields.flag("timings_per_token")?.unwrap_or(false),
        })
    }
}

/// The conversation of a request.
pub(crate) fn conversation(app: &App, fields: &Fields<'_>) -> Result<Conversation, Failure> {
    let messages = fields.list("messages")?.ok_or_else(|| fields.wrong("messages", "is missing"))?;
    let mut options = options::options(app, fields)?;
    if fields.flag("logprobs")?.unwrap_or(false) {
        let top = fields.count("top_logprobs")?.unwrap_or(0);
        let top = u8::try_from(top).ok().filter(|&top| top <= 20);
        options.params.logprobs =
            Some(top.ok_or_else(|| fields.wrong("top_logprobs", "must be at most 20"))?);
    } else if fields.count("top_logprobs")?.is_some_and(|top| top > 0) {
        return Err(fields.wrong("top_logprobs", "needs logprobs to be true"));
    }
    let mut tools = fields.list("tools")?.unwrap_or_default().to_vec();
    for (index, tool) in tools.iter().enumerate() {
        if tool.get("function").and_then(tool_name).is_none() {
            return Err(Failure::field(format!("tools[{index}].function.name"), "must be a string"));
        }
    }
    let choice = tool_choice(fields, &mut tools)?;
    Ok(Conversation {
        messages: conversation::messages(messages)?,
        tools,
        choice,
        one_call: fields.flag("parallel_tool_calls")? == Some(false),
        shape: options::shape(fields)?,
        variables: variables(fields)?,
        split_reasoning: fields.text("reasoning_format")? != Some("none"),
        continuation: continuation(fields)?,
        options,
    })
}

/// The fields `add_generation_prompt` and `continue_final_message` of vLLM and transformers.
fn continuation(fields: &Fields<'_>) -> Result<Continuation, Failure> {
    let new = fields.flag("add_generation_prompt")?;
    match (new, fields.flag("continue_final_message")?) {
        (Some(true), Some(true)) => Err(fields.wrong(
            "continue_final_message",
            "can't be true beside add_generation_prompt, which begins a new message",
        )),
        (_, Some(true)) => Ok(Continuation::LastMessage),
        (Some(false), _) => Ok(Continuation::Closed),
        (_, Some(false)) => Ok(Continuation::NewMessage),
        (_, None) => Ok(Continuation::Auto),
    }
}

/// Which tools are called, if any; those that may not be are taken away.
pub(super) fn tool_choice(fields: &Fields<'_>, tools: &mut Vec<Value>) -> Result<ToolChoice, Failure> {
    let Some(choice) = fields.get("tool_choice") else { return Ok(ToolChoice::Auto) };
    let allowed = (choice["type"] == "allowed_tools").then(|| choice.get("allowed_tools").unwrap_or(choice));
    if let Some(list) = allowed.and_then(|allowed| allowed["tools"].as_array()) {
        tools.retain(|tool| list.iter().any(|allowed| tool_name(allowed) == tool_name(tool)));
    }
    match allowed.map_or(choice, |allowed| &allowed["mode"]) {
        Value::String(word) => match word.as_str() {
            "none" => Ok(ToolChoice::None),
            "auto" => Ok(ToolChoice::Auto),
            "required" => Ok(ToolChoice::Required),
            _ => Err(fields.wrong("tool_choice", "must be none, auto, required or a function")),
        },
        value => {
            let name = tool_name(value);
            let name = name.ok_or_else(|| fields.wrong("tool_choice.function.name", "must be a string"))?;
            Ok(ToolChoice::Named(name.to_owned()))
        }
    }
}

/// What a tool is called, in the form of either API.
fn tool_name(tool: &Value) -> Option<&str> {
    tool.get("function").unwrap_or(tool).get("name")?.as_str()
}

/// The template's variables that a request sets.
fn variables(fields: &Fields<'_>) -> Result<Map<String, Value>, Failure> {
    let mut variables = Map::new();
    if let Some(effort) = fields.text("reasoning_effort")? {
        if effort == "none" {
            variables.insert("enable_thinking".into(), false.into());
        } else {
            variables.insert("reasoning_effort".into(), effort.into());
        }
    }
    if let Some(more) = fields.object("chat_template_kwargs")? {
        variables.extend(more.clone());
    }
    Ok(variables)
}

/// An answer put together.
#[derive(Debug, Default)]
pub(crate) struct Message {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) tokens: Vec<TokenReport>,
    pub(crate) ending: Option<Ending>,
}

/// A call put together.
#[derive(Clone, Debug)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl Message {
    pub(crate) fn take(&mut self, deltas: Vec<Delta>, tokens: Vec<TokenReport>) {
        for delta in deltas {
            match delta {
                Delta::Reasoning(text) => self.reasoning.push_str(&text),
                Delta::Text(text) => self.text.push_str(&text),
                Delta::Call { name, .. } => {
                    self.calls.push(ToolCall {
                        id: request_context::unique_id("call_"),
                        name,
                        arguments: String::new(),
                    });
                }
                Delta::Arguments { index, text } => {
                    if let Some(call) = self.calls.get_mut(index) {
                        call.arguments.push_str(&text);
                    }
                }
            }
        }
        self.tokens.extend(tokens);
    }

    fn document(&self) -> Value {
        let mut message = Map::new();
        message.insert("role".into(), "assistant".into());
        let silent = self.text.is_empty() && !self.calls.is_empty();
        message.insert("content".into(), if silent { Value::Null } else { self.text.as_str().into() });
        message.insert("refusal".into(), Value::Null);
        if !self.reasoning.is_empty() {
            message.insert("reasoning_content".into(), self.reasoning.as_str().into());
        }
        if !self.calls.is_empty() {
            message.insert("tool_calls".into(), self.calls.iter().map(ToolCall::document).collect());
        }
        Value::Object(message)
    }
}

impl ToolCall {
    /// The arguments for protocols in which they are an object; what is none, as a call that was cut, stays readable.
    pub(crate) fn input(&self) -> Value {
        match serde_json::from_str(&self.arguments) {
            Ok(value @ Value::Object(_)) => value,
            Ok(value) => json!({ "arguments": value }),
            Err(_) => json!({ "arguments": self.arguments }),
        }
    }

    fn document(&self) -> Value {
        json!({
            "id": self.id,
            "type": "function",
            "function": { "name": self.name, "arguments": self.arguments },
        })
    }
}

/// All answers put together, or the first failure.
pub(crate) async fn collect(mut generation: Generation, answers: usize) -> Result<Vec<Message>, Failure> {
    let mut messages: Vec<Message> = (0..answers).map(|_| Message::default()).collect();
    while let Some((index, part)) = generation.next().await {
        match part {
            Event::Prefill(_) => {}
            Event::More { deltas, tokens, .. } => messages[index].take(deltas, tokens),
            Event::Over(ending) => messages[index].ending = Some(ending),
            Event::Failed(failure) => return Err(failure),
        }
    }
    Ok(messages)
}

async fn whole(
    request: &RequestContext,
    header: &AnswerHeader,
    generation: Generation,
) -> Result<Map<String, Value>, Failure> {
    let answers = generation.answers();
    let messages = collect(generation, answers).await?;
    let mut total = Total::default();
    let mut choices = Vec::new();
    let mut timings = Value::Null;
    for (index, message) in messages.iter().enumerate() {
        let ending = message.ending.as_ref();
        if let Some(ending) = ending {
            total.add(ending);
            timings = ending.timings();
        }
        choices.push(json!({
            "index": index,
            "message": message.document(),
            "logprobs": logprobs::chat(&request.app, &message.tokens),
            "finish_reason": ending.map(|ending| ending.reason.word()),
        }));
    }
    let mut document = header.document("chat.completion");
    document.insert("choices".into(), choices.into());
    document.insert("usage".into(), total.usage());
    document.insert("timings".into(), timings);
    Ok(document)
}
