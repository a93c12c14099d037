//! `/completion` and `/completions` without a version: llama-server's own form, which `/infill` has as well.

use super::chat::StreamExtras;
use super::completions::{self, Prompt};
use super::{logprobs, options};
use crate::app::App;
use crate::error::{Dialect, Failure};
use crate::fields::Fields;
use crate::generation::{
    Ending, Event, Generation, GenerationOptions, GenerationRequest, Reason, random_seed,
};
use crate::prompt_input;
use crate::request_context::RequestContext;
use crate::stream::{self, Framing, Writer, json};
use alloc::sync::Arc;
use axum::http::StatusCode;
use axum::response::Response;
use doorbell_core::token::TokenId;
use doorbell_runtime::serve::TokenReport;
use serde_json::{Value, json};

/// What the documents of an answer repeat.
struct Form {
    model: String,
    settings: Value,
    return_tokens: bool,
    /// Whether they are told, and whether they are those after sampling.
    probabilities: Option<bool>,
    extras: StreamExtras,
    /// The fields that a whole answer shall have, by their paths; all with none.
    fields: Vec<String>,
}

/// A prompt under way.
struct Run {
    index: usize,
    generation: Generation,
    prompt: String,
}

pub(crate) async fn completion(request: RequestContext) -> Result<Response, Failure> {
    let body = Arc::new(request.json().await?);
    let fields = Fields::of_request(&body)?;
    let list = fields.get("prompt").and_then(prompt_input::list).is_some();
    let prompts = request.read(&body, completions::prompts).await?;
    answer(&request, &body, prompts, list).await
}

/// The answer to prompts, by the fields that stand beside them; a list of documents or one.
pub(super) async fn answer(
    request: &RequestContext,
    body: &Arc<Value>,
    prompts: Vec<Prompt>,
    list: bool,
) -> Result<Response, Failure> {
    let fields = Fields::of_request(body)?;
    let mut options = request.read(body, options::options).await?;
    let probabilities = fields.count("n_probs")?.filter(|&count| count > 0);
    if let Some(count) = probabilities {
        let count = u8::try_from(count).ok().filter(|&count| count <= 20);
        options.params.logprobs = Some(count.ok_or_else(|| fields.wrong("n_probs", "must be at most 20"))?);
        options.params.post_sampling = fields.flag("post_sampling_probs")?.unwrap_or(false);
    }
    // one answer a prompt, as its documents have room for
    options.answers = 1;
    // told, so that it can be asked for again
    options.seed.get_or_insert_with(random_seed);
    let shape = options::shape(&fields)?;
    let form = Form {
        model: fields.text("model")?.unwrap_or(&request.app.model.name).to_owned(),
        settings: settings(&request.app, &options),
        return_tokens: fields.flag("return_tokens")?.unwrap_or(false),
        probabilities: probabilities.map(|_| options.params.post_sampling),
        extras: StreamExtras::of(&fields)?,
        fields: fields.texts("response_fields")?,
    };
    let mut runs = Vec::new();
    for (index, prompt) in prompts.into_iter().enumerate() {
        let order = GenerationRequest::text(prompt.tokens, options.clone(), shape.clone());
        runs.push(Run {
            index,
            generation: Generation::begin(&request.app, order).await?,
            prompt: prompt.text,
        });
    }
    if fields.flag("stream")?.unwrap_or(false) {
        let app = Arc::clone(&request.app);
        return Ok(stream::stream(Framing::Events, &request.app.streams, |writer| async move {
            write(&app, &form, &writer, runs).await;
        }));
    }
    let mut answers = Vec::new();
    for run in runs {
        answers.push(whole(&request.app, &form, run).await?);
    }
    let document = if list { Value::from(answers) } else { answers.pop().unwrap_or_default() };
    Ok(json(StatusCode::OK, &document))
}

/// llama-server's `generation_settings`.
fn settings(app: &App, options: &GenerationOptions) -> Value {
    let params = &options.params;
    let banned: Vec<TokenId> =
        if options.ignore_end { app.model.tokenizer.eog().collect() } else { Vec::new() };
    // JSON has no infinity; null is llama-server's word for it
    let own = options.bias.iter().map(|bias| json!({ "token": bias.token.0, "bias": bias.bias }));
    let ends = banned.iter().map(|token| json!({ "token": token.0, "bias": null }));
    let bias: Vec<Value> = own.chain(ends).collect();
    // all is -1
    let last = |count: u32| if count == u32::MAX { -1 } else { i64::from(count) };
    json!({
        "seed": options.seed,
        "temperature": params.temperature,
        "dynatemp_range": params.dynatemp_range,
        "dynatemp_exponent": params.dynatemp_exponent,
        "top_k": params.top_k,
        "top_p": params.top_p,
        "min_p": params.min_p,
        "top_n_sigma": params.top_n_sigma,
        "typical_p": params.typical_p,
        "xtc_probability": params.xtc.probability,
        "xtc_threshold": params.xtc.threshold,
        "repeat_last_n": last(params.penalties.last_n),
        "repeat_penalty": params.penalties.repeat,
        "presence_penalty": params.penalties.presence,
        "frequency_penalty": params.penalties.frequency,
        "dry_multiplier": params.dry.multiplier,
        "dry_base": params.dry.base,
        "dry_allowed_length": params.dry.allowed_length,
        "dry_penalty_last_n": last(params.dry.last_n),
        "adaptive_target": params.adaptive.target,
        "adaptive_decay": params.adaptive.decay,
        "mirostat_tau": params.mirostat.tau,
        "mirostat_eta": params.mirostat.eta,
        "stop": options.stops,
        "n_predict": options.max_tokens.map_or(-1, i64::from),
        "max_tokens": options.max_tokens.map_or(-1, i64::from),
        "ignore_eos": options.ignore_end,
        "logit_bias": bias,
        "n_probs": params.logprobs.unwrap_or(0),
        "post_sampling_probs": params.post_sampling,
        "min_keep": params.min_keep,
        "mirostat": params.mirostat.version as u8,
    })
}

