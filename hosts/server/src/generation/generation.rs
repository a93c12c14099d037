//! One generation, whatever protocol asked for it: jobs for the engine, and the parts of the answers as they come.

use crate::app::App;
use crate::error::{Failure, Kind};
use alloc::sync::Arc;
use core::future::Future;
use core::hash::BuildHasher as _;
use core::pin::Pin;
use doorbell_core::engine::{FinishReason, Usage};
use doorbell_core::sample::{DryBreakers, LogitBias, SamplerParams};
use doorbell_core::token::TokenId;
use doorbell_runtime::answer::{AnswerParser, Delta};
use doorbell_runtime::constrain::{Constraint, GrammarSpec, ReasoningBudget};
use doorbell_runtime::serve::{Finish, GenerationParams, Job, JobHandle, TokenReport, Update};
use doorbell_runtime::timings::{RequestTimings, milliseconds};
use serde_json::{Value, json};
use std::time::Instant;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Answers that one request may ask for.
pub(crate) const MAX_ANSWERS: u32 = 64;

/// Texts that one request may end at: all are looked for with every token.
const MAX_STOPS: usize = 256;

/// How an answer is to be generated.
#[derive(Clone, Debug)]
pub(crate) struct GenerationOptions {
    /// `None`: as many as the context holds.
    pub(crate) max_tokens: Option<u32>,
    pub(crate) params: SamplerParams,
    /// `None`: a new one for every request.
    pub(crate) seed: Option<u64>,
    pub(crate) bias: Vec<LogitBias>,
    /// Where repetitions end, for DRY.
    pub(crate) breakers: Option<Arc<DryBreakers<'static>>>,
    pub(crate) stops: Vec<String>,
    pub(crate) ignore_end: bool,
    /// Answers to the same prompt.
    pub(crate) answers: u32,
    /// Tokens that reasoning may have.
    pub(crate) reasoning_budget: Option<u32>,
    /// Whether what the cache knows of the prompt is used.
    pub(crate) reuse: bool,
    /// The slot to be noted in.
    pub(crate) slot: Option<u32>,
}

/// What is to be generated.
pub(crate) struct GenerationRequest {
    pub(crate) prompt: Vec<TokenId>,
    /// What was tokenized, if it is to be told.
    pub(crate) text: String,
    pub(crate) options: GenerationOptions,
    /// Reads the answers; without one they are text.
    pub(crate) parser: Option<AnswerParser>,
    /// Whether control tokens show.
    pub(crate) special: bool,
    pub(crate) shape: Option<GrammarSpec>,
    /// How long reasoning may go on.
    pub(crate) budget: Option<ReasoningBudget>,
    /// Whether an answer ends with its first call.
    pub(crate) one_call: bool,
}

impl GenerationRequest {
    /// Text, as the model says it.
    pub(crate) fn text(prompt: Vec<TokenId>, options: GenerationOptions, shape: Option<GrammarSpec>) -> Self {
        let text = String::new();
        Self { prompt, text, options, parser: None, special: false, shape, budget: None, one_call: false }
    }
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The model ended its turn.
    Stop,
    /// This stop text came.
    StopText(String),
    /// A limit.
    Length,
    /// The answer calls tools.
    Calls,
}

impl Reason {
    /// `OpenAI`'s word.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Stop | Self::StopText(_) => "stop",
            Self::Length => "length",
            Self::Calls => "tool_calls",
        }
    }
}

/// The end of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) reason: Reason,
    pub(crate) usage: Usage,
    /// Tokens between the marks of reasoning.
    pub(crate) reasoning_tokens: u32,
    /// Whether the context was full before the answer ended.
    pub(crate) truncated: bool,
}

/// What came.
#[derive(Debug)]
pub(crate) enum Event {
    /// Event of the prompt has been computed, or is known to be in the cache.
    Prefill(PromptProgress),
    /// More of the answer: its parts, the text before it was read, and the tokens.
    More { deltas: Vec<Delta>, text: String, tokens: Vec<TokenReport> },
    /// The answer is over.
    Over(Ending),
    /// The answer failed.
    Failed(Failure),
}

/// How far the prompt of an answer has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PromptProgress {
    /// Tokens that were in the cache.
    pub(crate) cached: u32,
    /// Tokens that are computed, with those.
    pub(crate) done: u32,
    pub(crate) total: u32,
    /// When it had its place.
    begun: Instant,
    /// When the last part of it was told.
    told: Instant,
}

impl PromptProgress {
    /// llama-server's `prompt_progress`.
    pub(crate) fn document(&self) -> Value {
        let time = self.told.duration_since(self.begun).as_millis() as u64;
        json!({ "total": self.total, "cache": self.cached, "processed": self.done, "time_ms": time })
    }
}

