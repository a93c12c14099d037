//! `/v1/completions`: prompts are continued as they stand.

use super::prompts::prompts;
use super::stream_extras::StreamExtras;
use super::{document, logprobs, options};
use crate::answer_header::AnswerHeader;
use crate::app::App;
use crate::error::{Dialect, Failure};
use crate::fields::Fields;
use crate::generation::{
    CollectedAnswer, Event, Generation, GenerationRequest, MAX_ANSWERS, UsageTotal, collect,
};
use crate::pooling::pool;
use crate::request_context::RequestContext;
use crate::stream::{self, Framing, Writer, json};
use alloc::sync::Arc;
use axum::http::StatusCode;
use axum::response::Response;
use doorbell_core::token::TokenId;
use doorbell_runtime::serve::{PoolingResult, PoolingTask, TokenReport};
use serde_json::{Map, Value, json};

/// `OpenAI`'s default for the number of generated tokens.
const DEFAULT_TOKENS: u32 = 16;

/// The `object` of the documents.
const COMPLETION: &str = "text_completion";

pub(crate) async fn completions(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    let prompts = request.read(&body, prompts).await?;
    let mut options = request.read(&body, options::options).await?;
    options.params.max_tokens = options::max_tokens(&fields)?.unwrap_or(DEFAULT_TOKENS);
    let log_probs = log_probs(&fields)?;
    options.params.sampler.logprobs = log_probs;
    let echo = fields.flag("echo")?.unwrap_or(false);
    let stream = fields.flag("stream")?.unwrap_or(false);
    let reported = Reported { answers: options.answers as usize, log_probs: log_probs.is_some() };
    if let Some(best_of) = best_of(&fields, options.answers, stream)? {
        options.answers = best_of;
        options.params.sampler.logprobs.get_or_insert(0);
    }
    let most = request.app.answers.limit();
    if prompts.len().saturating_mul(options.answers as usize) > most as usize {
        return Err(fields.wrong("n", format_args!("must be at most {most} for all prompts together")));
    }
    let repeated = prompts.iter().map(|prompt| prompt.text.len()).sum::<usize>();
    if echo && repeated.saturating_mul(options.answers as usize) > request.app.settings.body_limit {
        return Err(fields.wrong("echo", "would repeat more text than a request may have"));
    }
    let format = options::answer_format(&fields)?;
    let header = AnswerHeader::new(&request, "cmpl-", &fields)?;
    let extras = StreamExtras::of(&fields)?;
    let mut running = Vec::new();
    for prompt in prompts {
        let prompt_tokens = match log_probs.filter(|_| echo) {
            Some(top) => prompt_log_probs(&request.app, prompt.tokens.clone(), top).await?,
            None => Vec::new(),
        };
        let generated = GenerationRequest::plain(prompt.tokens, options.clone(), format.clone());
        let echo = if echo { prompt.text } else { String::new() };
        let generation = Generation::begin(&request, generated).await?;
        running.push(RunningPrompt { generation, echo, prompt_tokens });
    }
    if stream {
        let app = Arc::clone(&request.app);
        return Ok(stream::stream(Framing::Events, &request.app.streams, |writer| async move {
            Chunks { app, header, extras, writer }.write(running).await;
        }));
    }
    let mut collected = Vec::new();
    for RunningPrompt { generation, echo, prompt_tokens } in running {
        collected.push(CollectedPrompt { answers: collect(generation).await?, echo, prompt_tokens });
    }
    let app = Arc::clone(&request.app);
    request.work(move || Ok(completion(&app, &header, reported, collected))).await
}

/// The part of the answers to a prompt that a response has.
#[derive(Clone, Copy)]
struct Reported {
    /// Number of answers; the likeliest ones if more are generated.
    answers: usize,
    log_probs: bool,
}

/// The number of answers to choose the likeliest from, if it differs from the number to report.
fn best_of(fields: &Fields<'_>, answers: u32, stream: bool) -> Result<Option<u32>, Failure> {
    match fields.count("best_of")?.filter(|&count| count != answers) {
        Some(count) if count < answers || count > MAX_ANSWERS => {
            Err(fields.wrong("best_of", format_args!("must be from n to {MAX_ANSWERS}")))
        }
        Some(_) if stream => Err(fields.wrong("best_of", "must be n in a stream, which can't know the best")),
        count => Ok(count),
    }
}

/// A prompt whose answers are generated.
struct RunningPrompt {
    generation: Generation,
    /// Text to put before each answer; empty if the request does not want it.
    echo: String,
    /// Log-probabilities of the prompt's tokens, if the response has them.
    prompt_tokens: Vec<TokenReport>,
}