/// The document of a piece: what every one of them has.
fn piece(run: &Run, form: &Form, content: &str, tokens: &[TokenReport]) -> Value {
    json!({
        "index": run.index,
        "content": content,
        "tokens": tokens.iter().map(|report| report.token.0).collect::<Vec<u32>>(),
        "stop": false,
        "model": form.model,
        "tokens_predicted": tokens.len(),
        "tokens_evaluated": run.generation.prompt_tokens,
    })
}

/// Adds what is known at the end.
fn end(document: &mut Value, run: &Run, form: &Form, ending: &Ending, has_new_line: bool) {
    let (kind, word) = match &ending.reason {
        Reason::Length => ("limit", ""),
        Reason::StopText(text) => ("word", text.as_str()),
        Reason::Stop | Reason::Calls => ("eos", ""),
    };
    let usage = &ending.usage;
    let more = json!({
        "stop": true,
        "tokens_predicted": usage.generated_tokens,
        "tokens_evaluated": usage.prompt_tokens,
        "tokens_cached": usage.prompt_tokens.saturating_add(usage.generated_tokens).saturating_sub(1),
        "generation_settings": form.settings,
        "prompt": run.prompt,
        "has_new_line": has_new_line,
        "truncated": ending.truncated,
        "stop_type": kind,
        "stopping_word": word,
        "timings": ending.timings(),
    });
    if let (Some(document), Value::Object(more)) = (document.as_object_mut(), more) {
        document.extend(more);
    }
}

/// Adds how likely the tokens were, if that was asked for.
fn probabilities(app: &App, form: &Form, document: &mut Value, tokens: &[TokenReport]) {
    let Some(post_sampling) = form.probabilities else { return };
    let found = if post_sampling { logprobs::drawn(app, tokens) } else { logprobs::chat(app, tokens) };
    if let Some(found) = found {
        document["completion_probabilities"] = found["content"].clone();
    }
}

/// The fields that were asked for, each under its path.
fn chosen(form: &Form, document: Value) -> Value {
    if form.fields.is_empty() {
        return document;
    }
    let found = form.fields.iter().filter_map(|path| {
        let value = document.pointer(&format!("/{path}"))?;
        Some((path.clone(), value.clone()))
    });
    Value::Object(found.collect())
}

async fn whole(app: &App, form: &Form, mut run: Run) -> Result<Value, Failure> {
    let (mut content, mut tokens) = (String::new(), Vec::new());
    while let Some((_, part)) = run.generation.next().await {
        match part {
            Event::Prefill(_) => {}
            Event::More { text, tokens: more, .. } => {
                content.push_str(&text);
                tokens.extend(more);
            }
            Event::Failed(failure) => return Err(failure),
            Event::Over(ending) => {
                let shown = if form.return_tokens { tokens.as_slice() } else { &[] };
                let mut document = piece(&run, form, &content, shown);
                end(&mut document, &run, form, &ending, content.contains('\n'));
                probabilities(app, form, &mut document, &tokens);
                return Ok(chosen(form, document));
            }
        }
    }
    Ok(Value::Null)
}

async fn write(app: &App, form: &Form, writer: &Writer, runs: Vec<Run>) {
    for mut run in runs {
        let mut has_new_line = false;
        while let Some((index, part)) = run.generation.next().await {
            match part {
                Event::Prefill(progress) if form.extras.progress => {
                    let mut document = piece(&run, form, "", &[]);
                    document["prompt_progress"] = progress.document();
                    timings(form, &run, index, &mut document);
                    writer.data(&document);
                }
                Event::Prefill(_) => {}
                Event::More { text, tokens, .. } => {
                    has_new_line |= text.contains('\n');
                    let mut document = piece(&run, form, &text, &tokens);
                    probabilities(app, form, &mut document, &tokens);
                    timings(form, &run, index, &mut document);
                    writer.data(&document);
                }
                Event::Over(ending) => {
                    let mut document = piece(&run, form, "", &[]);
                    end(&mut document, &run, form, &ending, has_new_line);
                    writer.data(&document);
                }
                Event::Failed(failure) => return writer.data(&failure.document(Dialect::OpenAi)),
            }
        }
    }
}

/// Adds times, if those of every token were asked for.
fn timings(form: &Form, run: &Run, index: usize, document: &mut Value) {
    if form.extras.timings {
        document["timings"] = run.generation.timings(index);
    }
}