/// One answer of a generation.
struct Answer {
    progress: Option<PromptProgress>,
    /// When its first token came.
    first: Option<Instant>,
    /// Tokens so far.
    tokens: u32,
    parser: Option<AnswerParser>,
    ticket: Option<JobHandle>,
    one_call: bool,
    /// Cut behind its first call.
    cut: bool,
    reasoning_tokens: u32,
    over: bool,
}

/// Answers under way. Dropping it cancels them.
pub(crate) struct Generation {
    app: Arc<App>,
    updates: UnboundedReceiver<(usize, Update)>,
    /// Comes when the server ends, which the engine may learn only behind a step that takes longer.
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
    answers: Vec<Answer>,
    early: Vec<(usize, Update)>,
    pub(crate) prompt_tokens: usize,
}

/// Refuses what would cost more with every token than a token does.
fn bounded(app: &App, options: &GenerationOptions) -> Result<(), Failure> {
    if options.stops.len() > MAX_STOPS {
        return Err(Failure::new(Kind::Invalid, format_args!("there may be at most {MAX_STOPS} stop texts")));
    }
    if options.bias.len() > app.model.tokenizer.vocab_len() {
        return Err(Failure::field("logit_bias", "names more tokens than the vocabulary has"));
    }
    Ok(())
}

/// A seed that nobody chose. Below 2^53, so that it survives readers of JSON that know only doubles.
pub(crate) fn random_seed() -> u64 {
    std::hash::RandomState::new().hash_one(0) >> 11
}

/// A constraint for each answer. Compiling takes its time, so not on the threads that serve sockets.
async fn constraints(
    app: &Arc<App>,
    shape: Option<GrammarSpec>,
    count: u32,
) -> Result<Vec<Constraint>, Failure> {
    let Some(shape) = shape else { return Ok(Vec::new()) };
    let app = Arc::clone(app);
    let compiling = tokio::task::spawn_blocking(move || {
        (0..count)
            .map(|_| app.grammars.constraint(app.model.tokenizer, &shape))
            .collect::<Result<Vec<_>, _>>()
    });
    Ok(compiling.await.map_err(|error| Failure::new(Kind::Internal, error))??)
}

impl Generation {
    /// Hands the order to the engine and waits until it is taken, so that refusals come before the first byte.
    pub(crate) async fn begin(app: &Arc<App>, order: GenerationRequest) -> Result<Self, Failure> {
        bounded(app, &order.options)?;
        let seed = order.options.seed.unwrap_or_else(random_seed);
        let prompt_tokens = order.prompt.len();
        let count = order.options.answers.max(1);
        let mut constraints = constraints(app, order.shape, count).await?;
        let (sender, updates) = unbounded_channel();
        let mut answers = Vec::new();
        for number in 0..count {
            let index = answers.len();
            let sender = sender.clone();
            let constraint = constraints.pop();
            let mut sampler = order.options.params.clone();
            // answers of one request differ, and so do those of seeds that are neighbors
            sampler.seed = seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let job = Job {
                prompt: order.prompt.clone(),
                params: GenerationParams {
                    max_tokens: order.options.max_tokens.unwrap_or(u32::MAX),
                    sampler,
                    bias: order.options.bias.clone(),
                    dry_breakers: order.options.breakers.clone(),
                    ignore_end: order.options.ignore_end,
                    skip_prefix_cache: !order.options.reuse,
                },
                stops: order.options.stops.clone(),
                special: order.special,
                constraint,
                budget: order.budget.clone(),
                slot: order.options.slot,
                // a reader that has gone drops the ticket, too
                on_update: Box::new(move |update| _ = sender.send((index, update))),
            };
            let ticket = Some(app.model.service.submit(job)?);
            let parser = order.parser.clone();
            let one_call = order.one_call;
            answers.push(Answer {
                progress: None,
                first: None,
                tokens: 0,
                parser,
                ticket,
                one_call,
                cut: false,
                reasoning_tokens: 0,
                over: false,
            });
        }
        let mut cut = app.cut.subscribe();
        let cut = Box::pin(async move { _ = cut.wait_for(|&cut| cut).await });
        let mut generation =
            Self { app: Arc::clone(app), updates, cut, answers, early: Vec::new(), prompt_tokens };
        generation.accepted().await?;
        generation.early.reverse();
        Ok(generation)
    }

    /// How many answers there are.
    pub(crate) fn answers(&self) -> usize {
        self.answers.len()
    }

