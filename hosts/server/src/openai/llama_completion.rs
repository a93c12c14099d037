//! `/completion`, and `/completions` without a version: llama-server's own form, which `/infill` has as well.

use super::prompts::prompts;
use super::stream_extras::StreamExtras;
use super::{document, logprobs, options};
use crate::app::App;
use crate::error::{Dialect, Failure};
use crate::fields::Fields;
use crate::generation::{Event, Generation, GenerationOptions, GenerationRequest, Outcome, random_seed};
use crate::prompt_input::{self, Prompt};
use crate::request_context::{Document, RequestContext};
use crate::stream::{self, Framing, Writer, json};
use alloc::sync::Arc;
use axum::http::StatusCode;
use axum::response::Response;
use doorbell_core::engine::FinishReason;
use doorbell_core::token::TokenId;
use doorbell_runtime::serve::TokenReport;
use serde_json::{Value, json};

/// Names in `response_fields`.
const MAX_FIELDS: usize = 64;

/// Facts that the documents of a response repeat, and the fields that they have.
struct Documents {
    app: Arc<App>,
    model: String,
    settings: Value,
    return_tokens: bool,
    probabilities: Probabilities,
    extras: StreamExtras,
    /// JSON paths of the fields that a whole answer has; empty for all fields.
    fields: Vec<String>,
}

/// Token probabilities in documents.
#[derive(Clone, Copy)]
enum Probabilities {
    None,
    /// Of the model.
    BeforeSampling,
    /// After the samplers.
    AfterSampling,
}

/// A prompt whose answer is generated.
struct RunningPrompt {
    index: usize,
    generation: Generation,
    text: String,
}

pub(crate) async fn completion(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    let list = fields.get("prompt").and_then(prompt_input::list).is_some();
    let prompts = request.read(&body, prompts).await?;
    respond(&request, &body, prompts, list).await
}

/// Answers prompts with the other fields of a request. The response is a list of documents if `list`, else one.
pub(super) async fn respond(
    request: &RequestContext,
    body: &Document,
    prompts: Vec<Prompt>,
    list: bool,
) -> Result<Response, Failure> {
    let fields = Fields::of_request(body)?;
    let mut options = request.read(body, options::options).await?;
    let probabilities = probabilities(&fields, &mut options)?;
    // a document has room for one answer
    options.answers = 1;
    // reported, so that a client can repeat the request
    options.seed.get_or_insert_with(random_seed);
    let format = options::answer_format(&fields)?;
    let documents = Documents {
        app: Arc::clone(&request.app),
        model: fields.model(&request.app.model.name)?.to_owned(),
        settings: settings(&request.app, &options, options::max_tokens(&fields)?),
        return_tokens: fields.flag("return_tokens")?.unwrap_or(false),
        probabilities,
        extras: StreamExtras::of(&fields)?,
        fields: response_fields(&fields)?,
    };
    let mut running = Vec::new();
    for (index, Prompt { tokens, text }) in prompts.into_iter().enumerate() {
        let generated = GenerationRequest::plain(tokens, options.clone(), format.clone());
        let generation = Generation::begin(request, generated).await?;
        running.push(RunningPrompt { index, generation, text });
    }
    if fields.flag("stream")?.unwrap_or(false) {
        return Ok(stream::stream(Framing::Events, &request.app.streams, |writer| async move {
            documents.write(&writer, running).await;
        }));
    }
    let mut answers = Vec::new();
    for prompt in running {
        answers.push(documents.whole(prompt).await?);
    }
    let document = if list { Value::from(answers) } else { answers.pop().unwrap_or_default() };
    Ok(json(StatusCode::OK, &document))
}

/// The fields that a whole answer has. Each repeats a part of it.
fn response_fields(fields: &Fields<'_>) -> Result<Vec<String>, Failure> {
    let names = fields.texts("response_fields")?;
    if names.len() > MAX_FIELDS {
        return Err(fields.wrong("response_fields", format_args!("must be at most {MAX_FIELDS} names")));
    }
    Ok(names)
}