/// The log-probabilities of a prompt's tokens.
async fn prompt_log_probs(app: &App, tokens: Vec<TokenId>, top: u8) -> Result<Vec<TokenReport>, Failure> {
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

/// The mean log-probability of an answer's tokens. An answer without tokens is never the best.
fn likelihood(answer: &CollectedAnswer) -> f32 {
    let chosen = answer.tokens.iter().filter_map(|report| report.log_probs.as_ref());
    let sum: f32 = chosen.map(|(log_prob, _)| log_prob).sum();
    if answer.tokens.is_empty() { f32::NEG_INFINITY } else { sum / answer.tokens.len() as f32 }
}

/// A prompt whose answers are complete.
struct CollectedPrompt {
    answers: Vec<CollectedAnswer>,
    echo: String,
    prompt_tokens: Vec<TokenReport>,
}

/// The document of all answers to all prompts.
fn completion(
    app: &App,
    header: &AnswerHeader,
    reported: Reported,
    collected: Vec<CollectedPrompt>,
) -> Response {
    let mut document = document::begin(header, COMPLETION);
    let mut choices = Vec::new();
    let mut sum = UsageTotal::default();
    for CollectedPrompt { mut answers, echo, prompt_tokens } in collected {
        let mut total = UsageTotal::default();
        let outcomes = || answers.iter().filter_map(|answer| answer.outcome.as_ref());
        outcomes().for_each(|outcome| total.add_answer(outcome));
        if let Some(last) = outcomes().max_by_key(|outcome| outcome.usage.finished) {
            document.insert("timings".into(), last.timings().document());
        }
        sum.add_prompt(&total);
        if answers.len() > reported.answers {
            answers.sort_by(|one, other| likelihood(other).total_cmp(&likelihood(one)));
            answers.truncate(reported.answers);
        }
        for answer in answers {
            let mut offset = if prompt_tokens.is_empty() { echo.chars().count() } else { 0 };
            let tokens: Vec<TokenReport> = prompt_tokens.iter().cloned().chain(answer.tokens).collect();
            choices.push(json!({
                "text": format!("{echo}{}", answer.text),
                "index": choices.len(),
                "logprobs": reported.log_probs.then(|| logprobs::completion(app, &tokens, &mut offset)),
                "finish_reason": answer.outcome.as_ref().map(document::finish_reason),
            }));
        }
    }
    document.insert("choices".into(), choices.into());
    document.insert("usage".into(), document::usage(&sum));
    json(StatusCode::OK, &Value::Object(document))
}

/// Writes the chunks of a stream.
struct Chunks {
    app: Arc<App>,
    header: AnswerHeader,
    extras: StreamExtras,
    writer: Writer,
}

impl Chunks {
    /// Streams the prompts one after the other; they are computed at the same time.
    async fn write(&self, running: Vec<RunningPrompt>) {
        let mut sum = UsageTotal::default();
        let mut first = 0;
        for prompt in running {
            let answers = prompt.generation.answers();
            match self.write_prompt(first, prompt).await {
                Ok(total) => sum.add_prompt(&total),
                Err(failure) => {
                    self.writer.data(&failure.document(Dialect::OpenAi));
                    return self.writer.done();
                }
            }
            first += answers;
        }
        if self.extras.usage {
            let mut document = document::begin(&self.header, COMPLETION);
            document.insert("choices".into(), json!([]));
            document.insert("usage".into(), document::usage(&sum));
            self.writer.data(&Value::Object(document));
        }
        self.writer.done();
    }

    /// Streams the answers to a prompt, whose first choice has the index `first`.
    async fn write_prompt(&self, first: usize, mut prompt: RunningPrompt) -> Result<UsageTotal, Failure> {
        let answers = prompt.generation.answers();
        let mut offsets = vec![prompt.echo.chars().count(); answers];
        let mut total = UsageTotal::default();
        if !prompt.echo.is_empty() {
            for index in 0..answers {
                let log_probs = logprobs::completion(&self.app, &prompt.prompt_tokens, &mut 0);
                let chunk = self.chunk(first + index, &prompt.echo, log_probs, None);
                self.writer.data(&Value::Object(chunk));
            }
        }
        while let Some((index, event)) = prompt.generation.next().await {
            let choice = first + index;
            match event {
                Event::Prompt(_) => {}
                Event::Output { text, tokens, .. } => {
                    let log_probs = logprobs::completion(&self.app, &tokens, &mut offsets[index]);
                    if !text.is_empty() || log_probs.is_some() {
                        self.writer.data(&Value::Object(self.chunk(choice, &text, log_probs, None)));
                    }
                }
                Event::Finished(outcome) => {
                    total.add_answer(&outcome);
                    let finish_reason = Some(document::finish_reason(&outcome));
                    let mut document = self.chunk(choice, "", None, finish_reason);
                    document.insert("timings".into(), outcome.timings().document());
                    self.writer.data(&Value::Object(document));
                }
                Event::Failed(failure) => return Err(failure),
            }
        }
        Ok(total)
    }

    fn chunk(
        &self,
        index: usize,
        text: &str,
        log_probs: Option<Value>,
        finish_reason: Option<&str>,
    ) -> Map<String, Value> {
        let mut document = document::begin(&self.header, COMPLETION);
        let choice =
            json!({ "text": text, "index": index, "logprobs": log_probs, "finish_reason": finish_reason });
        document.insert("choices".into(), json!([choice]));
        if self.extras.usage {
            document.insert("usage".into(), Value::Null);
        }
        document
    }
}