    /// Waits until all answers are taken.
    async fn accepted(&mut self) -> Result<(), Failure> {
        let mut waiting = self.answers.len();
        while waiting > 0 {
            match self.updates.recv().await {
                Some((_, Update::Accepted)) => waiting -= 1,
                Some((_, Update::Refused(error))) => {
                    self.app.metrics.refused();
                    return Err(error.into());
                }
                Some((_, Update::Finished(Finish { reason: FinishReason::Cancelled, .. }))) | None => {
                    return Err(Failure::new(Kind::Unavailable, "the server is shutting down"));
                }
                Some(early) => self.early.push(early),
            }
        }
        Ok(())
    }

    /// The next part, and of which answer; `None` when all are over.
    pub(crate) async fn next(&mut self) -> Option<(usize, Event)> {
        loop {
            if self.answers.iter().all(|answer| answer.over) {
                return None;
            }
            let update = match self.early.pop() {
                Some(update) => update,
                None => match self.heard().await {
                    Some(update) => update,
                    None => return Some(self.lost()),
                },
            };
            let (index, update) = update;
            match update {
                Update::Prefill { done, total } => {
                    return Some((index, Event::Prefill(self.answers[index].prompt(done, total))));
                }
                Update::Piece(piece) => {
                    self.answers[index].count(piece.tokens.len());
                    if let Some(part) = self.answers[index].take(piece.text, piece.tokens) {
                        return Some((index, part));
                    }
                }
                Update::Finished(finish) => return Some((index, self.finish(index, finish))),
                _ => {}
            }
        }
    }

    /// llama-server's `timings` of an answer that is not over.
    pub(crate) fn timings(&self, index: usize) -> Value {
        self.answers[index].timings()
    }

    /// What the engine tells next; `None` if no more is heard of it.
    async fn heard(&mut self) -> Option<(usize, Update)> {
        tokio::select! {
            biased;
            update = self.updates.recv() => update,
            () = &mut self.cut => None,
        }
    }

    /// The server ends, or the engine's thread has ended without a word.
    fn lost(&mut self) -> (usize, Event) {
        let index = self.answers.iter().position(|answer| !answer.over).unwrap_or(0);
        self.answers.iter_mut().for_each(|answer| answer.over = true);
        let ends = *self.app.cut.borrow();
        let why =
            if ends { "the server is shutting down" } else { "the engine has ended; start the server again" };
        (index, Event::Failed(Failure::new(Kind::Unavailable, why)))
    }

    fn finish(&mut self, index: usize, finish: Finish) -> Event {
        let answer = &mut self.answers[index];
        // what the parser held back comes first
        let mut deltas = Vec::new();
        if let Some(mut parser) = answer.parser.take() {
            let calls_before = parser.calls();
            if !answer.cut {
                parser.finish(&mut deltas);
                answer.limit(&mut deltas);
            }
            answer.cut |= parser.calls() > 0 || calls_before > 0;
        }
        if !deltas.is_empty() {
            self.early.push((index, Update::Finished(finish)));
            return Event::More { deltas, text: String::new(), tokens: Vec::new() };
        }
        answer.over = true;
        answer.ticket = None;
        if !answer.cut
            && let Some(failure) = Failure::of_finish(&finish)
        {
            self.app.metrics.failed();
            return Event::Failed(failure);
        }
        let truncated = finish.reason == FinishReason::ContextFull;
        let reason = match finish.reason {
            FinishReason::MaxTokens | FinishReason::ContextFull => Reason::Length,
            _ if answer.cut => Reason::Calls,
            FinishReason::StopString(_) => Reason::StopText(finish.stop_text.unwrap_or_default()),
            _ => Reason::Stop,
        };
        let (usage, reasoning_tokens) = (finish.usage, answer.reasoning_tokens);
        let ending = Ending { reason, usage, reasoning_tokens, truncated };
        self.app.metrics.finished(&ending);
        if let Ok(mut last) = self.app.last.lock() {
            *last = Some(ending.clone());
        }
        Event::Over(ending)
    }
}

impl Answer {
    fn prompt(&mut self, done: u32, total: u32) -> PromptProgress {
        let now = Instant::now();
        let progress =
            self.progress.get_or_insert(PromptProgress { cached: done, done, total, begun: now, told: now });
        (progress.done, progress.told) = (done, now);
        *progress
    }

    fn count(&mut self, tokens: usize) {
        self.first.get_or_insert_with(Instant::now);
        self.tokens = self.tokens.saturating_add(u32::try_from(tokens).unwrap_or(u32::MAX));
    }