/// Reads `n_probs` and `post_sampling_probs`, and sets the options to report probabilities.
fn probabilities(fields: &Fields<'_>, options: &mut GenerationOptions) -> Result<Probabilities, Failure> {
    let Some(count) = fields.count("n_probs")?.filter(|&count| count > 0) else {
        return Ok(Probabilities::None);
    };
    let count = u8::try_from(count).ok().filter(|&count| count <= 20);
    let sampler = &mut options.params.sampler;
    sampler.logprobs = Some(count.ok_or_else(|| fields.wrong("n_probs", "must be at most 20"))?);
    sampler.post_sampling = fields.flag("post_sampling_probs")?.unwrap_or(false);
    Ok(if sampler.post_sampling { Probabilities::AfterSampling } else { Probabilities::BeforeSampling })
}

/// llama-server's `generation_settings`. `max_tokens` is the limit of the request, if it has one.
fn settings(app: &App, options: &GenerationOptions, max_tokens: Option<u32>) -> Value {
    let (params, sampler) = (&options.params, &options.params.sampler);
    let banned: Vec<TokenId> =
        if params.ignore_end { app.model.tokenizer.eog().collect() } else { Vec::new() };
    // JSON has no infinity; llama-server writes null
    let own = params.bias.iter().map(|bias| json!({ "token": bias.token.0, "bias": bias.bias }));
    let ends = banned.iter().map(|token| json!({ "token": token.0, "bias": null }));
    let bias: Vec<Value> = own.chain(ends).collect();
    // -1 means all tokens
    let window = |count: u32| if count == u32::MAX { -1 } else { i64::from(count) };
    json!({
        "seed": options.seed,
        "temperature": sampler.temperature,
        "dynatemp_range": sampler.dynatemp_range,
        "dynatemp_exponent": sampler.dynatemp_exponent,
        "top_k": sampler.top_k,
        "top_p": sampler.top_p,
        "min_p": sampler.min_p,
        "top_n_sigma": sampler.top_n_sigma,
        "typical_p": sampler.typical_p,
        "xtc_probability": sampler.xtc.probability,
        "xtc_threshold": sampler.xtc.threshold,
        "repeat_last_n": window(sampler.penalties.last_n),
        "repeat_penalty": sampler.penalties.repeat,
        "presence_penalty": sampler.penalties.presence,
        "frequency_penalty": sampler.penalties.frequency,
        "dry_multiplier": sampler.dry.multiplier,
        "dry_base": sampler.dry.base,
        "dry_allowed_length": sampler.dry.allowed_length,
        "dry_penalty_last_n": window(sampler.dry.last_n),
        "adaptive_target": sampler.adaptive.target,
        "adaptive_decay": sampler.adaptive.decay,
        "mirostat_tau": sampler.mirostat.tau,
        "mirostat_eta": sampler.mirostat.eta,
        "stop": options.stops.texts(),
        "n_predict": max_tokens.map_or(-1, i64::from),
        "max_tokens": max_tokens.map_or(-1, i64::from),
        "ignore_eos": params.ignore_end,
        "logit_bias": bias,
        "n_probs": sampler.logprobs.unwrap_or(0),
        "post_sampling_probs": sampler.post_sampling,
        "min_keep": sampler.min_keep,
        "mirostat": sampler.mirostat.version as u8,
    })
}

/// llama-server's `stop_type` and `stopping_word`.
fn stop_type(outcome: &Outcome) -> (&'static str, &str) {
    match outcome.reason {
        FinishReason::MaxTokens | FinishReason::ContextFull => ("limit", ""),
        FinishReason::StopString(_) => ("word", outcome.stop_text.as_deref().unwrap_or_default()),
        _ => ("eos", ""),
    }
}

impl Documents {
    /// The fields that every document has.
    fn piece(&self, prompt: &RunningPrompt, content: &str, tokens: &[TokenReport]) -> Value {
        json!({
            "index": prompt.index,
            "content": content,
            "tokens": tokens.iter().map(|report| report.token.0).collect::<Vec<u32>>(),
            "stop": false,
            "model": self.model,
            "tokens_predicted": tokens.len(),
            "tokens_evaluated": prompt.generation.prompt_tokens,
        })
    }

