//! `/v1/completions`: prompts are continued as they stand.

use super::chat::{Header, Wants};
use super::{infill, logprobs, options};
use crate::app::App;
use crate::call::Call;
use crate::error::{Dialect, Failure};
use crate::fields::Fields;
use crate::generate::{Generation, Order, Part, Total};
use crate::reading::read;
use crate::stream::{self, Framing, Gone, Writer, json};
use crate::texts;
use alloc::sync::Arc;
use axum::http::StatusCode;
use axum::response::Response;
use doorbell_core::token::TokenId;
use doorbell_runtime::serve::{Aim, ReadResult, TokenReport};
use serde_json::{Map, Value, json};

/// Prompts of one request.
const MOST_PROMPTS: usize = 64;

/// Tokens that a request without a limit gets, as `OpenAI` has it.
const DEFAULT_TOKENS: u32 = 16;

/// One prompt.
pub(super) struct Prompt {
    pub(super) tokens: Vec<TokenId>,
    /// What `echo` repeats.
    pub(super) text: String,
}

pub(crate) async fn completions(call: Call) -> Result<Response, Failure> {
    let body = Arc::new(call.json().await?);
    let fields = Fields::of_request(&body)?;
    let prompts = call.read(&body, prompts).await?;
    let mut options = options::options(&call.app, &fields)?;
    options.max_tokens.get_or_insert(DEFAULT_TOKENS);
    if let Some(top) = log_probs(&fields)? {
        options.params.logprobs = Some(top);
    }
    let echo = fields.flag("echo")?.unwrap_or(false);
    let best_of = fields.count("best_of")?.unwrap_or(options.answers);
    if best_of != options.answers {
        return Err(fields.wrong("best_of", "must be as n; answers are not ranked"));
    }
    let shape = options::shape(&fields)?;
    let header = Header::new(&call, "cmpl-", fields.text("model")?);
    let wants = Wants::of(&fields)?;
    let mut runs = Vec::new();
    for prompt in prompts {
        let read = match options.params.logprobs.filter(|_| echo) {
            Some(top) => prompt_tokens(&call.app, prompt.tokens.clone(), top).await?,
            None => Vec::new(),
        };
        let order = Order::text(prompt.tokens, options.clone(), shape.clone());
        let echo = if echo { prompt.text } else { String::new() };
        runs.push(Run { generation: Generation::begin(&call.app, order).await?, echo, read });
    }
    if fields.flag("stream")?.unwrap_or(false) {
        let app = Arc::clone(&call.app);
        let keep_alive = app.settings.keep_alive;
        return Ok(stream::stream(Framing::Events, keep_alive, |writer| async move {
            write(&app, &header, wants, &writer, runs).await
        }));
    }
    whole(&call.app, &header, runs).await
}

/// A prompt under way.
struct Run {
    generation: Generation,
    echo: String,
    /// How likely the prompt's tokens were, if that is to be told.
    read: Vec<TokenReport>,
}

/// How likely the tokens of a prompt are.
async fn prompt_tokens(app: &App, tokens: Vec<TokenId>, top: u8) -> Result<Vec<TokenReport>, Failure> {
    match read(app, tokens, Aim::LogProbs(top)).await? {
        ReadResult::LogProbs(reports) => Ok(reports),
        ReadResult::Embedding(_) => Ok(Vec::new()),
    }
}

fn log_probs(fields: &Fields<'_>) -> Result<Option<u8>, Failure> {
    let top = match fields.get("logprobs") {
        None | Some(Value::Bool(false)) => return Ok(None),
        Some(Value::Bool(true)) => 0,
        Some(_) => fields.count("logprobs")?.unwrap_or(0),
    };
    match u8::try_from(top) {
        Ok(top) if top <= 20 => Ok(Some(top)),
        _ => Err(fields.wrong("logprobs", "must be at most 20")),
    }
}

/// The prompts: a text, a list of tokens, or a list of either. With a suffix, a text in the form for filling in.
pub(super) fn prompts(app: &App, fields: &Fields<'_>) -> Result<Vec<Prompt>, Failure> {
    let value = fields.get("prompt").ok_or_else(|| fields.wrong("prompt", "is missing"))?;
    if let Some(suffix) = fields.text("suffix")?.filter(|suffix| !suffix.is_empty()) {
        let text =
            value.as_str().ok_or_else(|| fields.wrong("prompt", "must be a string beside a suffix"))?;
        return infill::with_suffix(app, text, suffix).map(|prompt| vec![prompt]);
    }
    let Some(items) = texts::list(value).filter(|items| !items.is_empty()) else {
        return Ok(vec![prompt(app, fields, value)?]);
    };
    if items.len() > MOST_PROMPTS {
        return Err(fields.wrong("prompt", format_args!("must be at most {MOST_PROMPTS} prompts")));
    }
    items.iter().map(|item| prompt(app, fields, item)).collect()
}