    fn timings(&self) -> Value {
        let Some(progress) = self.progress else { return timings([0, 0, 0], [0.0; 3]) };
        let milliseconds = |from: Instant, to: Instant| to.duration_since(from).as_secs_f64() * 1e3;
        let prompt = milliseconds(progress.begun, self.first.unwrap_or(progress.told));
        let predicted = self.first.map_or(0.0, |first| milliseconds(first, Instant::now()));
        timings(
            [progress.cached, progress.done.saturating_sub(progress.cached), self.tokens],
            [prompt, predicted, 0.0],
        )
    }

    /// Reads more text; `None` if nothing is to be told.
    fn take(&mut self, text: String, tokens: Vec<TokenReport>) -> Option<Event> {
        if self.cut {
            return None;
        }
        let mut deltas = Vec::new();
        match &mut self.parser {
            Some(parser) => {
                let reasons = parser.reasons();
                parser.push(&text, &mut deltas);
                // the marks on either side are not counted
                if reasons && parser.reasons() {
                    self.reasoning_tokens += u32::try_from(tokens.len()).unwrap_or(u32::MAX);
                }
            }
            None if text.is_empty() => {}
            None => deltas.push(Delta::Text(text.clone())),
        }
        self.limit(&mut deltas);
        Some(Event::More { deltas, text, tokens })
    }

    /// Ends the answer behind its first call, if it may have only one.
    fn limit(&mut self, deltas: &mut Vec<Delta>) {
        let second = |delta: &Delta| match delta {
            Delta::Call { index, .. } | Delta::Arguments { index, .. } => *index > 0,
            _ => false,
        };
        if self.one_call
            && let Some(at) = deltas.iter().position(second)
        {
            deltas.truncate(at);
            self.cut = true;
            self.ticket = None;
        }
    }
}

/// Times of an ending, ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) queue: f64,
    /// From the first step to the first token.
    pub(crate) prompt: f64,
    /// From the first token to the end.
    pub(crate) predicted: f64,
    pub(crate) total: f64,
}

impl Ending {
    pub(crate) fn times(&self) -> Times {
        let timings = RequestTimings::new(&self.usage);
        Times {
            queue: milliseconds(timings.queue),
            prompt: milliseconds(timings.prefill),
            predicted: milliseconds(timings.decode),
            total: milliseconds(timings.total),
        }
    }

    /// llama-server's `timings`.
    pub(crate) fn timings(&self) -> Value {
        let times = self.times();
        let computed = self.usage.prompt_tokens.saturating_sub(self.usage.cached_tokens);
        let counts = [self.usage.cached_tokens, computed, self.usage.generated_tokens];
        timings(counts, [times.prompt, times.predicted, times.queue])
    }
}

/// llama-server's `timings`: tokens found in the cache, computed and generated; ms of the prompt, of the answer and
/// in the queue. The first token costs no step of its own.
fn timings([cached, computed, generated]: [u32; 3], [prompt, predicted, queue]: [f64; 3]) -> Value {
    let per = |time: f64, count: u32| if count > 0 { time / f64::from(count) } else { 0.0 };
    let rate = |time: f64, count: u32| if time > 0.0 { f64::from(count) * 1e3 / time } else { 0.0 };
    let steps = generated.saturating_sub(1);
    json!({
        "cache_n": cached,
        "prompt_n": computed,
        "prompt_ms": prompt,
        "prompt_per_token_ms": per(prompt, computed),
        "prompt_per_second": rate(prompt, computed),
        "predicted_n": generated,
        "predicted_ms": predicted,
        "predicted_per_token_ms": per(predicted, steps),
        "predicted_per_second": rate(predicted, steps),
        "queue_ms": queue,
    })
}

/// The sum of what answers to one prompt used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    pub(crate) prompt: u32,
    pub(crate) cached: u32,
    pub(crate) generated: u32,
    pub(crate) reasoning: u32,
}

impl Total {
    pub(crate) fn add(&mut self, ending: &Ending) {
        // what one answer computes, the others find
        let least = if self.prompt == 0 { u32::MAX } else { self.cached };
        self.cached = least.min(ending.usage.cached_tokens);
        self.prompt = ending.usage.prompt_tokens;
        self.generated = self.generated.saturating_add(ending.usage.generated_tokens);
        self.reasoning = self.reasoning.saturating_add(ending.reasoning_tokens);
    }

    /// `OpenAI`'s `usage`.
    pub(crate) fn usage(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.generated,
            "total_tokens": self.prompt.saturating_add(self.generated),
            "prompt_tokens_details": { "cached_tokens": self.cached },
            "completion_tokens_details": { "reasoning_tokens": self.reasoning },
        })
    }
}
