//! `/api/chat` and `/api/generate`

use super::input;
use super::lines::{AnswerForm, Lines, PendingOutput};
use crate::conversation;
use crate::error::{Dialect, Failure};
use crate::fields::Fields;
use crate::generation::{CollectedAnswer, Event, Generation, GenerationRequest, collect};
use crate::openai::fill_in;
use crate::request_context::RequestContext;
use crate::stream::{self, Framing, Writer, json};
use alloc::sync::Arc;
use axum::http::StatusCode;
use axum::response::Response;
use doorbell_core::token::{EncodeOptions, TokenId};
use serde_json::{Value, json};

pub(crate) async fn chat(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    let messages = fields.list("messages")?.unwrap_or_default();
    if messages.is_empty() {
        return Ok(loaded(&request, &fields, AnswerForm::Chat));
    }
    let conversation = input::conversation(&request, &fields, messages)?;
    let generated = conversation::generation_request(&request.app, conversation).await?;
    respond(&request, &fields, AnswerForm::Chat, generated).await
}

/// The prompt of `/api/generate` and the fields that decide its form.
struct GeneratePrompt<'f> {
    prompt: &'f str,
    system: Option<&'f str>,
    suffix: Option<&'f str>,
    /// Tokens of earlier prompts and answers.
    context: Vec<TokenId>,
    /// True if the prompt is not rendered by the template.
    raw: bool,
}

impl<'f> GeneratePrompt<'f> {
    fn of(request: &RequestContext, fields: &Fields<'f>, prompt: &'f str) -> Result<Self, Failure> {
        if fields.list("images")?.is_some_and(|images| !images.is_empty()) {
            return Err(fields.wrong("images", "images are not supported by this model"));
        }
        let text = |name| fields.text(name).map(|text| text.filter(|text| !text.is_empty()));
        if text("template")?.is_some() {
            return Err(fields.wrong("template", "is the server's; start it with --chat-template-file"));
        }
        let (system, suffix) = (text("system")?, text("suffix")?);
        let context = input::context(&request.app, fields)?;
        let raw = fields.flag("raw")?.unwrap_or(false);
        if raw && (system.is_some() || !context.is_empty()) {
            return Err(fields.wrong("raw", "a prompt that is taken as it is has no system and no context"));
        }
        Ok(Self { prompt, system, suffix, context, raw })
    }
}

pub(crate) async fn generate(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    let prompt = fields.text("prompt")?.unwrap_or_default();
    if prompt.is_empty() {
        return Ok(loaded(&request, &fields, AnswerForm::Generate));
    }
    let GeneratePrompt { prompt, system, suffix, context, raw } =
        GeneratePrompt::of(&request, &fields, prompt)?;
    let (app, text) = (Arc::clone(&request.app), prompt.to_owned());
    if let Some(suffix) = suffix.map(ToOwned::to_owned) {
        let prompt = request.work(move || fill_in::with_suffix(&app, &text, &suffix)).await?;
        let options = input::options(&request, &fields)?;
        let generated = GenerationRequest::plain(prompt.tokens, options, input::answer_format(&fields)?);
        return respond(&request, &fields, AnswerForm::Raw, generated).await;
    }
    if raw || request.app.model.template.is_none() {
        let special = EncodeOptions { add_special: true, parse_special: true };
        let tokens = request.work(move || app.encode(&text, special)).await?;
        let options = input::options(&request, &fields)?;
        let generated = GenerationRequest::plain(tokens, options, input::answer_format(&fields)?);
        return respond(&request, &fields, AnswerForm::Raw, generated).await;
    }
    let mut messages = Vec::new();
    if let Some(system) = system {
        messages.push(json!({ "role": "system", "content": system }));
    }
    messages.push(json!({ "role": "user", "content": prompt }));
    let conversation = input::conversation(&request, &fields, &messages)?;
    let mut generated = conversation::generation_request(&app, conversation).await?;
    if !context.is_empty() {
        generated.prompt = after_context(context, &generated.prompt, app.model.tokenizer.bos());
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
fn loaded(request: &RequestContext, fields: &Fields<'_>, form: AnswerForm) -> Response {
    let mut document = Lines::new(request, fields, form, &[]).document(&CollectedAnswer::default());
    document.insert("done".into(), true.into());
    let reason = if unloads(fields) { "unload" } else { "load" };
    document.insert("done_reason".into(), reason.into());
    json(StatusCode::OK, &Value::Object(document))
}

async fn respond(
    request: &RequestContext,
    fields: &Fields<'_>,
    form: AnswerForm,
    generated: GenerationRequest,
) -> Result<Response, Failure> {
    let mut lines = Lines::new(request, fields, form, &generated.prompt);
    let generation = Generation::begin(&request.app, generated).await?;
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
