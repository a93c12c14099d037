//! `/api/chat` and `/api/generate`

use super::input;
use super::lines::{AnswerForm, Lines, PendingOutput};
use crate::app::App;
use crate::conversation::{self, Conversation};
use crate::error::{Dialect, Failure};
use crate::fields::Fields;
use crate::generation::{CollectedAnswer, Event, Generation, GenerationRequest, collect};
use crate::openai::fill_in;
use crate::request_context::RequestContext;
use crate::stream::{self, Framing, Writer, json};
use axum::http::StatusCode;
use axum::response::Response;
use doorbell_core::token::{EncodeOptions, TokenId};
use serde_json::{Value, json};

pub(crate) async fn chat(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    if fields.list("messages")?.unwrap_or_default().is_empty() {
        return loaded(&request, &fields, AnswerForm::Chat);
    }
    let read = |app: &App, fields: &Fields<'_>| {
        input::conversation(app, fields, fields.list("messages")?.unwrap_or_default())
    };
    let conversation = request.read(&body, read).await?;
    let generated = conversation::generation_request(&request, conversation).await?;
    respond(&request, &fields, AnswerForm::Chat, generated).await
}

/// The kind of answer that `/api/generate` asks for.
enum Wanted {
    /// The prompt is continued as it stands.
    Raw(Box<GenerationRequest>),
    /// The prompt is a message, after the tokens of earlier prompts and answers.
    Message(Box<Conversation>, Vec<TokenId>),
}

impl Wanted {
    fn of(app: &App, fields: &Fields<'_>) -> Result<Self, Failure> {
        if fields.list("images")?.is_some_and(|images| !images.is_empty()) {
            return Err(fields.wrong("images", "images are not supported by this model"));
        }
        let text = |name| fields.text(name).map(|text| text.filter(|text| !text.is_empty()));
        if text("template")?.is_some() {
            return Err(fields.wrong("template", "is the server's; start it with --chat-template-file"));
        }
        let prompt = text("prompt")?.unwrap_or_default();
        let (system, suffix) = (text("system")?, text("suffix")?);
        let context = input::context(app, fields)?;
        let raw = fields.flag("raw")?.unwrap_or(false);
        if raw && (system.is_some() || !context.is_empty()) {
            return Err(fields.wrong("raw", "a prompt that is taken as it is has no system and no context"));
        }
        let tokens = match suffix {
            Some(suffix) => fill_in::with_suffix(app, prompt, suffix)?.tokens,
            None if raw || app.model.template.is_none() => {
                app.encode(prompt, EncodeOptions { add_special: true, parse_special: true })?
            }
            None => {
                let mut messages = Vec::new();
                if let Some(system) = system {
                    messages.push(json!({ "role": "system", "content": system }));
                }
                messages.push(json!({ "role": "user", "content": prompt }));
                let conversation = input::conversation(app, fields, &messages)?;
                return Ok(Self::Message(Box::new(conversation), context));
            }
        };
        let options = input::options(app, fields)?;
        let request = GenerationRequest::plain(tokens, options, input::answer_format(fields)?);
        Ok(Self::Raw(Box::new(request)))
    }
}

pub(crate) async fn generate(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    if fields.text("prompt")?.unwrap_or_default().is_empty() {
        return loaded(&request, &fields, AnswerForm::Generate);
    }
    let (conversation, context) = match request.read(&body, Wanted::of).await? {
        Wanted::Raw(generated) => return respond(&request, &fields, AnswerForm::Raw, *generated).await,
        Wanted::Message(conversation, context) => (conversation, context),
    };
    let mut generated = conversation::generation_request(&request, *conversation).await?;
    if !context.is_empty() {
        let bos = request.app.model.tokenizer.bos();
        generated.prompt = after_context(context, &generated.prompt, bos);
    }
    respond(&request, &fields, AnswerForm::Generate, generated).await
}

/// A prompt after the tokens of earlier ones, without a second BOS token.
fn after_context(context: Vec<TokenId>, prompt: &[TokenId], bos: Option<TokenId>) -> Vec<TokenId> {
    let begins_with_bos = bos.is_some() && prompt.first().copied() == bos;
    let rest = &prompt[usize::from(begins_with_bos)..];
    [&context, rest].concat()
}

/// True if `keep_alive` asks to unload the model: 0, as a number or as a duration such as `0s`.
fn unloads(fields: &Fields<'_>) -> bool {
    match fields.get("keep_alive") {
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(Value::String(text)) => {
            let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
            digits.parse::<f64>() == Ok(0.0)
        }
        _ => false,
    }
}

/// The answer to a request without a prompt, which only loads or unloads the model. It is always loaded; clients that
/// unload it wait for this word.
fn loaded(request: &RequestContext, fields: &Fields<'_>, form: AnswerForm) -> Result<Response, Failure> {
    let mut document = Lines::new(request, fields, form, &[])?.document(&CollectedAnswer::default());
    document.insert("done".into(), true.into());
    let reason = if unloads(fields) { "unload" } else { "load" };
    document.insert("done_reason".into(), reason.into());
    Ok(json(StatusCode::OK, &Value::Object(document)))
}

async fn respond(
    request: &RequestContext,
    fields: &Fields<'_>,
    form: AnswerForm,
    generated: GenerationRequest,
) -> Result<Response, Failure> {
    let mut lines = Lines::new(request, fields, form, &generated.prompt)?;
    let generation = Generation::begin(request, generated).await?;
    if fields.flag("stream")?.unwrap_or(true) {
        return Ok(stream::stream(Framing::Lines, &request.app.streams, |writer| {
            write(lines, generation, writer)
        }));
    }
    let answer = collect(generation).await?.pop().unwrap_or_default();
    lines.add_tokens(&answer.tokens);
    let document = match &answer.outcome {
        Some(outcome) => lines.last(&answer, outcome),
        None => Value::Object(lines.document(&answer)),
    };
    Ok(json(StatusCode::OK, &document))
}

async fn write(mut lines: Lines, mut generation: Generation, writer: Writer) {
    let mut pending = PendingOutput::default();
    while let Some((_, event)) = generation.next().await {
        match event {
            Event::Prompt(_) => {}
            Event::Output { deltas, tokens, .. } => {
                lines.add_tokens(&tokens);
                pending.tokens.extend(tokens);
                for message in pending.add(deltas) {
                    writer.data(&lines.partial(&message));
                }
            }
            Event::Finished(outcome) => {
                if let Some(message) = pending.take_call() {
                    writer.data(&lines.partial(&message));
                }
                let rest = CollectedAnswer { tokens: pending.tokens, ..CollectedAnswer::default() };
                return writer.data(&lines.last(&rest, &outcome));
            }
            Event::Failed(failure) => return writer.data(&failure.document(Dialect::Ollama)),
        }
    }
}
