//! `/v1/completions`: prompts are continued as they stand.

use super::chat::{AnswerHeader, StreamExtras};
use super::{infill, logprobs, options};
use crate::app::App;
use crate::error::{Dialect, Failure};
use crate::fields::Fields;
use crate::generation::{Event, Generation, GenerationRequest, MAX_ANSWERS, Total};
use crate::pooling::pool;
use crate::prompt_input;
use crate::request_context::RequestContext;
use crate::stream::{self, Framing, Writer, json};
use alloc::sync::Arc;
use axum::http::StatusCode;
use axum::response::Response;
use doorbell_core::token::TokenId;
use doorbell_runtime::serve::{PoolingResult, PoolingTask, TokenReport};
use serde_json::{Map, Value, json};

/// Prompts of one request.
const MAX_PROMPTS: usize = 64;

/// Answers to all prompts of one request: more would wait behind each other, and for ever where not so many can wait.
const MAX_TOTAL_ANSWERS: usize = 256;

/// Tokens that a request without a limit gets, as `OpenAI` has it.
const DEFAULT_TOKENS: u32 = 16;

/// One prompt.
pub(crate) struct Prompt {
    pub(crate) tokens: Vec<TokenId>,
    /// What `echo` repeats.
    pub(super) text: String,
}

pub(crate) async fn completions(request: RequestContext) -> Result<Response, Failure> {
    let body = Arc::new(request.json().await?);
    let fields = Fields::of_request(&body)?;
    let prompts = request.read(&body, prompts).await?;
    let mut options = request.read(&body, options::options).await?;
    options.max_tokens.get_or_insert(DEFAULT_TOKENS);
    let log_probs = log_probs(&fields)?;
    options.params.logprobs = log_probs;
    let echo = fields.flag("echo")?.unwrap_or(false);
    let stream = fields.flag("stream")?.unwrap_or(false);
    let told = Told { answers: options.answers as usize, log_probs: log_probs.is_some() };
    if let Some(best_of) = best_of(&fields, options.answers, stream)? {
        options.answers = best_of;
        options.params.logprobs.get_or_insert(0);
    }
    if prompts.len().saturating_mul(options.answers as usize) > MAX_TOTAL_ANSWERS {
        return Err(
            fields.wrong("n", format_args!("must be at most {MAX_TOTAL_ANSWERS} for all prompts together"))
        );
    }
    let shape = options::shape(&fields)?;
    let header = AnswerHeader::new(&request, "cmpl-", fields.text("model")?);
    let extras = StreamExtras::of(&fields)?;
    let mut runs = Vec::new();
    for prompt in prompts {
        let read = match log_probs.filter(|_| echo) {
            Some(top) => prompt_tokens(&request.app, prompt.tokens.clone(), top).await?,
            None => Vec::new(),
        };
        let order = GenerationRequest::text(prompt.tokens, options.clone(), shape.clone());
        let echo = if echo { prompt.text } else { String::new() };
        runs.push(Run { generation: Generation::begin(&request.app, order).await?, echo, read });
    }
    if stream {
        let app = Arc::clone(&request.app);
        return Ok(stream::stream(Framing::Events, &request.app.streams, |writer| async move {
            write(&app, &header, extras, &writer, runs).await;
        }));
    }
    whole(&request.app, &header, told, runs).await
}

/// What of the answers to a prompt is told.
#[derive(Clone, Copy)]
struct Told {
    /// So many, the likeliest if there are more.
    answers: usize,
    log_probs: bool,
}