    /// Adds the fields of the last document.
    fn end(&self, document: &mut Value, prompt: &str, outcome: &Outcome, has_new_line: bool) {
        let (stop_type, word) = stop_type(outcome);
        let usage = &outcome.usage;
        let more = json!({
            "stop": true,
            "tokens_predicted": usage.generated_tokens,
            "tokens_evaluated": usage.prompt_tokens,
            "tokens_cached": usage.prompt_tokens.saturating_add(usage.generated_tokens).saturating_sub(1),
            "generation_settings": self.settings,
            "prompt": prompt,
            "has_new_line": has_new_line,
            "truncated": outcome.truncated(),
            "stop_type": stop_type,
            "stopping_word": word,
            "timings": outcome.timings().document(),
        });
        if let (Some(document), Value::Object(more)) = (document.as_object_mut(), more) {
            document.extend(more);
        }
    }

    /// Adds the probabilities of tokens, if the request wants them.
    fn probabilities(&self, document: &mut Value, tokens: &[TokenReport]) {
        let found = match self.probabilities {
            Probabilities::None => return,
            Probabilities::BeforeSampling => logprobs::chat(&self.app, tokens),
            Probabilities::AfterSampling => logprobs::after_sampling(&self.app, tokens),
        };
        if let Some(found) = found {
            document["completion_probabilities"] = found["content"].clone();
        }
    }

    /// Adds timings, if the request wants them with every token.
    fn timings(&self, document: &mut Value, prompt: &RunningPrompt, index: usize) {
        if self.extras.timings {
            document["timings"] = prompt.generation.timings(index).document();
        }
    }

    /// Keeps only the fields that the request names, each under its path.
    fn select(&self, document: Value) -> Value {
        if self.fields.is_empty() {
            return document;
        }
        let found = self.fields.iter().filter_map(|path| {
            let value = document.pointer(&format!("/{path}"))?;
            Some((path.clone(), value.clone()))
        });
        Value::Object(found.collect())
    }

    /// The document of a whole answer.
    async fn whole(&self, mut prompt: RunningPrompt) -> Result<Value, Failure> {
        let (mut content, mut tokens) = (String::new(), Vec::new());
        while let Some((_, event)) = prompt.generation.next().await {
            match event {
                Event::Prompt(_) => {}
                Event::Output { text, tokens: more, .. } => {
                    content.push_str(&text);
                    tokens.extend(more);
                }
                Event::Failed(failure) => return Err(failure),
                Event::Finished(outcome) => {
                    let shown = if self.return_tokens { tokens.as_slice() } else { &[] };
                    let mut document = self.piece(&prompt, &content, shown);
                    self.end(&mut document, &prompt.text, &outcome, content.contains('\n'));
                    self.probabilities(&mut document, &tokens);
                    return Ok(self.select(document));
                }
            }
        }
        Ok(Value::Null)
    }

    /// Streams the answers to the prompts one after the other.
    async fn write(&self, writer: &Writer, running: Vec<RunningPrompt>) {
        for mut prompt in running {
            let mut has_new_line = false;
            while let Some((index, event)) = prompt.generation.next().await {
                match event {
                    Event::Prompt(progress) if self.extras.progress => {
                        let mut document = self.piece(&prompt, "", &[]);
                        document["prompt_progress"] = document::prompt_progress(&progress);
                        self.timings(&mut document, &prompt, index);
                        writer.data(&document);
                    }
                    Event::Prompt(_) => {}
                    Event::Output { text, tokens, .. } => {
                        has_new_line |= text.contains('\n');
                        let mut document = self.piece(&prompt, &text, &tokens);
                        self.probabilities(&mut document, &tokens);
                        self.timings(&mut document, &prompt, index);
                        writer.data(&document);
                    }
                    Event::Finished(outcome) => {
                        let mut document = self.piece(&prompt, "", &[]);
                        self.end(&mut document, &prompt.text, &outcome, has_new_line);
                        writer.data(&document);
                    }
                    Event::Failed(failure) => return writer.data(&failure.document(Dialect::OpenAi)),
                }
            }
        }
    }
}