fn prompt(app: &App, fields: &Fields<'_>, value: &Value) -> Result<Prompt, Failure> {
    let tokens = texts::tokens(app, fields, "prompt", value)?;
    let text = value.as_str().map_or_else(|| app.decode(&tokens), ToOwned::to_owned);
    Ok(Prompt { tokens, text })
}

/// A choice put together.
#[derive(Default)]
struct Choice {
    text: String,
    tokens: Vec<TokenReport>,
    finish: Option<&'static str>,
}

async fn whole(app: &App, header: &Header, runs: Vec<Run>) -> Result<Response, Failure> {
    let mut document = header.document("text_completion");
    let mut choices = Vec::new();
    let mut sum = Total::default();
    for mut run in runs {
        let mut answers: Vec<Choice> = (0..run.generation.answers()).map(|_| Choice::default()).collect();
        let mut total = Total::default();
        while let Some((index, part)) = run.generation.next().await {
            match part {
                Part::Prefill(_) => {}
                Part::More { text, tokens, .. } => {
                    answers[index].text.push_str(&text);
                    answers[index].tokens.extend(tokens);
                }
                Part::Over(ending) => {
                    total.add(&ending);
                    answers[index].finish = Some(ending.reason.word());
                    document.insert("timings".into(), ending.timings());
                }
                Part::Failed(failure) => return Err(failure),
            }
        }
        sum.prompt = sum.prompt.saturating_add(total.prompt);
        sum.cached = sum.cached.saturating_add(total.cached);
        sum.generated = sum.generated.saturating_add(total.generated);
        for answer in answers {
            let mut offset = if run.read.is_empty() { run.echo.chars().count() } else { 0 };
            let tokens: Vec<TokenReport> = run.read.iter().cloned().chain(answer.tokens).collect();
            choices.push(json!({
                "text": format!("{}{}", run.echo, answer.text),
                "index": choices.len(),
                "logprobs": logprobs::completion(app, &tokens, &mut offset),
                "finish_reason": answer.finish,
            }));
        }
    }
    document.insert("choices".into(), choices.into());
    document.insert("usage".into(), sum.usage());
    Ok(json(StatusCode::OK, &Value::Object(document)))
}

/// Streams the prompts one behind the other; their computation goes on side by side.
async fn write(
    app: &App,
    header: &Header,
    wants: Wants,
    writer: &Writer,
    runs: Vec<Run>,
) -> Result<(), Gone> {
    let mut sum = Total::default();
    let mut first = 0;
    let chunk = |index: usize, text: &str, log_probs: Option<Value>, finish: Option<&str>| {
        let mut document: Map<String, Value> = header.document("text_completion");
        let choice = json!({ "text": text, "index": index, "logprobs": log_probs, "finish_reason": finish });
        document.insert("choices".into(), json!([choice]));
        if wants.usage {
            document.insert("usage".into(), Value::Null);
        }
        document
    };
    for mut run in runs {
        let answers = run.generation.answers();
        let mut offsets = vec![run.echo.chars().count(); answers];
        let mut total = Total::default();
        if !run.echo.is_empty() {
            for index in 0..answers {
                let log_probs = logprobs::completion(app, &run.read, &mut 0);
                writer.data(&Value::Object(chunk(first + index, &run.echo, log_probs, None))).await?;
            }
        }
        while let Some((index, part)) = run.generation.next().await {
            let place = first + index;
            match part {
                Part::Prefill(_) => {}
                Part::More { text, tokens, .. } => {
                    let log_probs = logprobs::completion(app, &tokens, &mut offsets[index]);
                    if !text.is_empty() || log_probs.is_some() {
                        writer.data(&Value::Object(chunk(place, &text, log_probs, None))).await?;
                    }
                }
                Part::Over(ending) => {
                    total.add(&ending);
                    let mut document = chunk(place, "", None, Some(ending.reason.word()));
                    document.insert("timings".into(), ending.timings());
                    writer.data(&Value::Object(document)).await?;
                }
                Part::Failed(failure) => {
                    writer.data(&failure.document(Dialect::OpenAi)).await?;
                    return writer.done().await;
                }
            }
        }
        first += answers;
        sum.prompt = sum.prompt.saturating_add(total.prompt);
        sum.cached = sum.cached.saturating_add(total.cached);
        sum.generated = sum.generated.saturating_add(total.generated);
    }
    if wants.usage {
        let mut document = header.document("text_completion");
        document.insert("choices".into(), json!([]));
        document.insert("usage".into(), sum.usage());
        writer.data(&Value::Object(document)).await?;
    }
    writer.done().await
}