/// The number of answers of which the likeliest are told, where it is not the number of those.
fn best_of(fields: &Fields<'_>, answers: u32, stream: bool) -> Result<Option<u32>, Failure> {
    match fields.count("best_of")?.filter(|&count| count != answers) {
        Some(count) if count < answers || count > MAX_ANSWERS => {
            Err(fields.wrong("best_of", format_args!("must be from n to {MAX_ANSWERS}")))
        }
        Some(_) if stream => Err(fields.wrong("best_of", "must be n in a stream, which can't know the best")),
        count => Ok(count),
    }
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
    match pool(app, tokens, PoolingTask::LogProbs(top)).await? {
        PoolingResult::LogProbs(reports) => Ok(reports),
        PoolingResult::Embedding(_) => Ok(Vec::new()),
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
    let Some(items) = prompt_input::list(value).filter(|items| !items.is_empty()) else {
        return Ok(vec![prompt(app, fields, value)?]);
    };
    if items.len() > MAX_PROMPTS {
        return Err(fields.wrong("prompt", format_args!("must be at most {MAX_PROMPTS} prompts")));
    }
    items.iter().map(|item| prompt(app, fields, item)).collect()
}

fn prompt(app: &App, fields: &Fields<'_>, value: &Value) -> Result<Prompt, Failure> {
    if let Some(suffix) = fields.text("suffix")?.filter(|suffix| !suffix.is_empty()) {
        let text = value.as_str();
        let text = text.ok_or_else(|| fields.wrong("prompt", "must be of strings beside a suffix"))?;
        return infill::with_suffix(app, text, suffix);
    }
    let tokens = prompt_input::tokens(app, fields, "prompt", value)?;
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

impl Choice {
    /// The mean log-probability of its tokens; nothing is never the best.
    fn likelihood(&self) -> f32 {
        let own = self.tokens.iter().filter_map(|report| report.log_probs.as_ref());
        let sum: f32 = own.map(|(log_prob, _)| log_prob).sum();
        if self.tokens.is_empty() { f32::NEG_INFINITY } else { sum / self.tokens.len() as f32 }
    }
}

async fn whole(app: &App, header: &AnswerHeader, told: Told, runs: Vec<Run>) -> Result<Response, Failure> {
    let mut document = header.document("text_completion");
    let mut choices = Vec::new();
    let mut sum = Total::default();
    for mut run in runs {
        let mut answers: Vec<Choice> = (0..run.generation.answers()).map(|_| Choice::default()).collect();
        let mut total = Total::default();
        while let Some((index, part)) = run.generation.next().await {
            match part {
                Event::Prefill(_) => {}
                Event::More { text, tokens, .. } => {
                    answers[index].text.push_str(&text);
                    answers[index].tokens.extend(tokens);
                }
                Event::Over(ending) => {
                    total.add(&ending);
                    answers[index].finish = Some(ending.reason.word());
                    document.insert("timings".into(), ending.timings());
                }
                Event::Failed(failure) => return Err(failure),
            }
        }
        sum.prompt = sum.prompt.saturating_add(total.prompt);
        sum.cached = sum.cached.saturating_add(total.cached);
        sum.generated = sum.generated.saturating_add(total.generated);
        if answers.len() > told.answers {
            answers.sort_by(|one, other| other.likelihood().total_cmp(&one.likelihood()));
            answers.truncate(told.answers);
        }
        for answer in answers {
            let mut offset = if run.read.is_empty() { run.echo.chars().count() } else { 0 };
            let tokens: Vec<TokenReport> = run.read.iter().cloned().chain(answer.tokens).collect();
            choices.push(json!({
                "text": format!("{}{}", run.echo, answer.text),
                "index": choices.len(),
                "logprobs": told.log_probs.then(|| logprobs::completion(app, &tokens, &mut offset)),
                "finish_reason": answer.finish,
            }));
        }
    }
    document.insert("choices".into(), choices.into());
    document.insert("usage".into(), sum.usage());
    Ok(json(StatusCode::OK, &Value::Object(document)))
}

/// Streams the prompts one behind the other; their computation goes on side by side.
async fn write(app: &App, header: &AnswerHeader, extras: StreamExtras, writer: &Writer, runs: Vec<Run>) {
    let mut sum = Total::default();
    let mut first = 0;
    let chunk = |index: usize, text: &str, log_probs: Option<Value>, finish: Option<&str>| {
        let mut document: Map<String, Value> = header.document("text_completion");
        let choice = json!({ "text": text, "index": index, "logprobs": log_probs, "finish_reason": finish });
        document.insert("choices".into(), json!([choice]));
        if extras.usage {
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
                writer.data(&Value::Object(chunk(first + index, &run.echo, log_probs, None)));
            }
        }
        while let Some((index, part)) = run.generation.next().await {
            let place = first + index;
            match part {
                Event::Prefill(_) => {}
                Event::More { text, tokens, .. } => {
                    let log_probs = logprobs::completion(app, &tokens, &mut offsets[index]);
                    if !text.is_empty() || log_probs.is_some() {
                        writer.data(&Value::Object(chunk(place, &text, log_probs, None)));
                    }
                }
                Event::Over(ending) => {
                    total.add(&ending);
                    let mut document = chunk(place, "", None, Some(ending.reason.word()));
                    document.insert("timings".into(), ending.timings());
                    writer.data(&Value::Object(document));
                }
                Event::Failed(failure) => {
                    writer.data(&failure.document(Dialect::OpenAi));
                    return writer.done();
                }
            }
        }
        first += answers;
        sum.prompt = sum.prompt.saturating_add(total.prompt);
        sum.cached = sum.cached.saturating_add(total.cached);
        sum.generated = sum.generated.saturating_add(total.generated);
    }
    if extras.usage {
        let mut document = header.document("text_completion");
        document.insert("choices".into(), json!([]));
        document.insert("usage".into(), sum.usage());
        writer.data(&Value::Object(document));
    }
    writer.done();
}
